package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a configuration file.
type Error struct {
	// File is the path as it was given to [Load].
	File string
	// Line and Col count from 1; Line is 0 where the file as a whole is meant (it cannot be read).
	Line, Col int
	// Path is the key, such as mappings[0].from.topic; "" at the top level.
	Path string
	// Msg says what is wrong and what to do about it. It never holds a secret.
	Msg string
}

// Error renders FILE:LINE:COL: PATH: MSG, leaving out what is not known.
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors is everything wrong with a configuration, in the order of the file.
type Errors []Error

// Error renders one error a line.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (es Errors) sort() {
	slices.SortStableFunc(es, func(a, b Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
