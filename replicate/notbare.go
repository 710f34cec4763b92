//go:build !bare

package replicate

// bare is the switch of the benchmark (bare.go), which no ordinary build has.
const bare = false
