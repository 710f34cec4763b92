// Package httpapi serves the probes, the metrics and the status over HTTP.
//
// Everything is an open read: no path changes anything, and nothing served holds a secret.
package httpapi
