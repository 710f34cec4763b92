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
		w := t.greet(token, false)
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
func (t *T) greet(token string, refresh bool) *Wire {
	t.Helper()
	w := t.Dial(0)
	hello := w.hello()
	if token != "" {
		hello.Connect.AuthMethodName, hello.Connect.AuthData = proto.String("token"), []byte(token)
	}
	hello.Connect.FeatureFlags.SupportsAuthRefresh = proto.Bool(refresh)
	w.Send(hello)
	return w
}

// As connects as a role.
func (t *T) As(role string) *Wire {
	t.Helper()
	w := t.greet(t.Token(role), false)
	w.Expect(pulsarpb.BaseCommand_CONNECTED)
	return w
}

// refresh answers a challenge.
func (w *Wire) refresh(token string) {
	w.t.Helper()
	w.Expect(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_AUTH_RESPONSE.Enum(), AuthResponse: &pulsarpb.CommandAuthResponse{
		Response: &pulsarpb.AuthData{AuthMethodName: proto.String("token"), AuthData: []byte(token)}, ProtocolVersion: proto.Int32(21)}})
}

// When a credential has ended, the broker asks a client for another that said it has some;
// who does not answer, answers with one that has ended, or said nothing, loses the connection.
func credentialsEnd(t *T) {
	connect := func(refresh bool) *Wire {
		w := t.greet(t.Short("admin"), refresh)
		w.Expect(pulsarpb.BaseCommand_CONNECTED)
		return w
	}
	topic := t.Scalable("t", 1).Topic()
	good := connect(true)
	t.CheckCredentials()
	good.refresh(t.Token("admin"))
	good.Watch(topic, 1)
	good.Update(1)
	old, mute, late := connect(false), connect(true), connect(true)
	t.CheckCredentials()
	late.refresh(t.Expired("admin"))
	late.Ended()
	old.Ended()
	mute.Expect(pulsarpb.BaseCommand_AUTH_CHALLENGE)
	t.CheckCredentials()
	mute.Ended()
}
