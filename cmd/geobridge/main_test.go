package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"geobridge": main})
}

// The scripts in testdata run the command as a user does; UPDATE_SCRIPTS=1 rewrites what they compare with.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"code": code, "freeport": newPorts().free, "get": get, "put": put, "equal": equal},
	})
}

// code N COMMAND... runs a command and wants exit code N; the environment's output checks work as after exec.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if ee, ok := err.(interface{ ExitCode() int }); ok {
		got = fmt.Sprint(ee.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %s, want %s\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// ports gives each script others: a system gives one that was closed a moment ago again. They
// lie below those that it gives to whoever asks for any.
type ports struct{ last atomic.Int32 }

func newPorts() *ports {
	p := &ports{}
	p.last.Store(20_000 + rand.Int32N(10_000))
	return p
}

// free NAME sets the variable NAME to a port that was free a moment ago.
func (p *ports) free(ts *testscript.TestScript, _ bool, args []string) {
	for range 100 {
		port := fmt.Sprint(p.last.Add(1))
		ln, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		ts.Check(ln.Close())
		ts.Setenv(args[0], port)
		return
	}
	ts.Fatalf("no free port up to %d", p.last.Load())
}

// get URL CODE PATTERN polls until the answer has that status code and matches the pattern.
func get(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[2])
	ts.Check(err)
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got := fetch(args[0])
		if strings.HasPrefix(got, args[1]+" ") && pattern.MatchString(got) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s answers %q", args[0], got)
		}
		time.Sleep(20 * time.Millisecond) // between polls of another process
	}
}

func fetch(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}

// put URL sends an empty PUT, which must do.
func put(ts *testscript.TestScript, _ bool, args []string) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPut, args[0], nil)
	ts.Check(err)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		ts.Fatalf("PUT %s: %s", args[0], resp.Status)
	}
}

// equal COMMAND... repeats a comparison until there is something to compare, and wants 0.
func equal(ts *testscript.TestScript, neg bool, args []string) {
	deadline := time.Now().Add(2 * time.Minute)
	for ts.Exec(args[0], args[1:]...) != nil {
		if !strings.Contains(ts.ReadFile("stdout"), "NOTHING COMPARED") || time.Now().After(deadline) {
			code(ts, neg, append([]string{"0"}, args...))
			return
		}
		time.Sleep(20 * time.Millisecond) // between runs of another process
	}
}
