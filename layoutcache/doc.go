// Package layoutcache keeps what is known of scalable topics' layouts: immutable
// snapshots, a pure fold of the updates that watch sessions push, and the loop
// that keeps a session open. One Cache serves one topic of one cluster; the
// caches of a namespace share one Namespace, whose watch is the only one that
// reports deletions (broker 5.0.1, observed: facts 2.5).
package layoutcache
