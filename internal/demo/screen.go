package demo

import (
	"io"
	"strings"
)

// Terminal is where the live view is drawn.
type Terminal interface {
	io.Writer
	// Size is its present size, in columns and lines.
	Size() (width, height int)
}

// screen draws frames one over the other. It never changes the mode of the
// terminal: no raw input, no other screen, and the cursor is away only within one
// write. So there is nothing to restore, whichever way the process ends, and the
// last frame stays.
type screen struct {
	terminal Terminal
	began    bool
}

// draw replaces the frame. The cursor is left below it. All is one write, and
// terminals that know synchronised output show it at once.
func (s *screen) draw(lines []string) error {
	_, height := s.terminal.Size()
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[?25l")
	if !s.began {
		s.began = true
		b.WriteString(strings.Repeat("\n", height)) // what was there scrolls up, and is kept
	}
	b.WriteString("\x1b[H")
	for _, line := range lines {
		b.WriteString(line)
		b.WriteString("\x1b[K\r\n")
	}
	b.WriteString("\x1b[J\x1b[?25h\x1b[?2026l")
	_, err := io.WriteString(s.terminal, b.String())
	return err
}
