package ladder

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/geobridge/geobridge/internal/pulsar/pulsarpb"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

// injector is the hook of one cluster: it keeps count of what the bridge has in
// flight there, and lets the plan's fault strike.
type injector struct {
	s    *side
	rung rung

	mu      sync.Mutex
	exempt  map[int]bool // the publisher's connections
	flight  map[handle]map[uint64]time.Time
	skip    int
	lost    map[handle]pulsartest.Action // handles that a fault took the stream of
	provoke int                          // the connection that is to be told an error; 0: none yet
	armed   bool
	// script, where set, comes before the rung; false: it has nothing to say.
	script func(pulsartest.Command) (pulsartest.Action, bool)
}

// handle is a producer or consumer of a connection.
type handle struct {
	conn int
	id   uint64
}

func newInjector(s *side) *injector {
	return &injector{s: s, rung: s.w.plan.rung, skip: s.w.plan.skip, exempt: map[int]bool{},
		flight: map[handle]map[uint64]time.Time{}, lost: map[handle]pulsartest.Action{}, armed: s.w.plan.rung.side == s.name}
}

// arm lets a fault strike at the next match.
func (i *injector) arm(r rung) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rung, i.armed, i.skip, i.provoke = r, true, 0, 0
}

// disarm ends the faults, and forgets what is gone for good.
func (i *injector) disarm() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed = false
	for h, sends := range i.flight {
		if len(sends) == 0 {
			delete(i.flight, h)
		}
	}
}

// judge is the cluster's hook.
func (i *injector) judge(c pulsartest.Command) pulsartest.Action {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c.Type == pulsarpb.BaseCommand_CONNECT && !c.Sent && c.Base.GetConnect().GetAuthMethodName() == publisherAuth {
		i.exempt[c.Conn] = true
	}
	if i.exempt[c.Conn] {
		return pulsartest.Pass()
	}
	i.account(c)
	if a, gone := i.lost[stream(c)]; gone && streams(c) {
		return a
	}
	if i.script != nil {
		if a, ok := i.script(c); ok {
			i.s.w.note("SCRIPT %s: %v sent %v, topic %q", i.s.name, c.Type, c.Sent, c.Topic)
			return a
		}
	}
	if !i.armed || !i.matches(c) {
		return pulsartest.Pass()
	}
	flying, ready := i.ready()
	if !ready {
		return pulsartest.Pass()
	}
	return i.strike(c, flying)
}

// account follows the bridge's sends from their arrival to their receipt.
func (i *injector) account(c pulsartest.Command) {
	h := stream(c)
	switch {
	case c.Type == pulsarpb.BaseCommand_SEND && !c.Send.Marker && strings.HasPrefix(c.Topic, "segment://"):
		if i.flight[h] == nil {
			i.flight[h] = map[uint64]time.Time{}
		}
		i.flight[h][c.Send.SequenceID] = time.Now()
	case c.Type == pulsarpb.BaseCommand_SEND_RECEIPT:
		delete(i.flight[h], c.Receipt.SequenceID)
	case c.Type == pulsarpb.BaseCommand_SEND_ERROR:
		delete(i.flight[h], c.Base.GetSendError().GetSequenceId())
	}
}

// stream is the handle that a command belongs to, where it has one.
func stream(c pulsartest.Command) handle {
	switch c.Type {
	case pulsarpb.BaseCommand_SEND:
		return handle{c.Conn, c.Send.ProducerID}
	case pulsarpb.BaseCommand_SEND_RECEIPT:
		return handle{c.Conn, c.Receipt.ProducerID}
	case pulsarpb.BaseCommand_SEND_ERROR:
		return handle{c.Conn, c.Base.GetSendError().GetProducerId()}
	case pulsarpb.BaseCommand_MESSAGE:
		return handle{c.Conn, c.Message.ConsumerID}
	}
	return handle{}
}

// streams: what follows a lost one of these is lost, too. Nothing can take a frame
// out of the middle of a connection; what happens is that a broker has forgotten a
// producer (facts 6), or a dispatcher stands still.
func streams(c pulsartest.Command) bool {
	return c.Type == pulsarpb.BaseCommand_SEND || c.Type == pulsarpb.BaseCommand_MESSAGE
}

// freshFor is how long a send counts as in flight: what a dead connection carried
// has no end of its own.
const freshFor = 5 * time.Second

// inFlight counts the sends that have no receipt.
func (i *injector) inFlight() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.inFlightLocked()
}

func (i *injector) inFlightLocked() (n int) {
	for _, sends := range i.flight {
		for _, at := range sends {
			if time.Since(at) < freshFor {
				n++
			}
		}
	}
	return n
}

