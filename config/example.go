package config

import _ "embed" // for example.yaml

//go:embed example.yaml
var example string

// Example returns a commented configuration with every supported key at its default.
func Example() string { return example }
