// Package frame reads and writes Pulsar's wire frames and does the surgery on
// stored entries: it scans and patches their metadata, opens batches, and
// builds the smaller entries a batch is cut into.
//
// The path of an entry that goes on whole touches its payload once, for the
// checksum, and allocates nothing: ReadCommand fills a pooled Entry, Scan reads
// the few metadata fields that matter, AppendPatched copies the metadata with
// the changes, AppendSend writes the header with a checksum that is combined
// from the payload's own.
//
// Functions of this package keep no state and are safe for concurrent use, as
// is Pool; all other types belong to one goroutine at a time.
package frame
