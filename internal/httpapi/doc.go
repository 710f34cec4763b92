// Package httpapi serves the probes, the metrics and the status over HTTP.
//
// All but orders are open reads, and nothing served holds a secret. Orders are POSTs, taken from this machine only.
package httpapi
