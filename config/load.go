package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// maxFileSize bounds what is read: thousands of mappings fit, a device or a log file given by mistake does not.
const maxFileSize = 8 << 20

// Load reads and validates the file at path. env looks up the variables that the file names; [os.LookupEnv] is the
// usual one. Either the configuration is good and Errors is empty, or Config is nil and Errors has everything wrong.
func Load(path string, env func(string) (string, bool)) (*Config, Errors) {
	data, err := readFile(path)
	if err != nil {
		return nil, Errors{{File: path, Msg: err.Error()}}
	}
	return Parse(path, data, env)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, unreadable(err)
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("is larger than %s: is this the right file?", formatSize(maxFileSize))
	}
	return data, nil
}

// unreadable leaves out the path, which each error names already.
func unreadable(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot be read: %w: name the file with --config, or begin one with geobridge example", err)
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// Parse is [Load] for the contents of a file; file is its name in errors.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, Errors) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	r := &reader{file: file, env: env, seen: map[Error]bool{}}
	root, ok := r.document(data)
	if !ok {
		return nil, r.errs
	}
	cfg := r.config(root)
	if len(r.errs) > 0 {
		r.errs.sort()
		return nil, r.errs
	}
	return cfg, nil
}

// document returns the root of the only YAML document in data.
func (r *reader) document(data []byte) (*yaml.Node, bool) {
	var doc, second yaml.Node
	start := &yaml.Node{Line: 1, Column: 1}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && (len(doc.Content) == 0 || isNull(doc.Content[0])):
		r.fail(start, "", "the file is empty: start from what `geobridge example` prints")
		return nil, false
	case err != nil:
		r.syntaxError(err)
		return nil, false
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		r.syntaxError(err)
		return nil, false
	default:
		r.fail(&second, "", "a second YAML document: only one is read, remove the other")
		return nil, false
	}
	return doc.Content[0], true
}

// syntaxError reports what the YAML parser found. It stops at its first finding and tells only the line.
func (r *reader) syntaxError(err error) {
	parts := regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`).FindStringSubmatch(err.Error())
	line, msg := 1, err.Error()
	if parts != nil {
		msg = parts[2]
		if n, err := strconv.Atoi(parts[1]); err == nil {
			line = n
			// yaml.v3 counts from 0 in what its parser finds, from 1 in what its scanner finds.
			if strings.HasPrefix(msg, "did not find expected") && !strings.Contains(msg, "alphabetic") {
				line++
			}
		}
	}
	r.fail(&yaml.Node{Line: line, Column: 1}, "", "not YAML: %s", msg)
}

func (r *reader) config(root *yaml.Node) *Config {
	o := r.object(root, "")
	cfg := &Config{
		Version: Version, Group: "geobridge", MemoryLimit: 256 << 20, CheckpointInterval: time.Second,
		StallTimeout:    2 * time.Minute,
		ShutdownTimeout: 20 * time.Second, HTTP: HTTP{Listen: "127.0.0.1:9464"}, Log: Log{Level: "info", Format: LogText},
	}
	for _, key := range o.keys {
		if strings.HasPrefix(key, "x-") {
			o.known[key] = true
		}
	}
	version := Version
	o.number("version", &version, 0, 1<<30)
	if version != Version {
		r.fail(o.at("version"), "version", "%d is not a version this geobridge reads: it reads 1", version)
	}
	nonEmpty(o, "group", &cfg.Group, checkGroup())
	o.text("instance", &cfg.Instance, checkInstance())
	o.size("memory_limit", &cfg.MemoryLimit, 1<<20, 1<<40)
	o.duration("checkpoint_interval", &cfg.CheckpointInterval, 10*time.Millisecond, 10*time.Minute)
	o.duration("stall_timeout", &cfg.StallTimeout, time.Second, time.Hour)
	o.duration("shutdown_timeout", &cfg.ShutdownTimeout, time.Second, time.Hour)
	o.notYet("create_target", "metrics")
	r.readState(o, &cfg.State)
	r.readHTTP(o, &cfg.HTTP)
	r.readLog(o, &cfg.Log)
	if cfg.Instance == "" {
		cfg.Instance = defaultInstance(cfg.HTTP.Listen)
	}
	cfg.Clusters = r.readClusters(o)
	cfg.Mappings = r.readMappings(o, cfg)
	o.finish()
	return cfg
}

// nonEmpty reads a text that has a default and may not be set to nothing.
func nonEmpty(o *object, key string, dst *string, c check) {
	if n := o.take(key); n != nil && o.isEmptyText(n) {
		o.r.fail(n, o.sub(key), "must not be empty: remove the key for its default, %s", quote(*dst))
		return
	}
	o.text(key, dst, c)
}

func (r *reader) readState(top *object, s *State) {
	n := top.take("state")
	if n == nil {
		return
	}
	o := r.object(n, "state")
	o.text("namespace", &s.Namespace, checkNamespace)
	o.finish()
}

func (r *reader) readHTTP(top *object, h *HTTP) {
	n := top.take("http")
	if n == nil {
		return
	}
	o := r.object(n, "http")
	nonEmpty(o, "listen", &h.Listen, checkListen)
	o.notYet("token_file", "tls", "pprof")
	o.finish()
}

func (r *reader) readLog(top *object, l *Log) {
	n := top.take("log")
	if n == nil {
		return
	}
	o := r.object(n, "log")
	oneOf(o, "level", &l.Level, "debug", "info", "warn", "error")
	oneOf(o, "format", &l.Format, LogText, LogJSON)
	o.finish()
}

// defaultInstance is <hostname>-<http port>: stable over restarts, and different for two processes of one host.
func defaultInstance(listen string) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	clean := strings.Map(func(c rune) rune {
		if strings.ContainsRune("._-", c) || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			return c
		}
		return '-'
	}, host)
	_, port, _ := net.SplitHostPort(listen)
	return clean[:min(len(clean), 190)] + "-" + port
}
