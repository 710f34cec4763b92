package rig

import "fmt"

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
	args := []string{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", fmt.Sprintf("-Xmx%dm", v.Heap),
		fmt.Sprintf("-XX:MaxDirectMemorySize=%dm", v.Heap), "--enable-native-access=ALL-UNNAMED",
		"-Dio.netty.tryReflectionSetAccessible=true", "-Dpulsar.allocator.exit_on_oom=false"}
	for _, pkg := range opens {
		args = append(args, "--add-opens="+pkg+"=ALL-UNNAMED")
	}
	for _, property := range v.System {
		args = append(args, "-D"+property)
	}
	args = append(args, "-cp", t.Classpath(v.Extra...), v.Main)
	return Command{Name: v.Name, Path: t.JDK.Java(), Args: append(args, v.Args...), Dir: v.Dir}
}
