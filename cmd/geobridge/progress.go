package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/geobridge/geobridge/internal/verify"
)

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
	barWidth  = 30
)

// showProgress shows on stderr how far a comparison is, until end is called: a bar
// on a terminal, else a line now and then.
func (a app) showProgress(name string, p *verify.Progress) (end func()) {
	f, isFile := a.stderr.(*os.File)
	bar := isFile && term.IsTerminal(int(f.Fd()))
	every := lineEvery
	if bar {
		every = barEvery
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-tick.C:
				text := progressText(name, p.State(), time.Since(began), bar)
				if bar {
					fmt.Fprintf(a.stderr, "\r%s\x1b[K", text)
				} else {
					fmt.Fprintln(a.stderr, text)
				}
			case <-stop:
				if bar {
					fmt.Fprint(a.stderr, "\r\x1b[K")
				}
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

func progressText(name string, s verify.State, since time.Duration, bar bool) string {
	share := 0.0
	if s.Total > 0 {
		share = min(float64(s.Read)/float64(s.Total), 1)
	}
	mbs := float64(s.Bytes) / (1 << 20) / max(since.Seconds(), 0.001)
	text := fmt.Sprintf("%3.0f %%  %d of %d entries, %.1f MiB/s", share*100, s.Read, s.Total, mbs)
	if bar {
		full := int(share * barWidth)
		text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", barWidth-full) + "] " + text
	}
	return fmt.Sprintf("%s: %s %s", name, s.Phase, text)
}
