package demo

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// outcome is all that the verdict rests on.
type outcome struct {
	order        keyorder.Report
	changes      int // of layouts, both sides
	whole, split int // source entries
	problems     []string
}

// Verdict is how it went.
type Verdict struct {
	OK   bool
	Line string
}

// Text is the line, with its first word in colour if wanted.
func (v Verdict) Text(colour bool) string {
	look := red
	if v.OK {
		look = green
	}
	word, rest, _ := strings.Cut(v.Line, ":")
	return view{colour: colour}.paint(look, word+":") + rest
}

// lines is how many lines of a terminal it takes.
func (v Verdict) lines(width int) int {
	return (utf8.RuneCountInString(v.Line) + width - 1) / max(width, 1)
}

// judge gives the verdict: one line.
func (o outcome) judge() Verdict {
	wrong := append(o.found(), o.problems...)
	if o.order.Published == 0 {
		wrong = append(wrong, "nothing was published")
	}
	through := plural(o.changes, "layout change")
	if len(wrong) > 0 {
		return Verdict{Line: fmt.Sprintf("FAILED: %s published, %s copied, through %s: %s",
			plural(o.order.Published, "message"), grouped(o.order.Distinct), through, strings.Join(wrong, "; "))}
	}
	line := fmt.Sprintf("OK: %s copied through %s: 0 lost, 0 out of order, 0 twice", plural(o.order.Distinct, "message"), through)
	if whole, split := shares(o.whole, o.split); whole+split > 0 {
		line += fmt.Sprintf("; %d %% of the entries whole, %d %% split", whole, split)
	}
	return Verdict{OK: true, Line: line}
}

// shownFindings is how many of a kind the verdict names.
const shownFindings = 3

// found tells what the checker found, by kind.
func (o outcome) found() (out []string) {
	for k := keyorder.Lost; k <= keyorder.LeftHolding; k++ {
		n := o.order.Found[k]
		if n == 0 {
			continue
		}
		var some []string
		for _, f := range o.order.Findings {
			if f.Kind == k && len(some) < shownFindings {
				some = append(some, strings.TrimPrefix(f.String(), k.String()+": "))
			}
		}
		out = append(out, fmt.Sprintf("%s %s (%s)", grouped(n), word(k), strings.Join(some, "; ")))
	}
	return out
}

func word(k keyorder.Kind) string {
	switch k {
	case keyorder.Duplicate:
		return "twice"
	case keyorder.Foreign:
		return "that nobody published"
	}
	return k.String()
}

// shares are percentages, which add up to 100 unless there is nothing.
func shares(whole, split int) (w, s int) {
	if whole+split == 0 {
		return 0, 0
	}
	w = int(math.Round(100 * float64(whole) / float64(whole+split)))
	return w, 100 - w
}

// grouped writes a number with commas.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
