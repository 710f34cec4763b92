package demo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/geobridge/geobridge/internal/keyorder"
	"github.com/geobridge/geobridge/internal/pulsartest"
)

func someSnapshot() *snapshot {
	return &snapshot{
		elapsed: 83 * time.Second, limit: 2 * time.Minute, seed: 42,
		published: rated{412345, 5000}, copied: rated{412300, 4998}, delivered: rated{412111, 5002},
		figures: figures{copied: 412300, whole: 7100, split: 2900, rerouted: 1234, lag: 0.04},
		order:   keyorder.Report{Counts: keyorder.Counts{Waiting: 234}},
		changes: 38, readers: 3,
		east: []pulsartest.Segment{{ID: 7, End: 0x3fff}, {ID: 12, Start: 0x4000, End: 0xffff}},
		west: []pulsartest.Segment{
			{ID: 3, End: 0x5554, Splits: []uint16{0x4000, 0x8000, 0xc000}},
			{ID: 108, Start: 0x5555, End: 0xffff, Splits: []uint16{0x8000}},
		},
		lanes: []laneView{{segment: 7, state: "running"}, {segment: 12, state: "waiting", reason: "parent 9"}, {segment: 9, state: "running"}},
		matrix: map[cell]share{
			{7, 3, 0}: {12, 0}, {7, 3, 1}: {0, 99999}, {7, 3, 3}: {345, 67}, {9, 108, 0}: {1_234_567, 765_432}, {12, 108, 1}: {1, 1},
		},
		log: []event{
			{2 * time.Second, "reader", "reader-1 joins"},
			{70 * time.Second, "east", "splits 2 0000-7fff into 7 0000-3fff and 8 4000-7fff"},
			{71 * time.Second, "west", "rebuckets 4 5555-ffff to 2 buckets, as 108"},
			{80 * time.Second, "west", "prunes drained 4"},
			{82 * time.Second, "bridge", "something that is far too long for a terminal of eighty columns, and is cut"},
		},
	}
}

// TestView compares frames with testdata/view.txt; UPDATE_VIEW=1 rewrites it.
func TestView(t *testing.T) {
	var got bytes.Buffer
	show := func(name string, v view, s *snapshot) {
		fmt.Fprintf(&got, "-- %s --\n", name)
		lines := v.frame(s)
		if len(lines) > v.height-v.below {
			t.Errorf("%s has %d lines, and %d fit", name, len(lines), v.height-v.below)
		}
		for _, line := range lines {
			plain := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(line, "")
			if n := utf8.RuneCountInString(plain); n > v.width {
				t.Errorf("%s: %d columns: %q", name, n, line)
			}
			fmt.Fprintln(&got, strings.TrimRight(plain, " "))
		}
	}
	show("80x23", view{width: 80, height: 23}, someSnapshot())
	show("120x40", view{width: 120, height: 40}, someSnapshot())
	show("small", view{width: 40, height: 12, colour: true}, someSnapshot())
	wrong := someSnapshot()
	wrong.order.Found = map[keyorder.Kind]int{keyorder.OutOfOrder: 2, keyorder.Duplicate: 1, keyorder.Overlap: 1, keyorder.Rewound: 3}
	wrong.phase, wrong.addresses, wrong.guests = "the bridge drains", &addresses{"pulsar://127.0.0.1:1", "http://127.0.0.1:2", "pulsar://127.0.0.1:3", "http://127.0.0.1:4"}, 12
	show("wrong, served, ending", view{width: 80, height: 30, colour: true}, wrong)
	ending := someSnapshot()
	ending.phase, ending.west[0].Splits = "done", make([]uint16, 9) // as many rows as there may be
	show("80x23, and a verdict of two lines below", view{width: 80, height: 23, below: 2}, ending)
	show("at first", view{width: 80, height: 23}, &snapshot{})
	fmt.Fprintf(&got, "-- plain --\n%s\n%s\n%s", wrong.line(), wrong.log[1].line(), wrong.addresses.help())

	path := filepath.Join("testdata", "view.txt")
	if os.Getenv("UPDATE_VIEW") != "" {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestColours(t *testing.T) {
	lines := strings.Join(view{width: 80, height: 23, colour: true}.frame(someSnapshot()), "\n")
	for _, want := range []string{"\x1b[32m12\x1b[0m+\x1b[33m0\x1b[0m", "\x1b[33mwaiting", "\x1b[1m" + Title + "\x1b[0m"} {
		if !strings.Contains(lines, want) {
			t.Errorf("no %q", want)
		}
	}
	if plain := strings.Join(view{width: 80, height: 23}.frame(someSnapshot()), "\n"); strings.Contains(plain, "\x1b") {
		t.Error("colours without colours")
	}
	if got := clip("ab\x1b[31mcdef\x1b[0m", 4); got != "ab\x1b[31mcd\x1b[0m" {
		t.Errorf("clipped to %q", got)
	}
}

// terminal is one of 4 lines, which keeps what is written.
type terminal struct{ bytes.Buffer }

func (*terminal) Size() (int, int) { return 80, 4 }

// TestScreen: nothing is changed in the terminal that would have to be restored.
func TestScreen(t *testing.T) {
	var term terminal
	s := screen{terminal: &term}
	if err := s.draw([]string{"one", "two"}); err != nil {
		t.Fatal(err)
	}
	frame := "\x1b[?2026h\x1b[?25l%s\x1b[H%s\x1b[J\x1b[?25h\x1b[?2026l"
	if got, want := term.String(), fmt.Sprintf(frame, "\n\n\n\n", "one\x1b[K\r\ntwo\x1b[K\r\n"); got != want {
		t.Errorf("first frame %q, want %q", got, want)
	}
	term.Reset()
	if err := s.draw([]string{"three"}); err != nil {
		t.Fatal(err)
	}
	if got, want := term.String(), fmt.Sprintf(frame, "", "three\x1b[K\r\n"); got != want {
		t.Errorf("second frame %q, want %q", got, want)
	}
}

// TestLive: a demo on a terminal draws itself, and what the last frame says is how
// it ended. With the verdict and a prompt below, it fits.
func TestLive(t *testing.T) {
	for _, height := range []int{24, 40, 3} {
		var term terminal
		v, _ := play(t, Options{For: 5 * time.Second, Rate: 100, Terminal: &tall{&term, height}})
		frames := strings.Split(term.String(), "\x1b[?2026h")
		last := frames[len(frames)-1]
		if n := strings.Count(last, "\r\n") + v.lines(80) + 1; !v.OK || n > height || v.lines(80) != 2 {
			t.Errorf("%v: %d lines at the end, and %d fit: %q", v, n, height, last)
		}
		if ended := strings.Contains(last, "done") && strings.Contains(last, "0 to come"); len(frames) < 20 || ended != (height > 20) {
			t.Errorf("%v, %d frames, the last one %q", v, len(frames), last)
		}
	}
}

type tall struct {
	*terminal
	height int
}

func (t tall) Size() (int, int) { return 80, t.height }

func TestMeter(t *testing.T) {
	var m meter
	at := time.Unix(0, 0)
	for n := range 20 {
		r := m.rate(at.Add(time.Duration(n)*time.Second), n*n)
		if n == 0 && r != (rated{}) {
			t.Errorf("at first %v", r)
		}
		if n == 19 && (r.n != 361 || r.perSecond < 34 || r.perSecond > 36) {
			t.Errorf("at last %v", r)
		}
	}
	if len(m.samples) > 5 {
		t.Errorf("%d samples kept", len(m.samples))
	}
}
