// Package replicate copies the entries of scalable topics from one cluster to
// the other, in order, and never loses one.
//
// # The path of an entry
//
//	source segment ── Failover consumer ──▶ lane ── cut ──▶ target queues ──▶ producers
//	      ▲                                  │    (whole | split | park | skip)   │
//	      └── ack ◀── record receipted ◀── frontier ◀── receipts ◀────────────────┘
//
// One lane serves one source segment. [Machine] is its brain: pure, no clock
// and no I/O; events go in, effects come out, and every state and transition
// stands in one table (table.go). The driver (session.go) is its body: it owns
// the consumer, the producers and the checkpoint, carries out effects and
// turns what happens into events.
//
// # Whole or split
//
// A batch travels whole and unopened when the source segment's range lies
// inside one target segment and the stamp inside one of its buckets; else it
// is opened, and goes whole if all its keys share one target bucket, in parts
// otherwise. The rule is reroute's; cut.go applies it.
//
// # When a source entry is acknowledged
//
// The frontier is the last entry of the gapless prefix of complete ones: each
// message receipted by the target, parked, or rightly skipped. A record that
// holds the frontier is written to the checkpoint topic; when that record has
// its receipt, the source is acknowledged up to it (checkpoint.go).
package replicate
