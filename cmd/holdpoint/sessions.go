package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/internal/journal"
)

func (a *app) sessionsCommand() *cobra.Command {
	var root, agent string
	var since durationFlag
	c := &cobra.Command{Use: "sessions", Short: "List the sessions that callers named, the latest first", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asWatcher(c.Context(), root, func(cl *client) error { return a.sessions(c.Context(), cl, root, agent, since) })
		}}
	f := c.Flags()
	f.StringVar(&root, "root", "", "only this root: name, key or directory")
	f.StringVar(&agent, "agent", "", "only sessions of this agent")
	f.Var(&since, "since", "only what happened in this last while, as 10m")
	return c
}

func (a *app) sessions(ctx context.Context, c *client, root, agent string, since durationFlag) error {
	name, err := c.rootNamed(ctx, root)
	if err != nil {
		return err
	}
	from := ""
	if since.set {
		from = a.now().Add(-since.d).UTC().Format(time.RFC3339Nano)
	}
	var page struct {
		Sessions []journal.Session `json:"sessions"`
	}
	if _, err := c.get(ctx, query("/v1/sessions", "root", name, "since", from), &page); err != nil {
		return err
	}
	list := []journal.Session{}
	for _, s := range page.Sessions {
		if agent == "" || s.Agent == agent {
			list = append(list, s)
		}
	}
	if a.json {
		b, err := json.Marshal(list)
		if err == nil {
			fmt.Fprintf(a.Out, "%s\n", b)
		}
		return err
	}
	a.showSessions(list)
	return nil
}

func (a *app) showSessions(list []journal.Session) {
	if len(list) == 0 {
		fmt.Fprintln(a.Err, "No session was named.")
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		what := fmt.Sprintf("%d of %d operations stand", s.Standing, s.Operations)
		if s.Waiting > 0 {
			what += fmt.Sprintf(", %d waiting", s.Waiting)
		}
		rows = append(rows, []string{a.clock(s.Last), line(s.Session), line(s.Agent), what})
	}
	table(a.Out, rows)
}
