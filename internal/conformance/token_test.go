package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Token is a token of a role, as brokers of the Tokens kind take it; admin is a superuser.
func (t *T) Token(role string) string { return signed(t.Secret, fmt.Sprintf(`{"sub":%q}`, role)) }

// Short is a token of a role that ends soon, and not before a loaded broker has looked at it.
func (t *T) Short(role string) string {
	return signed(t.Secret, fmt.Sprintf(`{"sub":%q,"exp":%d}`, role, time.Now().Add(10*time.Second).Unix()))
}

// Expired is a token of a role that has ended.
func (t *T) Expired(role string) string {
	return signed(t.Secret, fmt.Sprintf(`{"sub":%q,"exp":%d}`, role, time.Now().Add(-time.Minute).Unix()))
}

func signed(secret []byte, claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// roleOf is the role that a good token names.
func roleOf(token string) string {
	var c struct {
		Sub string `json:"sub"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		claims, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err != nil || json.Unmarshal(claims, &c) != nil {
			return ""
		}
	}
	return c.Sub
}

// judge is the broker's side of it.
func judge(secret []byte, token string, now time.Time) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !hmac.Equal([]byte(signed(secret, string(claims))), []byte(token)) {
		return false
	}
	var c struct {
		Exp int64 `json:"exp"`
	}
	return json.Unmarshal(claims, &c) == nil && (c.Exp == 0 || now.Unix() < c.Exp)
}
