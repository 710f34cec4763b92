//go:build race

package ladder

// everyNth rung is climbed by default: under the race detector all of them take
// more than five minutes.
const everyNth = 7
