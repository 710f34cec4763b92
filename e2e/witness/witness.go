// Package witness drives the Java program in its java folder: an observer,
// written on Pulsar's own V5 client, that produces, consumes and dumps.
package witness

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/geobridge/geobridge/e2e/rig"
)

//go:embed java/*.java
var javaSources embed.FS

// POM names the jars of the brokers and of the clients.
//
//go:embed pom.xml
var POM []byte

// Compile compiles the Java sources, once for each state of them, and returns
// the folder of the classes.
func Compile(ctx context.Context, box rig.Toolbox) (string, error) {
	sources := map[string][]byte{}
	names, err := fs.Glob(javaSources, "java/*.java")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if sources[name], err = javaSources.ReadFile(name); err != nil {
			return "", err
		}
	}
	return box.Compile(ctx, "witness", sources)
}

// ErrEnded says that the Java program has ended.
var ErrEnded = errors.New("the witness has ended")

// Witness is a running Java program. Its methods may be used concurrently.
type Witness struct {
	proc     *rig.Process
	stdin    io.WriteCloser
	mu       sync.Mutex
	nextID   int64
	handlers map[int64]func(event)
}

// event is one line of the program's output.
type event struct {
	ID    int64    `json:"id"`
	Kind  string   `json:"ev"`
	Items []string `json:"m"`
	Error string   `json:"error"`
	raw   []byte
}

// Start starts the program; classes is what Compile returned.
func Start(box rig.Toolbox, spawner *rig.Spawner, classes, name string) (*Witness, error) {
	stdinRead, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdinRead.Close()
	stdout, stdoutWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdoutWrite.Close()
	command := box.Command(rig.JVM{Name: name, Heap: 700, Main: "io.geobridge.witness.Witness", Extra: []string{classes}})
	command.Stdin, command.Stdout = stdinRead, stdoutWrite
	proc, err := spawner.Start(command)
	if err != nil {
		return nil, err
	}
	w := &Witness{proc: proc, stdin: stdin, handlers: map[int64]func(event){}}
	go w.read(stdout)
	return w, nil
}

// Close ends the program.
func (w *Witness) Close() {
	_ = w.stdin.Close()
	w.proc.Kill()
}

func (w *Witness) read(stdout io.Reader) {
	lines := bufio.NewReaderSize(stdout, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			w.ended(err)
			return
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue // not ours: some library printed it
		}
		e.raw = line
		w.mu.Lock()
		handle := w.handlers[e.ID]
		w.mu.Unlock()
		if handle != nil {
			handle(e)
		}
	}
}

func (w *Witness) ended(err error) {
	w.mu.Lock()
	handlers := w.handlers
	w.handlers = map[int64]func(event){}
	w.mu.Unlock()
	for id, handle := range handlers {
		handle(event{ID: id, Kind: "error", Error: fmt.Sprintf("%v; end of its log:\n%s", err, w.proc.Tail(3000))})
	}
}

// send issues a command. handle gets its events, one at a time, on the
// reader's goroutine.
func (w *Witness) send(op string, spec any, handle func(event)) (int64, error) {
	fields := map[string]any{}
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(text, &fields); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.nextID++
	id := w.nextID
	w.handlers[id] = handle
	w.mu.Unlock()
	fields["op"], fields["id"] = op, id
	line, err := json.Marshal(fields)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.stdin.Write(append(line, '\n'))
	return id, err
}

// Sync waits until all that the program has reported so far has been handled.
func (w *Witness) Sync(ctx context.Context) error { return w.stop(ctx, 0) }

// stop ends the command with the given id and waits until it is answered: all
// of its earlier events have been handled then.
func (w *Witness) stop(ctx context.Context, target int64) error {
	answered := make(chan error, 1)
	_, err := w.send("stop", map[string]any{"target": target}, func(e event) {
		var err error
		if e.Kind == "error" {
			err = errors.New(e.Error)
		}
		select {
		case answered <- err:
		default:
		}
	})
	if err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
