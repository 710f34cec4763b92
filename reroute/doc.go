// Package reroute decides where an entry of a source segment belongs in a
// target layout: whole to one bucket of one segment, or cut into parts.
// It is pure: no I/O, no clock, no state.
package reroute
