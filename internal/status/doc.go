// Package status keeps what is going on: the parts of a running bridge report into a [Board], and its pages, metrics
// and probes read from it.
//
// A report is a state with a reason. The reason is a sentence for a person: it is there whenever the state is not the
// one wanted, and it never holds a secret. Reporting never blocks on anything but the Board's own lock.
package status
