package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/decision"
	"holdpoint/op"
	"holdpoint/trusted"
)

func (a *app) policyCommand() *cobra.Command {
	f := &callFlags{}
	explain := &cobra.Command{Use: "explain OP [key=value ... | --args JSON|@FILE|-]",
		Short: "Say what would be decided, and by which rule", Args: needsOperation, ValidArgsFunction: completeCall,
		RunE: func(c *cobra.Command, words []string) error { return a.explain(c.Context(), f, words) }}
	f.add(explain)
	return a.group("policy", "Check a policy file, explain and replay decisions",
		&cobra.Command{Use: "check FILE", Short: "Validate a trusted-automation policy file", Args: oneArg("a file, or - for standard input"),
			RunE: func(c *cobra.Command, args []string) error { return a.policyCheck(c.Context(), args[0]) }},
		&cobra.Command{Use: "judge [FILE|-]", Short: "Read rows of facts, write one decision a line", Args: cobra.MaximumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.judge(args) }},
		explain)
}

// judge needs no daemon: the judgement is a pure function.
func (a *app) judge(args []string) error {
	var in io.Reader = a.In
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return usagef("%s cannot be read: %v", args[0], err)
		}
		defer f.Close()
		in = f
	}
	return decision.JudgeRows(in, a.Out)
}

// explain asks for the same foresight as preflight and shows the decision alone. Its own
// outcome is that it could be told, so a review or refusal is no failure.
func (a *app) explain(ctx context.Context, f *callFlags, words []string) error {
	p, err := a.foresee(ctx, f, words)
	if err != nil {
		return err
	}
	if a.json {
		a.printJSON(p.raw)
		return nil
	}
	if p.Decision == nil {
		return orNoDecision(p.Error)
	}
	a.showDecision(*p.Decision)
	if p.Facts != nil {
		for _, t := range p.Facts.Targets {
			if m := marks(t); m != "" {
				fmt.Fprintf(a.Out, "  %s is %s\n", showPath(t.Path), m)
			}
		}
	}
	if p.Error != nil {
		fmt.Fprintf(a.Out, "it would fail: %s: %s\n", line(string(p.Error.Code)), line(p.Error.Message))
	}
	return nil
}

func orNoDecision(e *op.Error) error {
	if e == nil {
		return op.Fail(op.Internal, "the daemon gave no decision")
	}
	return e
}

// policyCheck loads a file as the daemon would. Whether it lies in a workspace is known
// only while a daemon can be asked for its roots.
func (a *app) policyCheck(ctx context.Context, file string) error {
	var list []trusted.Policy
	if file == "-" {
		data, err := a.readInput("-")
		if err != nil {
			return err
		}
		if list, err = trusted.Parse(data); err != nil {
			return err
		}
	} else {
		roots, asked := a.knownRoots(ctx)
		set, err := trusted.Load(file, trusted.LoadEnv{Workspaces: roots, UID: os.Getuid()})
		if err != nil {
			return err
		}
		list = set.Policies()
		if !asked {
			fmt.Fprintln(a.Err, "note: no daemon answered, so it was not checked whether the file lies in a workspace")
		}
	}
	if a.json {
		a.printJSON(map[string]any{"valid": true, "policies": append([]trusted.Policy{}, list...)})
		return nil
	}
	fmt.Fprintf(a.Out, "valid, policies: %d\n", len(list))
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{"  " + line(p.ID), "workflows " + line(strings.Join(p.WorkflowIDs, " ")), names(p.Operations), line(strings.Join(p.Roots, " ")), selected(p.Select)})
	}
	table(a.Out, rows)
	return nil
}

// selected words what a cleanup picks.
func selected(s *trusted.Select) string {
	if s == nil {
		return ""
	}
	return line(joined(", ", "cleans "+strings.Join(s.Include, " "), labeled("older than", s.OlderThan), fmt.Sprintf("at most %d files", s.MaxFiles)))
}

func names(list []op.Name) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = line(string(n))
	}
	return strings.Join(words, " ")
}

// knownRoots asks a running daemon, briefly, and does without one.
func (a *app) knownRoots(ctx context.Context) ([]string, bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := a.connect(ctx, "")
	if err != nil {
		return nil, false
	}
	defer c.close()
	if c.token, err = a.own(); err != nil {
		return nil, false
	}
	var s statusInfo
	if _, err := c.get(ctx, "/v1/status", &s); err != nil {
		return nil, false
	}
	var dirs []string
	for _, r := range s.Roots {
		if r.Dir != "" {
			dirs = append(dirs, r.Dir)
		}
	}
	return dirs, true
}
