// Package house holds no code, only tests of the rules that the tree as a whole keeps: who may import whom, how large
// a file may grow, and what must never be committed.
package house
