package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// A bundle for a report is made of what was chosen to be in it, not of everything less what
// was found to be secret: the fields below are all there are, and none of them can hold a
// path of a workspace, an argument, content or a token.

func bundleCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "support-bundle FILE", Short: "Write what a report needs, without paths, content and secrets", Args: oneArg("the file to write, such as bundle.tar.gz"),
		RunE: func(c *cobra.Command, args []string) error { return a.supportBundle(c.Context(), args[0]) }}
}

func (a *app) supportBundle(ctx context.Context, file string) error {
	parts := []struct {
		name string
		make func(context.Context) any
	}{
		{"version.json", func(context.Context) any {
			return map[string]string{"version": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
		}},
		{"doctor.json", a.bundledProbes}, {"status.json", a.bundledStatus}, {"config.json", a.bundledConfig}, {"audit.json", a.bundledAudit},
		{"environment.json", a.bundledEnvironment},
	}
	var all bytes.Buffer
	z := gzip.NewWriter(&all)
	t := tar.NewWriter(z)
	names := []string{}
	for _, p := range parts {
		b, err := json.MarshalIndent(p.make(ctx), "", "  ")
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: "holdpoint-bundle/" + p.name, Mode: 0o600, Size: int64(len(b) + 1)})
		}
		if err == nil {
			_, err = t.Write(append(b, '\n'))
		}
		if err != nil {
			return op.Fail(op.IOError, "the bundle cannot be made").Because(err)
		}
		names = append(names, p.name)
	}
	if err := errors.Join(t.Close(), z.Close()); err != nil {
		return op.Fail(op.IOError, "the bundle cannot be made").Because(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return op.Fail(op.IOError, "the bundle cannot be written").Because(err).Do("name a file that is not there yet")
	}
	if _, err = f.Write(all.Bytes()); errors.Join(err, f.Close()) != nil {
		return op.Fail(op.IOError, "the bundle cannot be written").Because(err)
	}
	if a.json {
		a.printJSON(map[string]any{"path": file, "files": names})
		return nil
	}
	fmt.Fprintf(a.Out, "Wrote %s with %s. Look into it before you send it.\n", line(file), strings.Join(names, ", "))
	return nil
}

// unavailable says why a part is not there, by its code alone: a message may name a path.
func unavailable(err error) any { return map[string]op.Code{"unavailable": op.AsError(err).Code} }

// placed finds absolute paths in a probe's own words.
var placed = regexp.MustCompile(`/[^\s:,;]+`)

// bundledProbes leaves out the words of rows that speak of the workspace and the state.
func (a *app) bundledProbes(ctx context.Context) any {
	rows := a.probes(ctx, ".")
	for i, r := range rows {
		if r.Detail = placed.ReplaceAllString(r.Detail, "PATH"); r.Name == "workspace" || r.Name == "reviewer" {
			r.Detail = ""
		}
		rows[i] = r
	}
	return rows
}

func (a *app) bundledStatus(ctx context.Context) any {
	type root struct {
		Ready    bool     `json:"ready"`
		Store    string   `json:"store"`
		Warnings []string `json:"warnings"`
	}
	var out struct {
		Version    string   `json:"version"`
		Roots      []root   `json:"roots"`
		ReviewAuth string   `json:"review_auth"`
		Pending    int64    `json:"pending"`
		Policy     string   `json:"policy"`
		Warnings   []string `json:"warnings"`
	}
	err := a.asOwn(ctx, "", func(cl *client) error {
		var s statusInfo
		if _, err := cl.get(ctx, "/v1/status", &s); err != nil {
			return err
		}
		out.Version, out.ReviewAuth, out.Pending, out.Policy = s.Version, s.ReviewAuth, s.Pending, s.Policy.State
		for _, r := range s.Roots {
			one := root{Ready: r.Ready, Store: r.Store}
			for _, w := range r.Warnings {
				one.Warnings = append(one.Warnings, string(w.Code))
			}
			out.Roots = append(out.Roots, one)
		}
		for _, raw := range s.Warnings {
			var w struct{ Code string }
			json.Unmarshal(raw, &w)
			out.Warnings = append(out.Warnings, w.Code)
		}
		return nil
	})
	if err != nil {
		return unavailable(err)
	}
	return out
}

// bundledConfig tells which keys are set, and the value only where it is a number or a yes:
// texts are addresses, commands, patterns and names.
func (a *app) bundledConfig(context.Context) any {
	all := map[string]any{}
	for _, l := range configLayers("", a.Env) {
		one, err := l.read()
		if err != nil {
			return unavailable(err)
		}
		all = overlay(all, one, "")
	}
	known := []string{}
	for _, k := range configKeys() {
		known = append(known, strings.Split(k.name, ".")...)
	}
	var bare func(v any) any
	bare = func(v any) any {
		switch v := v.(type) {
		case bool, int64, float64:
			return v
		case map[string]any:
			out := map[string]any{}
			for k, w := range v {
				if !slices.Contains(known, k) && !slices.Contains(known, k+"[]") {
					k = fmt.Sprintf("name%d", len(out)+1) // of a profile: the operator's own word
				}
				out[k] = bare(w)
			}
			return out
		case []any:
			return fmt.Sprintf("%d set", len(v))
		}
		return "set"
	}
	return bare(all)
}

// bundledAudit holds the latest records without the labels that callers and people chose.
func (a *app) bundledAudit(ctx context.Context) any {
	keep := []string{"seq", "time", "kind", "tool", "decision", "reason", "also", "mandatory", "pinned", "operation_id", "approval_id", "outcome", "undo"}
	var got struct {
		Records []map[string]any `json:"records"`
	}
	err := a.asWatcher(ctx, "", func(cl *client) error {
		_, err := cl.get(ctx, query("/v1/audit", "n", "200"), &got)
		return err
	})
	if err != nil {
		return unavailable(err)
	}
	for _, r := range got.Records {
		for k := range r {
			if !slices.Contains(keep, k) {
				delete(r, k)
			}
		}
	}
	return got.Records
}

// bundledEnvironment names which of our variables are set, not to what.
func (a *app) bundledEnvironment(context.Context) any {
	set := []string{}
	for _, w := range environmentWords {
		if a.Env(w[0]) != "" {
			set = append(set, w[0])
		}
	}
	return set
}
