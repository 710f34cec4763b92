package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A reader walks the YAML nodes, guided by what may stand there, and gathers everything that is wrong.
type reader struct {
	file string
	env  func(string) (string, bool)
	errs Errors
	seen map[Error]bool
}

func (r *reader) fail(n *yaml.Node, path, format string, args ...any) {
	e := Error{File: r.file, Line: max(n.Line, 1), Col: max(n.Column, 1), Path: path, Msg: fmt.Sprintf(format, args...)}
	if !r.seen[e] {
		r.seen[e] = true
		r.errs = append(r.errs, e)
	}
}

// resolve follows aliases. The tree it leads into may be cyclic, but it is only walked as deep as there are keys to find.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// A field is one key with its value.
type field struct {
	key, value *yaml.Node
}

// An object is a YAML mapping whose keys are taken one by one; finish reports the keys that nobody took.
type object struct {
	r     *reader
	node  *yaml.Node // where a missing key is reported
	path  string
	keys  []string // in the order of the file
	field map[string]field
	known map[string]bool // whether the key is worth naming when another one is unknown
}

// object reads n as a mapping. A value left blank counts as an empty one.
func (r *reader) object(n *yaml.Node, path string) *object {
	o := &object{r: r, node: n, path: path, field: map[string]field{}, known: map[string]bool{}}
	m := resolve(n)
	if isNull(m) {
		return o
	}
	if m.Kind != yaml.MappingNode {
		r.fail(n, path, "must be a mapping of keys to values, not %s", kindName(m))
		return o
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		o.add(resolve(m.Content[i]), m.Content[i+1])
	}
	return o
}

func (o *object) add(key, value *yaml.Node) {
	switch {
	case key.Kind != yaml.ScalarNode:
		o.r.fail(key, o.path, "a key must be a word, not %s", kindName(key))
		return
	case key.ShortTag() == "!!merge":
		o.r.fail(key, o.path, "merge keys (<<) are refused: use defaults, or write the keys out")
		return
	}
	if first, twice := o.field[key.Value]; twice {
		o.r.fail(key, o.path, "duplicate key %s, first given in line %d: remove one", quote(key.Value), first.key.Line)
		return
	}
	o.keys = append(o.keys, key.Value)
	o.field[key.Value] = field{key, value}
}

func (o *object) sub(key string) string {
	if o.path == "" {
		return key
	}
	return o.path + "." + key
}

// take returns the value of a key that may stand here, nil if it is absent or left blank.
func (o *object) take(key string) *yaml.Node {
	o.known[key] = true
	f, ok := o.field[key]
	if !ok || isNull(resolve(f.value)) {
		return nil
	}
	return f.value
}

// at returns where to report something about key, whether it is there or not.
func (o *object) at(key string) *yaml.Node {
	if f, ok := o.field[key]; ok {
		return f.value
	}
	return o.node
}

func (o *object) require(key, remedy string) bool {
	if o.take(key) != nil {
		return true
	}
	o.r.fail(o.at(key), o.sub(key), "is required: %s", remedy)
	return false
}

// refuse reports each of keys that is there, with the reason, and counts it as known.
func (o *object) refuse(reason string, keys ...string) {
	for _, key := range keys {
		if f, ok := o.field[key]; ok {
			o.r.fail(f.key, o.path, "%s %s", quote(key), reason)
			o.field[key] = field{key: f.key, value: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}}
		}
		o.known[key] = false
	}
}

// notYet refuses keys that are documented and come with a later version.
func (o *object) notYet(keys ...string) {
	o.refuse("is not yet supported by this version: remove it", keys...)
}

// finish reports every key that is there and was not asked for.
func (o *object) finish() {
	known := slices.DeleteFunc(slices.Sorted(maps.Keys(o.known)), func(key string) bool { return !o.known[key] })
	for _, key := range o.keys {
		if _, ok := o.known[key]; ok {
			continue
		}
		remedy := "known here are " + strings.Join(known, ", ")
		if near := nearest(key, known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		o.r.fail(o.field[key].key, o.path, "unknown key %s: %s", quote(key), remedy)
	}
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "true or false"
		case "!!null":
			return "nothing"
		case "!!str":
			return "text"
		}
		return "a " + n.ShortTag()
	}
	return "this"
}

// nearest returns the word that key was probably meant to be, "" if none is near.
func nearest(key string, words []string) string {
	best, limit := "", min(3, len(key)/2+1)
	for _, w := range words {
		if d := distance(strings.ToLower(key), w); d < limit {
			best, limit = w, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes, with long keys cut short.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
