package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/config"
)

// The exit codes, a promise to scripts.
const (
	exitOK         = 0 // done; the answer is yes; drained
	exitUnexpected = 1
	exitUsage      = 2 // usage or configuration wrong, judged without contacting anything
	exitNo         = 3 // asked, the answer is no
	exitNotAsked   = 4 // could not ask: unreachable, unauthorised
	exitDeadline   = 5 // a deadline passed; nothing is lost
)

const defaultConfig = "/etc/geobridge/geobridge.yaml"

// An exitError decides the exit code. Without one, what a command returns is unexpected.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usageError(err error) error { return &exitError{exitUsage, err} }

// An app is the process as the commands see it.
type app struct {
	stdout, stderr io.Writer
	env            func(string) (string, bool)
	build          buildInfo
}

// run executes a command line and returns the exit code. Data goes to stdout, all else to stderr.
func (a app) run(args []string) int {
	began := false
	root := a.root(&began)
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var errs config.Errors
	if errors.As(err, &errs) {
		fmt.Fprintln(a.stderr, errs)
	} else {
		fmt.Fprintln(a.stderr, "geobridge:", err)
	}
	var ee *exitError
	switch {
	case errors.As(err, &ee):
		return ee.code
	case !began: // cobra refused the command line
		fmt.Fprintf(a.stderr, "Try %s --help.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitUnexpected
}

// root builds the commands. began is set once a command line was understood.
func (a app) root(began *bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "geobridge",
		Short: "Copy scalable topics between two Apache Pulsar clusters",
		Long: "geobridge copies the entries of scalable topics (topic://tenant/namespace/name) from one Apache Pulsar 5 cluster\n" +
			"to another, or both ways, while both clusters split and merge their segments as they like.",
		SilenceUsage: true, SilenceErrors: true,
		Args:             cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) { *began = true },
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(a.runCommand(), a.validateCommand(), a.exampleCommand(), a.verifyCommand(), a.resumeCommand(), a.forgetCommand(), a.rewindCommand(), a.demoCommand(), a.versionCommand())
	return root
}

// configFlag adds --config with its default from the environment.
func (a app) configFlag(cmd *cobra.Command) *string {
	path := defaultConfig
	if p, ok := a.env("GEOBRIDGE_CONFIG"); ok && p != "" {
		path = p
	}
	return cmd.Flags().String("config", path, "configuration file; the default can be set by $GEOBRIDGE_CONFIG")
}

// load reads the configuration; what is wrong with it is a usage error.
func (a app) load(path string) (*config.Config, error) {
	cfg, errs := config.Load(path, a.env)
	if len(errs) > 0 {
		return nil, usageError(errs)
	}
	return cfg, nil
}
