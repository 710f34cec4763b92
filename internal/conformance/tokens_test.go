package conformance

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func tokenScenarios() []Scenario {
	return []Scenario{
		{Name: "Credentials", Facts: []string{"P35"}, Needs: Tokens, Run: credentials},
		{Name: "CredentialsEnd", Facts: []string{"P36"}, Needs: Tokens, Run: credentialsEnd},
		{Name: "Rights", Facts: []string{"P35"}, Needs: Tokens, Run: rights},
	}
}

// A missing, a bad and an expired token are one error on the wire, which ends the
// connection, and 401 over REST, in HTML.
func credentials(t *T) {
	for name, token := range map[string]string{
		"none": "", "bad": t.Token("admin") + "x", "of another secret": signed([]byte("another"), `{"sub":"admin"}`), "expired": t.Expired("admin"),
	} {
		w := t.Dial(0)
		w.greet(token, false)
		if e := w.Expect(pulsarpb.BaseCommand_ERROR).Command.GetError(); e.GetError() != pulsarpb.ServerError_AuthenticationError {
			t.Errorf("%s: %v", name, e)
		}
		w.Ended()
		if a := t.rest(0, "GET", "scalable/"+t.Namespace, token, nil); a.Code != 401 || !strings.HasPrefix(a.Type, "text/html") {
			t.Errorf("%s: REST %d %s %s", name, a.Code, a.Type, a.Body)
		}
	}
	t.Connect(0).Watch(t.Scalable("t", 1).Topic(), 1)
}

// greet sends CONNECT with a token, or none.
func (w *Wire) greet(token string, refresh bool) {
	hello := w.hello()
	if token != "" {
		hello.Connect.AuthMethodName, hello.Connect.AuthData = proto.String("token"), []byte(token)
	}
	hello.Connect.FeatureFlags.SupportsAuthRefresh = proto.Bool(refresh)
	w.Send(hello)
}

// As connects as a role.
func (t *T) As(role string) *Wire {
	t.Helper()
	w := t.Dial(0)
	w.greet(t.Token(role), false)
	w.Expect(pulsarpb.BaseCommand_CONNECTED)
	return w
}

// Renew has challenges answered as they come: a scenario may have to wait for its turn
// longer than a broker waits for the answer.
func (w *Wire) Renew(token string) {
	w.renew.Store(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_AUTH_RESPONSE.Enum(), AuthResponse: &pulsarpb.CommandAuthResponse{
		Response: &pulsarpb.AuthData{AuthMethodName: proto.String("token"), AuthData: []byte(token)}, ProtocolVersion: proto.Int32(21)}})
}

// When a credential has ended, the broker asks a client for another that said it has some;
// who does not answer, answers with one that has ended, or said nothing, loses the connection.
func credentialsEnd(t *T) {
	connect := func(refresh bool, next string) *Wire {
		w := t.Dial(0)
		if next != "" {
			w.Renew(next)
		}
		w.greet(t.Short("admin"), refresh)
		w.Expect(pulsarpb.BaseCommand_CONNECTED)
		return w
	}
	topic := t.Scalable("t", 1).Topic()
	good := connect(true, t.Token("admin"))
	t.CheckCredentials()
	good.Expect(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	good.Watch(topic, 1)
	good.Update(1)
	old, mute, late := connect(false, ""), connect(true, ""), connect(true, t.Expired("admin"))
	t.CheckCredentials()
	late.Expect(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	late.Ended()
	old.Ended()
	mute.Expect(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	t.CheckCredentials()
	mute.Ended()
}
