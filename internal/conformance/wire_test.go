package conformance

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/geobridge/geobridge/internal/pulsar/frame"
	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
)

// Got is a command from the broker.
type Got struct {
	*frame.Frame
	At time.Time
}

// Wire is one raw connection to a broker. It has no opinion: it sends what it is told to,
// keeps all that comes in order, and answers PINGs until Mute, and challenges from Renew on. One goroutine uses it.
type Wire struct {
	t      *T
	Broker int
	nc     net.Conn
	in     chan Got
	kept   []Got // arrived, and not asked for yet
	ended  bool
	mute   atomic.Bool
	renew  atomic.Pointer[pulsarpb.BaseCommand] // answers an AUTH_CHALLENGE as it comes
	last   uint64                               // request id
}

// Dial opens a connection without a word.
func (t *T) Dial(broker int) *Wire {
	t.Helper()
	dialer := net.Dialer{Timeout: t.Patience()}
	nc, err := dialer.DialContext(t.Context(), "tcp", t.Service(broker))
	t.Must(err)
	w := &Wire{t: t, Broker: broker, nc: nc, in: make(chan Got, 1<<16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read()
	}()
	t.Cleanup(func() {
		_ = nc.Close()
		<-done
	})
	return w
}

// Connect opens a connection as geobridge does.
func (t *T) Connect(broker int) *Wire {
	t.Helper()
	w := t.Dial(broker)
	hello := w.hello()
	if t.Secret != nil {
		hello.Connect.AuthMethodName, hello.Connect.AuthData = proto.String("token"), []byte(t.Token("admin"))
	}
	w.Send(hello)
	w.Expect(pulsarpb.BaseCommand_CONNECTED)
	return w
}

func (w *Wire) hello() *pulsarpb.BaseCommand {
	return &pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_CONNECT.Enum(), Connect: &pulsarpb.CommandConnect{
		ClientVersion: proto.String("conformance"), ProtocolVersion: proto.Int32(21),
		FeatureFlags: &pulsarpb.FeatureFlags{SupportsScalableTopics: proto.Bool(true)},
	}}
}

func (w *Wire) read() {
	defer close(w.in)
	in := bufio.NewReaderSize(w.nc, 64<<10)
	for {
		f := &frame.Frame{}
		if frame.ReadCommand(in, frame.Limits{}, f) != nil {
			return
		}
		if f.Type == pulsarpb.BaseCommand_PING {
			if !w.mute.Load() {
				w.write(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PONG.Enum(), Pong: &pulsarpb.CommandPong{}})
			}
			continue
		}
		if answer := w.renew.Load(); answer != nil && f.Type == pulsarpb.BaseCommand_AUTH_CHALLENGE {
			w.write(answer)
		}
		w.in <- Got{f, time.Now()}
	}
}

func (w *Wire) write(cmd *pulsarpb.BaseCommand) {
	b, err := frame.AppendCommand(nil, cmd)
	if err != nil {
		panic(err) // a required field that a scenario forgot
	}
	w.Raw(b)
}

// Raw writes bytes. That the connection has ended is seen where something is expected.
func (w *Wire) Raw(b []byte) { _, _ = w.nc.Write(b) }

// Mute leaves PINGs unanswered from now on.
func (w *Wire) Mute() { w.mute.Store(true) }

// Close ends the connection.
func (w *Wire) Close() { _ = w.nc.Close() }

// Send sends a command as it is.
func (w *Wire) Send(cmd *pulsarpb.BaseCommand) { w.write(cmd) }

// Ask numbers a command, sends it, and returns its answer.
func (w *Wire) Ask(cmd *pulsarpb.BaseCommand) *pulsarpb.BaseCommand {
	w.t.Helper()
	return w.Answer(w.Start(cmd))
}

// Start is the first half of Ask, for what takes its time.
func (w *Wire) Start(cmd *pulsarpb.BaseCommand) (request uint64) {
	w.last++
	body, field := requestField(cmd)
	body.Set(field, protoreflect.ValueOfUint64(w.last))
	w.Send(cmd)
	return w.last
}

// Answer is the second half of Ask.
func (w *Wire) Answer(request uint64) *pulsarpb.BaseCommand {
	w.t.Helper()
	return w.ExpectThat(fmt.Sprintf("the answer to request %d", request), func(g Got) bool {
		if g.Command == nil || g.Type == pulsarpb.BaseCommand_CLOSE_CONSUMER || g.Type == pulsarpb.BaseCommand_CLOSE_PRODUCER {
			return false
		}
		body, field := requestField(g.Command)
		return field != nil && body.Has(field) && body.Get(field).Uint() == request
	}).Command
}

