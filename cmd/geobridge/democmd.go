package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/geobridge/geobridge/internal/demo"
)

const (
	defaultPorts = "16650,18080,26650,28080"
	// demoWithoutTerminal is how long a demo runs that nobody can be expected to end.
	demoWithoutTerminal = 30 * time.Second
)

func (a app) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a bridge between two clusters in this process, with a verdict",
		Long: `Show what geobridge does, without any cluster: two embedded ones, east and west, run in this process, and so does
the bridge that copies a topic of keyed messages from east to west. Both clusters split, merge and rebucket their
segments every few seconds, each for itself. Consumers at west come, leave and crash, and check that each key's
messages come in their order, all of them, and once.

The demo ends after --for or Ctrl-C: the producer stops, everything in flight arrives, and one line says how it went.
The exit code is 0 for OK, 3 for FAILED. A second Ctrl-C ends it at once, without a verdict (5).

With --serve both clusters can be used by your own client meanwhile: produce to topic://public/default/orders at east and
consume at west, or change a layout yourself. Nothing is encrypted then, since your client has no key.

  curl http://127.0.0.1:28080/admin/v2/scalable/public/default/orders                     the layout, with segment ids
  curl -X POST http://127.0.0.1:28080/admin/v2/scalable/public/default/orders/split/ID`,
		Args: cobra.NoArgs,
	}
	var o demo.Options
	var serve, plain bool
	var ports string
	flags := cmd.Flags()
	flags.DurationVar(&o.For, "for", 0, "how long to produce, like 90s (default: until Ctrl-C; without a terminal or --serve "+demoWithoutTerminal.String()+")")
	flags.Uint64Var(&o.Seed, "seed", 0, "repeat the traffic and the choice of changes of an earlier demo (default: a new seed)")
	flags.IntVar(&o.Rate, "rate", 5000, "messages per second")
	flags.BoolVar(&plain, "plain", false, "plain lines, as without a terminal")
	flags.BoolVar(&serve, "serve", false, "open both clusters on ports of 127.0.0.1, until Ctrl-C")
	flags.StringVar(&ports, "ports", defaultPorts, "the ports of --serve: `EAST,EAST-ADMIN,WEST,WEST-ADMIN`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := parsePorts(ports)
		switch {
		case err != nil:
			return usageError(err)
		case o.Rate < 1 || o.Rate > 100_000:
			return usageError(errors.New("--rate must be from 1 to 100000"))
		case o.For < 0:
			return usageError(errors.New("--for must not be negative"))
		case flags.Changed("ports") && !serve:
			return usageError(errors.New("--ports belongs to --serve"))
		}
		if serve {
			o.Serve = &at
		}
		if !flags.Changed("seed") {
			o.Seed = rand.Uint64N(1_000_000)
		}
		o.Out, o.Version = a.stdout, a.build.Version
		if !plain {
			o.Terminal, o.Colour = a.terminal()
		}
		if o.Terminal == nil && o.For == 0 && !serve {
			o.For = demoWithoutTerminal
		}
		return a.demo(contextOf(cmd), o)
	}
	return cmd
}

// demo runs until the first signal ends the traffic, or the second one everything.
func (a app) demo(ctx context.Context, o demo.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	o.Stop = stop
	go func() {
		for _, act := range []func(){func() { close(stop) }, cancel} {
			select {
			case <-signals:
				act()
			case <-ctx.Done():
				return
			}
		}
	}()
	v, err := demo.Run(ctx, o)
	switch {
	case errors.Is(err, demo.ErrInterrupted):
		return &exitError{code: exitDeadline, err: err}
	case err != nil:
		return err
	}
	if _, err := fmt.Fprintln(a.stdout, v.Text(o.Colour)); err != nil {
		return err
	}
	if !v.OK {
		return &exitError{code: exitNo, err: errors.New("the demo failed; --seed " + strconv.FormatUint(o.Seed, 10) + " repeats its traffic and changes")}
	}
	return nil
}

func parsePorts(text string) (p demo.Ports, err error) {
	fields := strings.Split(text, ",")
	to := []*int{&p.East, &p.EastAdmin, &p.West, &p.WestAdmin}
	for i, field := range fields {
		n, err := strconv.Atoi(field)
		if err != nil || len(fields) != len(to) || n < 1 || n > 65535 {
			return p, fmt.Errorf("--ports must be four ports, EAST,EAST-ADMIN,WEST,WEST-ADMIN, not %q", text)
		}
		*to[i] = n
	}
	return p, nil
}

// tty is a terminal of this process.
type tty struct {
	io.Writer
	fd int
}

// Size is that of a usual terminal where the real one does not tell.
func (t tty) Size() (width, height int) {
	width, height, err := term.GetSize(t.fd)
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// terminal is stdout if that can show a live view.
func (a app) terminal() (t demo.Terminal, colour bool) {
	f, ok := a.stdout.(*os.File)
	name, _ := a.env("TERM")
	if !ok || !term.IsTerminal(int(f.Fd())) || name == "dumb" {
		return nil, false
	}
	noColour, _ := a.env("NO_COLOR")
	return tty{f, int(f.Fd())}, noColour == ""
}
