package house

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	longFile    = 500 // lines; more needs a reason in longFiles
	longestFile = 800
	medianFile  = 200
)

// longFiles are the files of more than longFile lines, each with its reason.
func longFiles() map[string]string {
	return map[string]string{}
}

// isCounted leaves out what nobody writes by hand, and the transcript of the protocol, which is as long as the protocol.
func isCounted(path string, data []byte) bool {
	if strings.HasSuffix(path, ".proto") {
		return false
	}
	head := data[:min(len(data), 2000)]
	return filepath.Base(path) != "go.sum" && !strings.Contains("/"+path, "/testdata/") &&
		!bytes.Contains(head, []byte("Code generated")) && !bytes.ContainsRune(head, 0)
}

func TestFileSizes(t *testing.T) {
	var counts []int
	long := longFiles()
	for path, data := range committed(t) {
		lines := bytes.Count(data, []byte("\n"))
		if !isCounted(path, data) {
			continue
		}
		if strings.HasSuffix(path, ".go") {
			counts = append(counts, lines)
		}
		switch reason := long[path]; {
		case lines > longestFile:
			t.Errorf("%s has %d lines, and none may have more than %d", path, lines, longestFile)
		case lines > longFile && reason == "":
			t.Errorf("%s has %d lines: divide it, or give the reason in longFiles", path, lines)
		case lines <= longFile && reason != "":
			t.Errorf("%s has no more than %d lines: take it off longFiles", path, longFile)
		}
		delete(long, path)
	}
	for path := range long {
		t.Errorf("longFiles names %s, which is not there", path)
	}
	slices.Sort(counts)
	if m := counts[len(counts)/2]; m > medianFile {
		t.Errorf("the median Go file has %d lines, and %d is the limit", m, medianFile)
	}
}

// The patterns are put together so that this file does not match itself.
func TestNoMachinePaths(t *testing.T) {
	folder := regexp.MustCompile("(^|[^A-Za-z0-9_.~*})])/" + "(work|root|home)/[A-Za-z0-9_.]")
	host := regexp.MustCompile(`(proxy\.golang|sum\.golang|repo1?\.maven(\.apache)?|deb\.debian|security\.debian)` + `\.org`)
	for path, data := range committed(t) {
		if bytes.ContainsRune(data[:min(len(data), 8000)], 0) {
			continue
		}
		for i, line := range strings.Split(string(data), "\n") {
			if folder.MatchString(line) {
				t.Errorf("%s:%d: names a folder of one machine: %s", path, i+1, strings.TrimSpace(line))
			}
			if host.MatchString(line) {
				t.Errorf("%s:%d: names a package registry's host: leave it to the client's settings", path, i+1)
			}
		}
	}
}

// committed returns the files that git keeps, by path from the root; of a tree without git, every file.
func committed(t *testing.T) map[string][]byte {
	t.Helper()
	root := filepath.Join("..", "..")
	files := map[string][]byte{}
	for _, path := range paths(t, root) {
		data, err := os.ReadFile(filepath.Join(root, path))
		switch {
		case os.IsNotExist(err): // removed, and not committed yet
		case err != nil:
			t.Fatal(err)
		default:
			files[filepath.ToSlash(path)] = data
		}
	}
	if len(files) < 10 {
		t.Fatalf("only %d files found", len(files))
	}
	return files
}

func paths(t *testing.T, root string) []string {
	t.Helper()
	// A clone may belong to another user than the one who tests it.
	out, err := exec.Command("git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z").Output()
	if err == nil {
		return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	}
	var found []string
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "e2e/.pulsar"}, filepath.ToSlash(rel)) {
			return filepath.SkipDir
		}
		if d.Type().IsRegular() {
			found = append(found, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
