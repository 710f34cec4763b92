// Package ladder is a ladder of faults: copies between two embedded clusters
// while both layouts change, each with one fault at a chosen point, on fake time.
// All of it is tests.
//
// # A run
//
// A seed makes a plan: the rung (where, on which command or REST call, what goes
// wrong), the clusters, the traffic, the changes of layout, and how slowly the
// target stores. The bridge (internal/bridge, configured by YAML) copies what a
// publisher of the test writes. The fault strikes at a match that the seed
// chooses while sends have no receipt. Then all is quiet, some more is published,
// and when everything has come, what the target holds is judged: nothing lost,
// each key in order along the segments that it passed, and nothing doubled: a
// weaker claim would need a row, with its reason, in claims_test.go.
//
// A dropped SEND or MESSAGE takes with it what follows on its producer or consumer,
// and so does a refused SEND: no frame is lost from the middle of a connection, and
// a broker that refuses one send accepts none after it. What a lost command needs to
// be noticed by is a time-out or stall_timeout, and the run waits for that.
//
// Fake time leaves the order of what happens at the same moment to the scheduler,
// so a seed repeats the plan to the letter, and what comes of it nearly always.
//
// # Running it
//
//	make test                                      each rung once; make race: every seventh
//	GEOBRIDGE_SEED=17 go test -v ./internal/ladder -run TestLadder       one run, with its trace
//	GEOBRIDGE_LADDER_RUNS=1000 go test ./internal/ladder -v -run TestLadder
//	GEOBRIDGE_KILLS=2000 go test ./internal/ladder -v -run TestKills     kill -9 at that many moments
//	GEOBRIDGE_TROUBLES=300 go test ./internal/ladder -v -run TestTroubles   one trouble over another, in that many worlds
//	make soak FOR=1h                               seeds one after the other, beside a long-lived bridge
package ladder
