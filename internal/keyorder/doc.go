// Package keyorder judges what several consumers of one subscription deliver:
// whether each key's messages came in their order, all of them, and each from
// one stored copy, while consumers join, leave, crash, and get redelivered what
// others held. It is pure: whoever runs the consumers tells it what happened,
// as it happens.
//
// # What it relies on
//
// A message is numbered within its key by whoever published it. A delivery names
// the position it was stored under. The same message from the same position is a
// redelivery, which is no duplicate; from another position it is a second stored
// copy, which is one.
//
// # Memory
//
// For each key it keeps ranges of numbers, so that a key numbered without holes
// costs the same at its millionth message as at its first; the latest few stored
// positions (Options.Recent); and for each segment up to where the key has come
// from it. What is older than the latest few is told apart by those alone: from
// a known segment and not beyond what has come from it, it is taken for a
// redelivery. A second copy is stored later than that, except where it was never
// delivered when its turn came.
package keyorder
