// Package verify proves two sides of a mapping equal, or says what differs.
//
// Both sides are read once, by readers that leave nothing behind, and each
// message becomes a digest over its identity (lane, source position, index) and
// what an application sees of it. Digests are added up for each 1/256 of the
// hash ring, whatever entries and segments the messages are in; equal sums and
// counts are equal messages. The order of each key is checked at the target
// alone, since an identity says where its message stands at the source; keys are
// looked at only where it does not show without: see rising.go. Digests also add
// up for each stretch of the source: those that differ are read once more, and
// narrowed to the messages.
//
// What one side does not hold any more, or not yet, is left out on both sides by
// its source position, and counted: see bounds.go.
//
// Memory: a window of at most 64 MiB of entries on each side, some 150 bytes for
// each 256 entries, 6 KiB for each lane in each target segment, some 100 for each
// key that is looked at, of at most Options.Keys at a time, and some 100 for each
// message of the ranges that are narrowed, of at most Options.Messages.
package verify
