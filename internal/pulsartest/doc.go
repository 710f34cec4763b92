// Package pulsartest is an in-process Pulsar cluster for tests. It speaks the
// binary protocol for scalable topics and for what geobridge uses of regular
// ones, behaves as broker 5.0.1 was seen to, and misbehaves when it is told to.
//
// Each behaviour cites the fact that it copies: "facts 7" is section 7 of the
// observations of broker 5.0.1, "P18" one of its numbered items. README.md lists
// what is there and what is not. Where a real broker differs, this package is
// wrong.
//
// It has two halves. The core is plain data under one lock, without goroutines
// and without a network: topic, log, cursor, subscription, producer, scalable. What
// it has to say to a client goes to a peer, which only queues. The rim is
// Broker.Serve with one reader and one writer for each connection: the writer is
// there because a client that does not read must not stop the others. Listeners
// come from outside, so loopback works, and so does Network under
// testing/synctest. Time is that of package time.
//
// Nothing happens by chance and nothing by itself that a test could want to
// choose: segments are pruned by Prune, idle topics deleted by DeleteIdle, sends
// stay pending between HoldAdds and LandAdds. Options.Hook sees every command that
// goes in or out, and may drop, delay, reorder or refuse it, or cut the
// connection before or after it.
package pulsartest
