package conformance

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

func tokenScenarios() []Scenario {
	return []Scenario{
		{Name: "Credentials", Facts: []string{"P35"}, Needs: Tokens, Run: credentials},
	}
}

// A missing, a bad and an expired token are one error on the wire, which ends the
// connection, and 401 over REST, in HTML.
func credentials(t *T) {
	for name, token := range map[string]string{
		"none": "", "bad": t.Token("admin") + "x", "of another secret": signed([]byte("another"), `{"sub":"admin"}`), "expired": t.Expired("admin"),
	} {
		w := t.Dial(0)
		hello := w.hello()
		if token != "" {
			hello.Connect.AuthMethodName, hello.Connect.AuthData = proto.String("token"), []byte(token)
		}
		w.Send(hello)
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
