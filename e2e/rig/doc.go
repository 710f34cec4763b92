// Package rig brings real Apache Pulsar brokers to a test: it finds a JDK,
// fetches the jars with Maven once, starts standalone and two-broker clusters
// on free loopback ports, and stops, kills, pauses and restarts each process
// by its own id.
//
// No process outlives the test binary. Each one leads a process group of its
// own, is ended by id at Close, and carries a parent-death signal for the case
// that the test binary dies without a word.
package rig
