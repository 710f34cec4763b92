package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
)

// minJDK is the oldest Java feature release that the 5.0.1 broker's class
// files run on.
const minJDK = 21

// ErrNoJDK says that no JDK of the needed age was found. The message names
// what was looked at and what to install.
var ErrNoJDK = errors.New("no JDK 21 or newer")

// JDK is an installed Java development kit.
type JDK struct {
	Home    string
	Version int // feature release, e.g. 25
}

// Java is the path of the launcher.
func (j JDK) Java() string { return filepath.Join(j.Home, "bin", "java") }

// Javac is the path of the compiler.
func (j JDK) Javac() string { return filepath.Join(j.Home, "bin", "javac") }

// FindJDK returns the first JDK of at least version 21 among JAVA21_HOME,
// JAVA_HOME and the folders of /usr/lib/jvm, newest name first.
func FindJDK() (JDK, error) {
	installed, _ := filepath.Glob("/usr/lib/jvm/*")
	sort.Sort(sort.Reverse(sort.StringSlice(installed)))
	candidates := append([]string{os.Getenv("JAVA21_HOME"), os.Getenv("JAVA_HOME")}, installed...)
	return firstJDK(candidates)
}

func firstJDK(candidates []string) (JDK, error) {
	var seen []string
	for _, home := range candidates {
		if home == "" {
			continue
		}
		version := jdkVersion(home)
		if version >= minJDK && isFile(filepath.Join(home, "bin", "javac")) {
			return JDK{Home: home, Version: version}, nil
		}
		seen = append(seen, fmt.Sprintf("%s (version %d)", home, version))
	}
	return JDK{}, fmt.Errorf("%w with javac: looked at JAVA21_HOME, JAVA_HOME and /usr/lib/jvm/*, saw %q; "+
		"install one (Debian: apt-get install openjdk-21-jdk-headless, or temurin-25-jdk) or set JAVA21_HOME", ErrNoJDK, seen)
}

var javaVersionLine = regexp.MustCompile(`(?m)^JAVA_VERSION="(\d+)`)

// jdkVersion reads the feature release from the "release" file that every JDK
// carries, 0 if there is none.
func jdkVersion(home string) int {
	text, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		return 0
	}
	match := javaVersionLine.FindSubmatch(text)
	if match == nil {
		return 0
	}
	version, _ := strconv.Atoi(string(match[1]))
	return version
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
