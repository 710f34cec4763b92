package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// opens are the JDK packages that the broker, BookKeeper and Netty reach into
// by reflection.
var opens = []string{
	"java.base/java.io", "java.base/java.nio", "java.base/java.util.zip", "java.base/jdk.internal.misc",
	"java.base/jdk.internal.platform", "java.base/sun.net", "java.management/sun.management",
	"jdk.management/com.sun.management.internal",
}

// JVM describes one Java process.
type JVM struct {
	Name   string
	Heap   int // MiB, for the heap and again for direct memory
	Main   string
	Args   []string
	Dir    string
	Extra  []string // further class folders
	System []string // further system properties, key=value
}

// Command is the command line of v.
func (t Toolbox) Command(v JVM) Command {
	args := []string{"-XX:+UseSerialGC", fmt.Sprintf("-Xmx%dm", v.Heap), fmt.Sprintf("-XX:MaxDirectMemorySize=%dm", v.Heap),
		"--enable-native-access=ALL-UNNAMED", "-Dio.netty.tryReflectionSetAccessible=true", "-Dpulsar.allocator.exit_on_oom=false"}
	if !t.Peak {
		// Half of a broker's start is spent in the optimizing compiler, which
		// pays only in long runs.
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	if archive := t.archive(v.Main); isFile(archive) {
		args = append(args, "-XX:SharedArchiveFile="+archive)
	}
	for _, pkg := range opens {
		args = append(args, "--add-opens="+pkg+"=ALL-UNNAMED")
	}
	for _, property := range v.System {
		args = append(args, "-D"+property)
	}
	args = append(args, "-cp", t.Classpath(v.Extra...), v.Main)
	return Command{Name: v.Name, Path: t.JDK.Java(), Args: append(args, v.Args...), Dir: v.Dir}
}

// archive is the file of the classes that a main class loads, in the form that
// the JDK maps into memory. It halves the cost of a start once it is there; the
// JDK ignores one that does not fit.
func (t Toolbox) archive(main string) string {
	name := main[strings.LastIndexByte(main, '.')+1:]
	return filepath.Join(t.Cache, fmt.Sprintf("%s-jdk%d-%s.jsa", name, t.JDK.Version, digest([]byte(t.JDK.Home+t.Lib))))
}

// archived makes the process of v leave its class archive behind when it ends
// in order, unless there is one. keep, called after that end, puts it in its
// place.
func (t Toolbox) archived(v JVM) (c Command, keep func() error) {
	c = t.Command(v)
	archive := t.archive(v.Main)
	if isFile(archive) {
		return c, func() error { return nil }
	}
	fresh := fmt.Sprintf("%s.%d", archive, os.Getpid())
	c.Args = append([]string{"-XX:ArchiveClassesAtExit=" + fresh}, c.Args...)
	return c, func() error { return os.Rename(fresh, archive) }
}
