// Package pulsar speaks Pulsar's binary protocol at the level of stored
// entries: a consumer hands over each entry's metadata and payload as the
// broker stored them, and a producer publishes such bytes again.
//
// Everything a Client hands out is mortal. A Consumer, a Producer or a watch
// lives on one connection and dies once, with a typed error; nothing here
// reopens it. Whoever opened it decides when, and how often, to try again:
// ClassOf tells what died and RetryOf what may help.
//
// Handlers are called from the connection's read loop, one call at a time for
// one handle. They must not block and must not call Close; they may call the
// handle's other methods, none of which waits for the network.
package pulsar
