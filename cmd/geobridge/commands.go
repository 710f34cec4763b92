package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/geobridge/geobridge/config"
)

func (a app) validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration file without contacting anything",
		Long:  "Check the configuration file without contacting anything. Everything wrong is listed at once, as FILE:LINE:COL: message.",
		Args:  cobra.NoArgs,
	}
	path := a.configFlag(cmd)
	show := cmd.Flags().Bool("print", false, "print the configuration in force, with every default filled in")
	online := cmd.Flags().Bool("online", false, "also ask the clusters (not yet supported by this version)")
	cmd.RunE = func(*cobra.Command, []string) error {
		if *online {
			return usageError(errors.New("validate --online is not yet supported by this version"))
		}
		cfg, err := a.load(*path)
		if err != nil {
			return err
		}
		if *show {
			text, err := cfg.Marshal()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(text)
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s: valid: %d clusters, %d mappings\n", *path, len(cfg.Clusters), len(cfg.Mappings))
		return err
	}
	return cmd
}

func (a app) exampleCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "example",
		Short: "Print a commented configuration",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.stdout, config.Example())
			return err
		},
	}
}

func (a app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: cobra.NoArgs}
	output := cmd.Flags().StringP("output", "o", "table", "table or json")
	cmd.RunE = func(*cobra.Command, []string) error {
		switch *output {
		case "table":
			_, err := fmt.Fprintf(a.stdout, "geobridge %s\nrevision  %s\ngo        %s\n", a.build.Version, a.build.Revision, a.build.GoVersion)
			return err
		case "json":
			return json.NewEncoder(a.stdout).Encode(struct {
				Schema    int    `json:"schema"`
				Version   string `json:"version"`
				Revision  string `json:"revision"`
				GoVersion string `json:"goversion"`
			}{1, a.build.Version, a.build.Revision, a.build.GoVersion})
		}
		return usageError(fmt.Errorf("-o must be table or json, not %q", *output))
	}
	return cmd
}
