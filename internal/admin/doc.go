// Package admin is a thin client for what geobridge asks of Pulsar's admin REST
// interface: recorded subscriptions and statistics of scalable topics, the
// regular topics it keeps its state in, and policies it only reads. Nothing is
// retried here, nothing is cached, and no topic is ever deleted.
package admin
