// Package e2e proves geobridge on real Apache Pulsar 5.0.1 brokers.
//
// The scenarios are Go tests behind the build tag "e2e". They start clusters
// on loopback (package rig), run the binary as a user runs it (package
// daemon), and let an independent program written on Pulsar's own Java V5
// client produce, consume and dump what is stored (package witness). A scenario
// sees the binary, its configuration file, its endpoints and its metrics, and no
// other part of geobridge; only traps that forge entries write them to the wire
// with its client. Broker deduplication is off but in the subtests "deduplicated".
//
//	make e2e                                            every scenario once
//	GEOBRIDGE_E2E_FULL=1 go test -tags e2e ./e2e        the long versions
//	go test -tags e2e -run Scenario02 -v ./e2e          one of them
//
// Environment:
//
//	GEOBRIDGE_E2E_FULL=1    long versions of the scenarios
//	GEOBRIDGE_E2E_CACHE     folder of the jars and the compiled witness
//	                        (default: geobridge-e2e in the user's cache folder)
//	GEOBRIDGE_SEED          of the scenarios that draw their faults (13 to 16): the one
//	                        that a failed run printed
//	GEOBRIDGE_E2E_KEEP=1    keep the run's folder (logs, data) after success
//	GEOBRIDGE_E2E_BINARY    the binary to test (default: built from this module)
//	GEOBRIDGE_E2E_STANDIN=java  run the naive Java bridge in the binary's place,
//	                        to see the checks fail on a bridge that breaks them
//	JAVA21_HOME, JAVA_HOME  a JDK, 21 or newer
package e2e
