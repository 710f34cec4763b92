//go:build bare

package replicate

// bare leaves out what exactly once costs while nothing breaks: no record is
// written, the source is acknowledged from the frontier alone, and what is
// published has no identity. It is for bench alone, which measures the difference;
// a crash of such a build loses and doubles.
const bare = true