// requestField finds the request id in the one message that a command consists of.
func requestField(cmd *pulsarpb.BaseCommand) (body protoreflect.Message, field protoreflect.FieldDescriptor) {
	cmd.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind {
			body = v.Message()
			field = body.Descriptor().Fields().ByName("request_id")
		}
		return true
	})
	return body, field
}

// Expect returns the next command of a type. Others are kept for later.
func (w *Wire) Expect(typ pulsarpb.BaseCommand_Type) Got {
	w.t.Helper()
	return w.ExpectThat(typ.String(), func(g Got) bool { return g.Type == typ })
}

// ExpectThat returns the next command that matches.
func (w *Wire) ExpectThat(what string, match func(Got) bool) Got {
	w.t.Helper()
	g, ok := w.take(match, w.t.Patience())
	if !ok {
		w.t.Fatalf("%s has not come (connection ended: %v); what came: %s", what, w.ended, w.rest())
	}
	return g
}

// Next returns the next command of any of these types, for their order.
func (w *Wire) Next(types ...pulsarpb.BaseCommand_Type) Got {
	w.t.Helper()
	return w.ExpectThat(fmt.Sprint(types), func(g Got) bool { return slices.Contains(types, g.Type) })
}

// None checks that no command of these types has come or comes soon.
func (w *Wire) None(types ...pulsarpb.BaseCommand_Type) {
	w.t.Helper()
	w.NoneThat(fmt.Sprint(types), func(g Got) bool { return slices.Contains(types, g.Type) })
}

// NoneThat checks that nothing has come or comes soon that matches.
func (w *Wire) NoneThat(what string, match func(Got) bool) {
	w.t.Helper()
	w.t.Quiet(w)
	if g, ok := w.take(match, 0); ok {
		w.t.Fatalf("%s came: %s", what, g)
	}
}

// Ended checks that the broker ends the connection.
func (w *Wire) Ended() {
	w.t.Helper()
	w.EndedWithin(w.t.Patience())
}

// EndedWithin is Ended with another patience.
func (w *Wire) EndedWithin(patience time.Duration) {
	w.t.Helper()
	w.take(func(Got) bool { return false }, patience)
	if !w.ended {
		w.t.Fatalf("the connection has not ended; what came: %s", w.rest())
	}
}

// Alive checks that the broker still answers.
func (w *Wire) Alive() {
	w.t.Helper()
	w.Send(&pulsarpb.BaseCommand{Type: pulsarpb.BaseCommand_PING.Enum(), Ping: &pulsarpb.CommandPing{}})
	w.Expect(pulsarpb.BaseCommand_PONG)
}

func (w *Wire) take(match func(Got) bool, patience time.Duration) (Got, bool) {
	w.drain()
	for i, g := range w.kept {
		if match(g) {
			w.kept = slices.Delete(w.kept, i, i+1)
			return g, true
		}
	}
	if w.ended || patience == 0 {
		return Got{}, false
	}
	timer, long := time.NewTimer(patience), time.NewTimer(time.Second)
	defer timer.Stop()
	defer long.Stop()
	if w.t.held > 0 {
		long.Stop()
	}
	for {
		select {
		case <-long.C: // others may work meanwhile
			w.t.end()
			defer w.t.begin()
		case g, ok := <-w.in:
			switch {
			case !ok:
				w.ended = true
				return Got{}, false
			case match(g):
				return g, true
			}
			w.kept = append(w.kept, g)
		case <-timer.C:
			return Got{}, false
		}
	}
}

// drain keeps what has arrived.
func (w *Wire) drain() {
	for !w.ended {
		select {
		case g, ok := <-w.in:
			if !ok {
				w.ended = true
				return
			}
			w.kept = append(w.kept, g)
		default:
			return
		}
	}
}

func (w *Wire) rest() string {
	var lines []string
	for _, g := range w.kept[max(0, len(w.kept)-20):] {
		lines = append(lines, g.String())
	}
	return "\n  " + strings.Join(lines, "\n  ")
}

func (g Got) String() string {
	switch g.Type {
	case pulsarpb.BaseCommand_MESSAGE:
		return fmt.Sprintf("MESSAGE %+v", g.Message)
	case pulsarpb.BaseCommand_SEND_RECEIPT:
		return fmt.Sprintf("SEND_RECEIPT %+v", g.Receipt)
	}
	return g.Command.String()
}
