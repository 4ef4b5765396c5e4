package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// changes is what the daemon says may have changed.
type changes struct {
	Cursor    string   `json:"cursor"`
	LookAgain bool     `json:"look_again"`
	Why       string   `json:"why"`
	Paths     []string `json:"paths"`
}

func (a *app) watchCommand() *cobra.Command {
	var root, after string
	var once bool
	c := &cobra.Command{Use: "watch", Short: "Show what changes in a workspace as it changes, until interrupted", Args: noArgs,
		Long: `Show what changes in a workspace as it changes, until interrupted.

With --once it answers and ends: without a cursor only where to count from, with --after
what may have changed since. It is a hint where to look: when it says to look again, more
may have changed than is named. What git ignores is not watched.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asWatcher(c.Context(), root, func(cl *client) error { return a.changes(c.Context(), cl, root, after, once) })
		}}
	s := c.Flags()
	s.StringVar(&root, "root", "", "the workspace: name, key or directory")
	s.StringVar(&after, "after", "", "the cursor of an earlier answer")
	s.BoolVar(&once, "once", false, "answer once and end")
	return c
}

func (a *app) changes(ctx context.Context, c *client, root, after string, once bool) error {
	root, err := c.rootNamed(ctx, root)
	if err != nil {
		return err
	}
	wait := "30s"
	if once {
		wait = ""
	}
	for told := ""; ; {
		var got changes
		raw, err := c.get(ctx, query("/v1/changes", "root", root, "after", after, "wait", wait), &got)
		if errors.Is(err, context.Canceled) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case a.json && (once || len(got.Paths) > 0 || got.LookAgain && got.Why != told):
			a.printJSON(raw)
		case !a.json:
			for _, p := range got.Paths {
				fmt.Fprintln(a.Out, showPath(op.Path(p)))
			}
			if got.LookAgain && got.Why != told {
				fmt.Fprintf(a.Err, "look again: %s\n", line(got.Why))
			}
			if once {
				fmt.Fprintf(a.Err, "cursor: %s\n", line(got.Cursor))
			}
		}
		if once {
			return nil
		}
		after, told = got.Cursor, got.Why
	}
}
