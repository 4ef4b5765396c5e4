package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// ruleView is a rule on the wire.
type ruleView struct {
	ID         op.ID     `json:"id"`
	Kind       string    `json:"kind"` // mode, grant, remembered, profile
	Agent      string    `json:"agent"`
	Token      op.ID     `json:"token"`
	Root       string    `json:"root,omitempty"`
	Scope      string    `json:"scope,omitempty"`
	Session    string    `json:"session,omitempty"`
	Stage      string    `json:"stage,omitempty"`
	Mode       op.Mode   `json:"mode,omitempty"`
	Profile    string    `json:"profile,omitempty"`
	Identity   string    `json:"identity,omitempty"`
	Operations []op.Name `json:"operations,omitempty"`
	Paths      []string  `json:"paths,omitempty"`
	MaxTier    op.Tier   `json:"max_tier,omitempty"`
	Count      int64     `json:"count,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Used       int64     `json:"used"`
	UsedBytes  int64     `json:"used_bytes"`
	By         string    `json:"by"`
	Created    time.Time `json:"created_at"`
	Expires    time.Time `json:"expires_at,omitzero"`
	Revoked    bool      `json:"revoked"`
	RevokedBy  string    `json:"revoked_by,omitempty"`
}

func ruleViewOf(r journal.Rule) ruleView {
	return ruleView{r.ID, r.Kind, r.Agent, r.Token, r.Root, r.Scope, r.Session, r.Stage, r.Mode, r.Profile, r.Identity, r.Operations, r.Paths,
		r.MaxTier, r.MaxCount, r.MaxBytes, r.Used, r.UsedBytes, r.By, r.Created, r.Expires, r.Revoked, r.RevokedBy}
}

func rulesCommand(a *app) *cobra.Command {
	var all bool
	list := &cobra.Command{Use: "list", Short: "List grants, modes and remembered rules", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.ruleList(c.Context(), all, "") }}
	list.Flags().BoolVar(&all, "all", false, "also those that ended")
	revoke := &cobra.Command{Use: "revoke ID", Short: "End a rule; it counts from the next judgement on", Args: oneArg("the id of a rule"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ruleSend(c.Context(), http.MethodDelete, "/v1/rules/"+url.PathEscape(args[0]), nil)
		}}
	return a.group("rules", "Grants and remembered rules", list, grantCommand(a), revoke)
}

func grantCommand(a *app) *cobra.Command {
	var scope, agent, root, session, stage, tier, span string
	var ops, paths []string
	var count, bytes int64
	c := &cobra.Command{Use: "grant --scope SCOPE --agent NAME", Short: "Lift the asking for some calls of one agent, for a while", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if scope == "" || agent == "" {
				return usagef("%s needs --scope and --agent", c.CommandPath())
			}
			return a.ruleSend(c.Context(), http.MethodPut, "/v1/rules", filled(map[string]any{"scope": scope, "agent": agent, "root": root,
				"session": session, "stage": stage, "max_tier": tier, "for": span, "operations": ops, "paths": paths, "count": count, "bytes": bytes}))
		}}
	f := c.Flags()
	f.StringVar(&scope, "scope", "", "session, stage or project")
	f.StringVar(&agent, "agent", "", "the agent's name, or its token's id")
	f.StringVar(&root, "root", "", "the workspace by name or key")
	f.StringVar(&session, "session", "", "the session's label")
	f.StringVar(&stage, "stage", "", "the stage's label")
	f.StringSliceVar(&ops, "operation", nil, "only these operations")
	f.StringSliceVar(&paths, "path", nil, "only paths that these patterns match (gitignore syntax)")
	f.StringVar(&tier, "max-tier", "", "the highest tier it reaches (T2)")
	f.Int64Var(&count, "count", 0, "how often it may be used")
	f.Int64Var(&bytes, "bytes", 0, "how many bytes of change it may cover in all")
	f.StringVar(&span, "for", "", "how long it holds (1h; a project grant: until revoked)")
	return c
}

func modeCommand(a *app) *cobra.Command {
	show := &cobra.Command{Use: "show", Short: "Show the modes that people set", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.ruleList(c.Context(), false, journal.ModeRule) }}
	var agent, session, span string
	var confirm bool
	set := &cobra.Command{Use: "set MODE --agent NAME", Short: "Set how much one agent may do without asking: deny, prompt, auto, yolo", Args: oneArg("a mode"),
		RunE: func(c *cobra.Command, args []string) error {
			if agent == "" {
				return usagef("%s needs --agent", c.CommandPath())
			}
			if args[0] == string(op.Yolo) && !confirm && a.InTTY && !a.json {
				fmt.Fprintf(a.Err, "Mode yolo runs deletes and processes of %s without asking. Type yes to go on: ", line(agent))
				answer, err := a.readLine(c.Context())
				if err != nil {
					return err
				}
				confirm = strings.TrimSpace(answer) == "yes"
			}
			return a.ruleSend(c.Context(), http.MethodPut, "/v1/mode", filled(map[string]any{"mode": args[0], "agent": agent, "session": session, "for": span, "confirm": confirm}))
		}}
	f := set.Flags()
	f.StringVar(&agent, "agent", "", "the agent's name, or its token's id")
	f.StringVar(&session, "session", "", "only calls with this session label")
	f.StringVar(&span, "for", "", "how long it holds (1h)")
	f.BoolVar(&confirm, "confirm", false, "for yolo: yes, I mean it")
	return a.group("mode", "How much agents may do without asking", show, set)
}

// filled leaves out what was not given.
func filled(m map[string]any) map[string]any {
	for k, v := range m {
		switch v := v.(type) {
		case string:
			if v == "" {
				delete(m, k)
			}
		case []string:
			if len(v) == 0 {
				delete(m, k)
			}
		case int64:
			if v == 0 {
				delete(m, k)
			}
		case bool:
			if !v {
				delete(m, k)
			}
		}
	}
	return m
}

func (a *app) ruleSend(ctx context.Context, method, path string, body any) error {
	return a.asReviewer(ctx, "", func(c *client) error {
		var r ruleView
		raw, err := c.do(ctx, method, path, body, &r)
		if err != nil {
			return err
		}
		if a.json {
			a.printJSON(raw)
			return nil
		}
		table(a.Out, [][]string{ruleRow(a, r)})
		return nil
	})
}

func (a *app) ruleList(ctx context.Context, all bool, kind string) error {
	return a.asReviewer(ctx, "", func(c *client) error {
		var got struct {
			Rules []ruleView `json:"rules"`
		}
		raw, err := c.get(ctx, query("/v1/rules", "all", strconv.FormatBool(all)), &got)
		if err != nil {
			return err
		}
		if a.json {
			a.printJSON(raw)
			return nil
		}
		var rows [][]string
		for _, r := range got.Rules {
			if kind == "" || r.Kind == kind {
				rows = append(rows, ruleRow(a, r))
			}
		}
		if len(rows) == 0 {
			fmt.Fprintln(a.Err, "No rule is there.")
			return nil
		}
		table(a.Out, rows)
		return nil
	})
}

func ruleRow(a *app, r ruleView) []string {
	what := joined(" ", string(r.Mode), r.Profile, r.Scope, r.Session, r.Stage, names(r.Operations), strings.Join(r.Paths, " "), r.Identity)
	use := ""
	if r.Count > 0 {
		use = fmt.Sprintf("used %d of %d", r.Used, r.Count)
	}
	state := a.until(r.Expires)
	if r.Revoked {
		state = "ended by " + r.RevokedBy
	}
	return []string{line(string(r.ID)), line(r.Kind), line(r.Agent), line(what), joined(", ", use, line(state))}
}
