// Package demo shows geobridge doing its main job, in one process: two embedded
// clusters, east and west, whose layouts of one topic keep changing; a producer
// of keyed traffic at east; the bridge that the daemon runs, from a configuration
// in YAML; and Stream consumers at west that come and go, and judge what they get.
// It ends with a verdict.
//
// What is shown is measured where it happens: published is what east has
// receipted, copied and the shares are the bridge's own metrics, the matrix is
// what west has stored, and lost, out of order and twice are what the consumers
// found. Nothing is shared between these but the clusters.
//
// The pure parts are the traffic, the choice and the telling of layout changes,
// the view, the lines and the verdict. The rest runs until it is told to stop.
//
// Only the command may import this package: nothing of the embedded cluster is
// reachable from the daemon.
package demo
