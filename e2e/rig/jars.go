package rig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// CacheDir is where jars and compiled Java live between runs:
// GEOBRIDGE_E2E_CACHE, or geobridge-e2e in the user's cache folder, or in the
// temporary folder of a user without one.
func CacheDir() string {
	if dir := os.Getenv("GEOBRIDGE_E2E_CACHE"); dir != "" {
		return dir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "geobridge-e2e")
}

// Toolbox is what is needed to run Java: a JDK and the jars of the broker and
// its clients.
type Toolbox struct {
	JDK   JDK
	Lib   string // folder of the jars
	Cache string
	Peak  bool // let the JVMs optimize: slower to start, faster in the end
}

// Classpath is the value of java's -cp with extra folders before the jars.
func (t Toolbox) Classpath(extra ...string) string {
	path := ""
	for _, dir := range extra {
		path += dir + string(os.PathListSeparator)
	}
	return path + filepath.Join(t.Lib, "*")
}

// OpenToolbox finds a JDK and makes sure that the jars named by pom are in the
// cache, fetching them with Maven if not (about 245 MB, once). The folder is
// named after the pom's digest, so a changed pom brings a new set. Several
// processes may call it at once.
func OpenToolbox(ctx context.Context, pom []byte) (Toolbox, error) {
	jdk, err := FindJDK()
	if err != nil {
		return Toolbox{}, err
	}
	cache := CacheDir()
	box := Toolbox{JDK: jdk, Cache: cache, Lib: filepath.Join(cache, "lib-"+digest(pom))}
	err = Once(box.Lib, func(dir string) error { return fetchJars(ctx, jdk, pom, dir) })
	return box, err
}

// Compile compiles Java sources (name → text) against the jars and returns the
// folder of the classes, cached under the digest of the sources.
func (t Toolbox) Compile(ctx context.Context, name string, sources map[string][]byte) (string, error) {
	var all []byte
	for _, file := range sortedKeys(sources) {
		all = append(append(all, file...), sources[file]...)
	}
	classes := filepath.Join(t.Cache, fmt.Sprintf("%s-%s", name, digest(append(all, t.Lib...))))
	err := Once(classes, func(dir string) error {
		args := []string{"-nowarn", "-proc:none", "--release", fmt.Sprint(minJDK), "-cp", t.Classpath(), "-d", dir}
		src, err := os.MkdirTemp("", "geobridge-javac-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(src)
		for _, file := range sortedKeys(sources) {
			path := filepath.Join(src, filepath.Base(file))
			if err := os.WriteFile(path, sources[file], 0o600); err != nil {
				return err
			}
			args = append(args, path)
		}
		return runTool(exec.CommandContext(ctx, t.JDK.Javac(), args...))
	})
	return classes, err
}

func fetchJars(ctx context.Context, jdk JDK, pom []byte, dir string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("maven is needed to fetch the broker's jars (Debian: apt-get install maven): %w", err)
	}
	work, err := os.MkdirTemp("", "geobridge-pom-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-q", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+dir)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "JAVA_HOME="+jdk.Home)
	return runTool(cmd)
}

func runTool(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, tail(out, 4000))
	}
	return nil
}

// Once fills dir by calling fill on a fresh folder beside it and renaming that
// into place, so that dir is either complete or absent. A lock file keeps
// other processes out meanwhile.
func Once(dir string, fill func(dir string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil // another process was faster
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".fill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := fill(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, dir)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
