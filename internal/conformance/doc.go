// Package conformance is one suite of protocol scenarios that runs unchanged against the
// embedded cluster of internal/pulsartest and against real brokers, so that what the tests
// of geobridge take for a broker is one. It holds no code but tests.
//
//	go test ./internal/conformance       # embedded: seconds
//	make conformance                     # real Pulsar brokers: needs what make e2e needs
//
// Where the two differ, the embedded cluster is wrong.
//
// # How to write a scenario
//
// A scenario is a function of *T and a row of one of the tables that scenarios() puts
// together, with the facts that it shows. A fact is an observation of broker 5.0.1, by its
// number: "3.5" is item 5 of section 3, "P16" an item of part two, "5c" the third bullet of
// a section that has only bullets. factList() names them all; one without a scenario needs
// an excuse there.
//
// What it has: a namespace of its own (T.Namespace), topics (T.Scalable), raw connections
// (T.Connect, then Wire.Ask, Wire.Expect, Wire.None and what commands_test.go adds), REST
// with its status codes (T.REST), set-up over REST (T.Rig), and what neither the wire nor
// REST can do (World: kill, pause, move, wait for the broker's own timers). It runs beside
// other scenarios on the same brokers, unless its row says Alone: then it may kill them.
//
// It must not ask which world it is in. It waits for what must happen (Expect fails when
// patience ends), looks that something does not happen with None, and lets time pass only
// through World. Few scenarios work on real brokers at a time, and while one waits, others
// may come first: where a broker gives only so much time to the next step, it has to Hold.
// It expects what the real broker does, exactly as far as geobridge could depend on it, and
// no further: no wording of messages that nobody reads.
//
// After a change of the tables, UPDATE_README=1 go test ./internal/conformance writes the
// list in the README of internal/pulsartest again.
package conformance
