package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/geobridge/geobridge/internal/keyorder"
)

// Title says what is shown.
const Title = "geobridge demo: one topic, copied from east to west while both re-cut it"

// style is how a piece of text looks; without colours there is none.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31;1"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

// view draws snapshots in a size.
type view struct {
	width, height int
	below         int // lines of them that stay free for what is printed at the end
	colour        bool
}

// paint gives a text a look. What has to line up is padded before.
func (v view) paint(s style, text string) string {
	if !v.colour || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

const (
	labelWidth = 19 // of a row of the matrix
	cellWidth  = 15
	leastLog   = 3  // lines
	tight      = 28 // lines: below, nothing is left empty
)

// frame draws everything: at most height lines, made for 80 columns and 23 lines. What
// stays free below is taken from the log first.
func (v view) frame(s *snapshot) []string {
	v.height = max(v.height-v.below, 0)
	out := append(v.head(s), "")
	rows := v.matrix(s)
	if room := v.height - len(out) - max(leastLog-v.below, 0); len(rows) > room {
		cut := len(rows) - room + 1
		rows = append(rows[:max(room-1, 0)], v.paint(dim, fmt.Sprintf(" … %d more rows: the window is small", cut)))
	}
	out = append(out, rows...)
	if v.height >= tight {
		out = append(out, "")
	}
	out = append(out, v.log(s, v.height-len(out))...)
	for i, line := range out {
		out[i] = clip(line, v.width)
	}
	return out[:min(len(out), v.height)]
}

func (v view) head(s *snapshot) []string {
	time := clock(s.elapsed)
	if s.limit > 0 {
		time += " of " + clock(s.limit)
	}
	state := "Ctrl-C ends it, with a verdict"
	if s.phase != "" {
		state = v.paint(yellow, s.phase)
	}
	out := []string{v.paint(bold, Title), fmt.Sprintf(" %s   seed %d   %s", time, s.seed, state)}
	if a := s.addresses; a != nil {
		out = append(out,
			fmt.Sprintf(" %s  %s  admin %s", v.paint(cyan, "east"), a.east, a.eastAdmin),
			fmt.Sprintf(" %s  %s  admin %s", v.paint(cyan, "west"), a.west, a.westAdmin),
			fmt.Sprintf(" topic %s   %s of yours at west", topic, plural(s.guests, "entry")))
	}
	if v.height >= tight {
		out = append(out, "")
	}
	whole, split := shares(s.figures.whole, s.figures.split)
	return append(out,
		v.counter("published", s.published)+fmt.Sprintf("   lag %.2f s   %s   %s", s.figures.lag, plural(s.changes, "layout change"), plural(s.readers, "reader")),
		v.counter("copied", s.copied)+"   entries "+v.paint(green, fmt.Sprintf("%d %% whole", whole))+", "+
			v.paint(yellow, fmt.Sprintf("%d %% split", split))+fmt.Sprintf("   %s re-cut", grouped(s.figures.rerouted)),
		v.counter("delivered", s.delivered)+"   "+v.findings(s))
}

func (v view) counter(name string, r rated) string {
	return fmt.Sprintf(" %-9s %11s %7s/s", name, grouped(r.n), grouped(int(r.perSecond)))
}

// findings is what the order checker says so far. What is still to come is judged
// at the end.
func (v view) findings(s *snapshot) string {
	found := s.order.Found
	other := found[keyorder.Rewound] + found[keyorder.Overlap] + found[keyorder.LeftHolding]
	text := fmt.Sprintf("%s out of order, %s twice", grouped(found[keyorder.OutOfOrder]), grouped(found[keyorder.Duplicate]))
	if other > 0 {
		text += fmt.Sprintf(", %s else wrong", grouped(other))
	}
	look := green
	if found[keyorder.OutOfOrder]+found[keyorder.Duplicate]+other > 0 {
		look = red
	}
	return v.paint(look, text) + fmt.Sprintf(", %s to come", grouped(s.order.Waiting))
}

// matrix is a column for each source segment, a row for each bucket of a target
// segment, and in the cells the entries stored there: whole ones and parts.
func (v view) matrix(s *snapshot) []string {
	columns := s.columns((v.width - labelWidth) / cellWidth)
	head := v.paint(dim, pad(" west ↓    east →", labelWidth))
	states := pad(" ", 1) + v.paint(green, "whole") + "+" + v.paint(yellow, "split") + pad("", labelWidth-12)
	for _, c := range columns {
		head += v.paint(cyan, left(c.name, cellWidth))
		look := dim
		if c.state != "running" {
			look = yellow
		}
		states += v.paint(look, left(c.state, cellWidth))
	}
	out := []string{head, states}
	for _, seg := range s.west {
		for b := range len(seg.Splits) + 1 {
			label := pad("", labelWidth-4)
			if b == 0 {
				label = pad(" "+segmentName(seg), labelWidth-4)
			}
			row := v.paint(cyan, label) + fmt.Sprintf("%3s ", fmt.Sprintf(":%d", b))
			for _, c := range columns {
				row += v.cell(s.matrix[cell{c.segment, seg.ID, b}])
			}
			out = append(out, row)
		}
	}
	return out
}

func (v view) cell(n share) string {
	if n == (share{}) {
		return v.paint(dim, left("·", cellWidth))
	}
	whole, split := short(n.whole), short(n.split)
	return v.paint(green, whole) + "+" + v.paint(yellow, split) + pad("", cellWidth-len(whole)-len(split)-1)
}

// column is a source segment with its lane.
type column struct {
	segment     uint64
	name, state string
	start       uint16
}

// columns are the active source segments, and as many of the sealed ones whose
// lanes are not done yet as there is room for.
func (s *snapshot) columns(room int) (out []column) {
	lanes := map[uint64]string{}
	for _, l := range s.lanes {
		lanes[l.segment] = l.state
	}
	for _, seg := range s.east {
		state := cmp.Or(lanes[seg.ID], "no lane")
		delete(lanes, seg.ID)
		out = append(out, column{seg.ID, segmentName(seg), state, seg.Start})
	}
	var sealed []column
	for id := range lanes {
		sealed = append(sealed, column{id, fmt.Sprintf("%d sealed", id), lanes[id], 0})
	}
	slices.SortFunc(sealed, func(a, b column) int { return cmp.Compare(a.segment, b.segment) })
	out = append(out, sealed...)
	return out[:min(len(out), max(room, 1))]
}

// log is the latest events, newest last.
func (v view) log(s *snapshot, room int) (out []string) {
	events := s.log[max(len(s.log)-max(room, 0), 0):]
	for _, e := range events {
		out = append(out, fmt.Sprintf(" %s %s %s", v.paint(dim, fmt.Sprintf("%5s", clock(e.at))), v.paint(cyan, pad(e.who, 6)), e.text))
	}
	return out
}

// short writes a number in at most five characters.
func short(n int) string {
	switch {
	case n < 100_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}

func left(text string, width int) string { return pad(clip(text, width-1), width) }

// clip cuts a line that is too long for its width; styles take none.
func clip(line string, width int) string {
	shown, inStyle := 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			inStyle = true
		case inStyle:
			inStyle = r != 'm'
		case shown == width:
			return line[:i] + reset(line[:i])
		default:
			shown++
		}
	}
	return line
}

// reset ends a style that was cut open.
func reset(line string) string {
	if strings.Contains(line, "\x1b") {
		return "\x1b[0m"
	}
	return ""
}
