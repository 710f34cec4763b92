package rig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstJDK(t *testing.T) {
	root := t.TempDir()
	home := func(name, release string, tools ...string) string {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o750); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			if err := os.WriteFile(filepath.Join(dir, "bin", tool), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "release"), []byte(release), 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old := home("jdk-17", "IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"17.0.15\"\n", "java", "javac")
	jre := home("jre-25", "JAVA_VERSION=\"25.0.3\"\n", "java")
	good := home("jdk-21", "JAVA_VERSION=\"21.0.2\"\n", "java", "javac")
	newer := home("jdk-25", "JAVA_VERSION=\"25\"\n", "java", "javac")
	tests := []struct {
		name       string
		candidates []string
		want       string // "": ErrNoJDK
	}{
		{"first fit", []string{"", old, jre, good, newer}, good},
		{"order decides", []string{newer, good}, newer},
		{"none", []string{"", old, jre, filepath.Join(root, "absent")}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := firstJDK(test.candidates)
			if test.want == "" {
				if !errors.Is(err, ErrNoJDK) || !strings.Contains(err.Error(), "apt-get install") {
					t.Errorf("error %v, want what to install", err)
				}
				return
			}
			if err != nil || got.Home != test.want {
				t.Errorf("got %v, %v, want %s", got, err, test.want)
			}
		})
	}
}
