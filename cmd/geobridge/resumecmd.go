package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

const defaultAddress = "http://127.0.0.1:9464"

// addressFlag adds --address with its default from the environment.
func (a app) addressFlag(cmd *cobra.Command) *string {
	address := defaultAddress
	if v, ok := a.env("GEOBRIDGE_ADDRESS"); ok && v != "" {
		address = v
	}
	return cmd.Flags().String("address", address, "where the running geobridge listens; the default can be set by $GEOBRIDGE_ADDRESS")
}

func (a app) resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume MAPPING",
		Short: "Let a mapping go on that holds because something was lost",
		Long: "With --accept-gap, let a mapping go on that on_gap or on_lost_evidence holds: without the source data that is gone, or with\n" +
			"what was in flight sent again. What is lost later is another matter. Ask each instance that holds a lane.",
		Args: cobra.ExactArgs(1),
	}
	address := a.addressFlag(cmd)
	accept := cmd.Flags().Bool("accept-gap", false, "accept what was lost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*accept {
			return usageError(errors.New("nothing can be paused yet: resume needs --accept-gap"))
		}
		if err := order(contextOf(cmd), *address, "mappings/"+url.PathEscape(args[0])+"/resume", map[string]any{"accept_gap": true}); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "%s goes on\n", args[0])
		return err
	}
	return cmd
}

// order tells a running geobridge to do something.
func order(ctx context.Context, address, path string, body any) error {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/api/v1/"+path, bytes.NewReader(text))
	if err != nil {
		return usageError(fmt.Errorf("--address: %w", err))
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return &exitError{exitNotAsked, err}
	}
	defer resp.Body.Close()
	var answer struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return &exitError{exitNotAsked, fmt.Errorf("%s answers %s", address, resp.Status)}
	}
	switch {
	case resp.StatusCode == http.StatusForbidden:
		return &exitError{exitNotAsked, errors.New(answer.Error)}
	case answer.Error != "":
		return &exitError{exitNo, errors.New(answer.Error)}
	}
	return nil
}
