// Package pulsarpb holds the messages of Pulsar's binary protocol, generated
// from pulsar.proto. The generated code is committed; `go generate` renews it
// with pinned tools and needs no protoc on the machine.
package pulsarpb

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.47.2 generate
