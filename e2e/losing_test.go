//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/geobridge/geobridge/e2e/daemon"
	"github.com/geobridge/geobridge/e2e/order"
	"github.com/geobridge/geobridge/e2e/rig"
	"github.com/geobridge/geobridge/e2e/witness"
)

// losing is a trap in which something goes that geobridge needs. One mapping goes on
// without it, another one holds until somebody has accepted that. Each is named as its
// policy, and so are its topics.
type losing struct {
	*scene
	d          *daemon.Daemon
	goes, hold string
	readers    map[string]*witness.Consumption
}

// losing begins one of source data, whose daemon reaches the clusters as front has
// them.
func (s *scene) losing(front *scene) *losing {
	s.Helper()
	return s.losingBy("on_gap", "continue", front)
}

// losingBy begins one whose policy is a key of mappings, and has copied something.
func (s *scene) losingBy(key, goes string, front *scene) *losing {
	s.Helper()
	l := &losing{scene: s, goes: strings.ReplaceAll(goes, "_", "-"), hold: "stop", readers: map[string]*witness.Consumption{}}
	var mappings []map[string]any
	for name, policy := range map[string]string{l.goes: goes, l.hold: "stop"} {
		s.create(s.east, name, 1, 2)
		s.create(s.west, name, 1, 2)
		l.readers[name] = s.consume(s.west, s.name(name), 1)
		mappings = append(mappings, s.mapping(name, s.east, s.west, name, map[string]any{key: policy}))
	}
	l.d = s.instance("a", front.config(mappings...))
	s.start(l.d)
	l.send("old", true)
	l.copied(l.names()...)
	return l
}

// names are those of the mappings.
func (l *losing) names() []string { return []string{l.goes, l.hold} }

// send publishes 500 messages to each topic; those that are not kept may arrive or not.
func (l *losing) send(prefix string, kept bool) {
	l.Helper()
	for _, p := range l.publishing(witness.Produce{IDPrefix: prefix, Count: 500, Rate: 2_000}, kept) {
		l.must(p.WaitDone(l.within(time.Minute, "publishing "+prefix)))
	}
}

// publishing begins to publish to each topic.
func (l *losing) publishing(spec witness.Produce, kept bool) (all []*witness.Production) {
	l.Helper()
	for _, name := range l.names() {
		spec.Topic, spec.KeyPrefix, spec.Keys = l.name(name).Topic(), spec.IDPrefix, 20
		expect := func(m order.Message, receipted bool) { l.readers[name].Expect(m, receipted && kept) }
		all = append(all, l.produceInto(l.east, spec, expect))
	}
	return all
}

// copied waits until all that is kept has come.
func (l *losing) copied(names ...string) {
	l.Helper()
	for _, name := range names {
		l.allCome(l.readers[name], "copying of "+name)
	}
}

// lost waits until both subscriptions at the source have been moved to the end.
func (l *losing) lost(limit time.Duration) {
	l.Helper()
	for _, name := range l.names() {
		l.must(rig.Poll(l.within(limit, "losing of "+name), time.Second, func() error {
			backlog, err := l.east.admin.Backlog(l.ctx, l.name(name), subscription(name, l.west))
			if err == nil && backlog != 0 {
				err = fmt.Errorf("backlog %d", backlog)
			}
			return err
		}))
	}
}

// acknowledged waits until all that there is was copied, and is acknowledged.
func (l *losing) acknowledged() {
	l.Helper()
	for _, name := range l.names() {
		l.drained(end{l.east, l.name(name)}, subscription(name, l.west))
	}
}

// skipped moves both subscriptions over what they have.
func (l *losing) skipped() {
	l.Helper()
	for _, name := range l.names() {
		l.skip(l.east, l.name(name), subscription(name, l.west))
	}
}

// noticed ends the trap: the loss is counted once for each mapping, and nothing of all
// comes twice.
func (l *losing) noticed(reason, text string) {
	l.Helper()
	for _, name := range l.names() {
		l.counts(l.d, "source_gaps_total", 1, "mapping="+name, "reason="+reason)
	}
	l.goesOn(text)
	for _, name := range l.names() {
		l.counts(l.d, "source_gaps_total", 1, "mapping="+name)
	}
	l.judge(order.Once)
}

// goesOn sees that the loss is said in log and status, that one mapping copies what comes
// next, and that the other one does only when that is accepted.
func (l *losing) goesOn(text string) {
	l.Helper()
	l.noted(l.d, l.goes, text)
	l.reason(l.d, l.hold, regexp.QuoteMeta(strings.ToLower(text)))
	l.send("new", true)
	l.copied(l.goes)
	if l.readers[l.hold].Arrived("new-0") {
		l.Error("the mapping that holds copies on")
	}
	l.resume(l.d, l.hold)
	l.copied(l.hold)
	l.noted(l.d, l.hold, text)
}

// judge ends the trap.
func (l *losing) judge(rule order.Rule) {
	l.Helper()
	l.acknowledged()
	for _, name := range l.names() {
		report := l.readers[name].Report()
		l.Logf("%s: %v", name, report)
		for _, problem := range report.Problems(rule) {
			l.Errorf("%s: %s", name, problem)
		}
	}
	l.healthy(l.d)
	l.terminate(l.d)
}

// noted waits until a note of a mapping in the status says something, and so the log.
func (s *scene) noted(d *daemon.Daemon, mapping, text string) {
	s.Helper()
	if err := rig.Poll(s.within(time.Minute, "the note"), 200*time.Millisecond, func() error {
		var status struct {
			Mappings []struct {
				Name  string
				Notes []struct{ Text string }
			}
		}
		_, body, err := d.Get(s.ctx, "/api/v1/status")
		if err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			return err
		}
		for _, m := range status.Mappings {
			for _, note := range m.Notes {
				if m.Name == mapping && strings.Contains(note.Text, text) {
					return nil
				}
			}
		}
		return fmt.Errorf("no note of %s says %q: %s", mapping, text, body)
	}); err != nil {
		s.Error(err)
	}
	if !strings.Contains(d.Log(), text) {
		s.Errorf("the log does not say %q", text)
	}
}

// resume is the command that accepts a loss.
func (s *scene) resume(d *daemon.Daemon, mapping string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 40*time.Second)
	defer cancel()
	out, err := d.Ask(ctx, "resume", mapping, "--accept-gap")
	if err != nil || out != mapping+" goes on\n" {
		s.Fatalf("geobridge resume: %q, %v", out, err)
	}
}
