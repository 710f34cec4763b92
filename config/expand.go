package config

import (
	"fmt"
	"strings"
)

// expand replaces ${NAME}, ${NAME:-x} and $$ in s. As in a shell, x also stands in for a variable that is set but
// empty. What a variable holds is not expanded again. The problem returned is "" when all went well.
func expand(s string, env func(string) (string, bool)) (out, problem string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), ""
		}
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			s = rest[1:]
		case strings.HasPrefix(rest, "{"):
			body, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return "", `"${" without "}": close it, or write "$$" for a dollar sign`
			}
			value, problem := variable(body, env)
			if problem != "" {
				return "", problem
			}
			b.WriteString(value)
			s = after
		default:
			return "", `"$" stands alone: write "$$" for a dollar sign, "${NAME}" for a variable`
		}
	}
}

func variable(body string, env func(string) (string, bool)) (value, problem string) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if !isVariableName(name) {
		return "", fmt.Sprintf(`%s is not "${NAME}" or "${NAME:-default}" (letters, digits and _)`, quote("${"+body+"}"))
	}
	value, set := env(name)
	switch {
	case hasFallback && value == "":
		return fallback, ""
	case !set:
		return "", fmt.Sprintf(`environment variable %s is not set: set it, or write "${%s:-default}"`, name, name)
	}
	return value, ""
}

func isVariableName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// quote quotes s for a message, shortened so that a message stays readable.
func quote(s string) string {
	if r := []rune(s); len(r) > 80 {
		s = string(r[:77]) + "..."
	}
	return fmt.Sprintf("%q", s)
}
