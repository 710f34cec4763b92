package bridge

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/apache/pulsar-client-go/pulsar/auth"

	"github.com/geobridge/geobridge/config"
)

// newAuth returns the provider of the credential, nil for none. It is read
// again for each connection and each challenge, so one that is missing now is a
// state, not an end.
func newAuth(a config.Auth) auth.Provider {
	switch {
	case a.TokenFile != "":
		return auth.NewAuthenticationTokenFromFile(a.TokenFile)
	case a.TokenEnv != "":
		return auth.NewAuthenticationTokenFromSupplier(func() (string, error) {
			token, ok := os.LookupEnv(a.TokenEnv)
			if !ok || token == "" {
				return "", fmt.Errorf("environment variable %s holds no token", a.TokenEnv)
			}
			return token, nil
		})
	}
	return nil
}

func newTLS(t config.TLS) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file and tls.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
