package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	var root string
	c := &cobra.Command{Use: "status", Short: "Show the daemon: roots, policy, what waits, what to know", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asOwn(c.Context(), root, func(cl *client) error {
				var s statusInfo
				raw, err := cl.get(c.Context(), "/v1/status", &s)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(raw)
				} else {
					a.showStatus(cl, s)
				}
				return nil
			})
		}}
	c.Flags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	return c
}

// statusInfo is what GET /v1/status answers.
type statusInfo struct {
	Version    string            `json:"version"`
	Roots      []rootInfo        `json:"roots"`
	ReviewAuth string            `json:"review_auth"`
	Warnings   []json.RawMessage `json:"warnings"`
	Pending    int64             `json:"pending"`
	Daemon     string            `json:"daemon"`
	NATS       *struct {
		Connected bool   `json:"connected"`
		Server    string `json:"server"`
		Fault     string `json:"fault"`
	} `json:"nats"`
	Policy struct {
		File  string `json:"file"`
		State string `json:"state"`
		Error string `json:"error"`
	} `json:"policy"`
}

func (a *app) showStatus(c *client, s statusInfo) {
	what := "daemon"
	if !c.daemon {
		what = "in process, no daemon runs"
	}
	rows := [][]string{{"holdpoint", line(s.Version) + "  " + what}, {"at", line(c.where)}, {"waiting", plural(s.Pending, "card")},
		{"review", line(s.ReviewAuth)}, {"policy", line(joined("  ", first(s.Policy.State, "none"), s.Policy.File, s.Policy.Error))}}
	if s.Daemon != "" {
		rows = append(rows, []string{"daemon", line(s.Daemon)})
	}
	if n := s.NATS; n != nil {
		state := "no server is connected"
		if n.Connected {
			state = "connected to " + n.Server
		}
		rows = append(rows, []string{"nats", line(joined("; ", state, n.Fault))})
	}
	table(a.Out, rows)
	if s.Pending > 0 {
		fmt.Fprintln(a.Out, "see: "+a.command("review list"))
	}
	fmt.Fprintln(a.Out, "roots:")
	a.showRoots(s.Roots)
	for _, w := range s.Warnings {
		fmt.Fprintf(a.Out, "warning: %s\n", warningText(w))
	}
}

func (a *app) showRoots(list []rootInfo) {
	var rows [][]string
	for _, r := range list {
		state := "ready"
		if !r.Ready {
			state = "not ready"
		}
		for _, w := range r.Warnings {
			fmt.Fprintf(a.Err, "warning: %s: %s\n", line(r.Name), line(w.Message))
		}
		rows = append(rows, []string{"  " + line(r.Name), line(r.Dir), state, line(joined(" ", labeled("store", r.Store), r.Key))})
	}
	table(a.Out, rows)
}

// warningText takes a text, or a code and a message.
func warningText(raw json.RawMessage) string {
	var text string
	var w struct{ Code, Message string }
	if json.Unmarshal(raw, &text) == nil {
		return line(text)
	}
	if json.Unmarshal(raw, &w) == nil && w.Message != "" {
		return line(w.Message) + " (" + line(w.Code) + ")"
	}
	return line(string(raw))
}