// ready: it is the chosen moment. With sends in flight some matches are let pass.
func (i *injector) ready() (flying, ready bool) {
	if w := i.s.w; i.s.name == west {
		flying = i.inFlightLocked() > 0
	} else {
		flying = w.west().injector.inFlight() > 0
	}
	switch {
	case flying && i.skip > 0 && !i.s.w.eager.Load():
		i.skip--
		return flying, false
	case !flying && !i.s.w.fallback.Load() && !i.rung.beforeCopying():
		return flying, false
	}
	return flying, true
}

// matches: the command is the rung's, or what provokes it.
func (i *injector) matches(c pulsartest.Command) bool {
	r := i.rung
	switch {
	case r.fault == event || r.typ == 0:
		return false
	case r.sent && r.typ == pulsarpb.BaseCommand_ERROR && i.provoke == 0:
		return !c.Sent && (c.Type == pulsarpb.BaseCommand_PRODUCER || c.Type == pulsarpb.BaseCommand_SUBSCRIBE)
	case r.sent && r.typ == pulsarpb.BaseCommand_SEND_ERROR && i.provoke == 0:
		return c.Type == pulsarpb.BaseCommand_SEND
	case i.provoke != 0 && c.Conn != i.provoke:
		return false
	}
	return c.Type == r.typ && c.Sent == r.sent
}

// strike does the fault. A refused SEND makes its producer useless: a broker that
// refuses one accepts none after it.
func (i *injector) strike(c pulsartest.Command, flying bool) pulsartest.Action {
	r := i.rung
	if i.provoke == 0 && r.sent && (r.typ == pulsarpb.BaseCommand_ERROR || r.typ == pulsarpb.BaseCommand_SEND_ERROR) {
		i.provoke = c.Conn
		a := pulsartest.Fail(pulsarpb.ServerError_PersistenceError, "provoked")
		if c.Type == pulsarpb.BaseCommand_SEND {
			i.lost[stream(c)] = pulsartest.Drop()
		}
		return a
	}
	i.armed = false
	i.s.w.hit(flying, "%s on connection %d, topic %q", r, c.Conn, c.Topic)
	switch r.fault {
	case drop:
		if streams(c) {
			i.lost[stream(c)] = pulsartest.Drop()
		}
		return pulsartest.Drop()
	case delay:
		return pulsartest.Delay(i.s.w.plan.held)
	case reorder:
		return pulsartest.Reorder(i.s.w.plan.behind)
	case cutBefore:
		return pulsartest.CutBefore()
	case cutAfter:
		return pulsartest.CutAfter()
	}
	a := pulsartest.Fail(r.code, "as the ladder wants it")
	if c.Type == pulsarpb.BaseCommand_SEND {
		i.lost[stream(c)] = a
	}
	return a
}

// hit notes that the fault has struck.
func (w *world) hit(flying bool, format string, args ...any) {
	w.note("FAULT, sends in flight: %v: "+format, append([]any{flying}, args...)...)
	w.flying.Store(flying)
	w.struck.Store(true)
}

// restPoint names a REST call as the rungs do.
func restPoint(r *http.Request) string {
	path, what := r.URL.Path, ""
	switch {
	case strings.HasSuffix(path, "/configuration/runtime"):
		what = "configuration"
	case strings.HasSuffix(path, "/stats"):
		what = "stats"
	case strings.HasSuffix(path, "/skip-all"):
		what = "skip-all"
	case strings.HasSuffix(path, "/compaction"):
		what = "compaction"
	case strings.Contains(path, "/subscriptions/"):
		what = "subscription"
	case strings.Contains(path, "/namespaces/"):
		what = "namespace"
	case strings.Contains(path, "/persistent/"):
		what = "topic"
	}
	return r.Method + " " + what
}

// rest is the hook of the admin service.
func (i *injector) rest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !i.strikes(r) {
			next.ServeHTTP(w, r)
			return
		}
		switch i.rung.fault {
		case refused:
			i.s.restDown.Store(true)
			time.AfterFunc(i.s.w.plan.held, func() { i.s.restDown.Store(false) })
			panic(http.ErrAbortHandler)
		case mute:
			<-r.Context().Done()
		case cut:
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case status4:
			http.Error(w, `{"reason":"as the ladder wants it"}`, http.StatusNotFound)
		default:
			http.Error(w, `{"reason":"as the ladder wants it"}`, http.StatusInternalServerError)
		}
	})
}

func (i *injector) strikes(r *http.Request) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.armed || i.rung.point != restPoint(r) {
		return false
	}
	flying, ready := i.ready()
	if !ready {
		return false
	}
	i.armed = false
	i.s.w.hit(flying, "%s %s", i.rung, r.URL.Path)
	return true
}
