// Command geobridge copies scalable topics between two Apache Pulsar clusters. See README.md.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// Set by the linker (see the Makefile); the only package-level variables here, for the linker needs them.
var (
	version  = "devel"
	revision = ""
)

func main() {
	os.Exit(app{stdout: os.Stdout, stderr: os.Stderr, env: os.LookupEnv, build: currentBuild()}.run(os.Args[1:]))
}

// buildInfo says what is running.
type buildInfo struct {
	Version, Revision, GoVersion string
}

// currentBuild prefers what the linker was told to what the go command noted.
func currentBuild() buildInfo {
	b := buildInfo{Version: version, Revision: revision, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok && b.Revision == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	return b
}
