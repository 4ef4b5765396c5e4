package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"holdpoint/decision"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

func (a *app) replayCommand() *cobra.Command {
	var table string
	c := &cobra.Command{Use: "replay", Short: "Rebuild queue, rules and decisions from the record, without effects", Args: noArgs,
		Long: "Makes every decision on record again from what it was made from, and rebuilds the queue, the rules and the modes.\n" +
			"Nobody is asked and nothing is done. It ends with 1 when a record does not say what it must, and names it.\n" +
			"A running daemon is asked; without one the state directory is read.",
		RunE: func(c *cobra.Command, _ []string) error { return a.replay(c.Context(), table) }}
	c.Flags().StringVar(&table, "table", "", "also hold a decision table (JSON rows with want) against the judgement")
	return c
}

// replayed is the answer of the route, with the rows of a table beside it.
type replayed struct {
	flow.Replayed
	Rows int `json:"rows,omitempty"` // of the table
}

func (a *app) replay(ctx context.Context, table string) error {
	var got replayed
	var err error
	if table != "" {
		if err := a.replayTable(table, &got); err != nil {
			return err
		}
	}
	rows := got.Findings
	got.Replayed, err = a.replayRecord(ctx)
	if errors.Is(err, op.NotFound) && table != "" {
		fmt.Fprintln(a.Err, "note: no record is there; only the table was judged")
		err = nil
	}
	if err != nil {
		return err
	}
	got.Findings = append(append([]flow.ReplayFinding{}, got.Findings...), rows...)
	if a.json {
		a.printJSON(got)
	} else {
		a.showReplayed(got)
	}
	if len(got.Findings) == 0 {
		return nil
	}
	f := got.Findings[0]
	a.showError(op.Fail(op.StateCorrupt, fmt.Sprintf("%s do not say what they must; the first is %s %s: %s",
		plural(int64(len(got.Findings)), "record"), line(f.Kind), line(string(f.Record)), line(f.Message))))
	return exitWith(op.ExitStatus(op.StateCorrupt))
}

// replayRecord asks the daemon, which alone may open its state; without one it reads the
// state itself.
func (a *app) replayRecord(ctx context.Context) (flow.Replayed, error) {
	var got flow.Replayed
	err := a.asWatcher(ctx, "", func(c *client) error {
		_, err := c.get(ctx, "/v1/replay", &got)
		return err
	})
	if !noDaemon(err) {
		return got, err
	}
	j, err := journal.Open(StatePath(a.state, a.Env), journal.Options{})
	if err != nil {
		return got, err
	}
	got, err = flow.ReplayJournal(ctx, j, decision.Judge)
	return got, errors.Join(err, j.Close())
}

func (a *app) replayTable(file string, got *replayed) error {
	f, err := os.Open(file)
	if err != nil {
		return usagef("%s cannot be read: %v", file, err)
	}
	defer f.Close()
	got.Rows, err = decision.CheckRows(f, func(at int, row decision.Row, is op.Decision) {
		got.Findings = append(got.Findings, flow.ReplayFinding{Record: op.ID(row.Name), Kind: "row", Number: int64(at), Code: "verdict",
			Message:  fmt.Sprintf("line %d wants %s (%s), and the judgement gives %s (%s)", at, row.Want.Verdict, row.Want.Reason, is.Verdict, is.Reason),
			Recorded: row.Want, Judged: &is})
	})
	return err
}

func (a *app) showReplayed(r replayed) {
	fmt.Fprintf(a.Out, "%s and %s: %s judged again, %s under their card's decision", plural(int64(r.Operations), "operation"),
		plural(int64(r.Approvals), "card"), plural(int64(r.Judged), "decision"), plural(int64(r.Carried), "operation"))
	if r.Unjudged > 0 {
		fmt.Fprintf(a.Out, ", %s of an older program without what they were made from", plural(int64(r.Unjudged), "record"))
	}
	fmt.Fprintln(a.Out)
	if r.Rows > 0 {
		fmt.Fprintf(a.Out, "%s of the table judged\n", plural(int64(r.Rows), "row"))
	}
	for _, part := range []struct {
		name string
		n    map[string]int
	}{{"decisions", r.Decisions}, {"queue", r.Queue}} {
		for _, k := range slices.Sorted(maps.Keys(part.n)) {
			fmt.Fprintf(a.Out, "  %s  %s %d\n", part.name, line(k), part.n[k])
		}
	}
	for _, m := range r.Modes {
		fmt.Fprintf(a.Out, "  mode  %s\n", line(joined(" ", m.Agent, m.Session, string(m.Mode))))
	}
	for _, x := range r.Rules {
		fmt.Fprintf(a.Out, "  %s  %s %s used %d\n", line(x.Kind), line(string(x.ID)), line(x.Agent), x.Used)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(a.Out, "%s: %s %s (record %d): %s\n", line(f.Code), line(f.Kind), line(string(f.Record)), f.Number, line(f.Message))
		if f.Recorded != nil && f.Judged != nil {
			was, _ := json.Marshal(f.Recorded)
			is, _ := json.Marshal(f.Judged)
			fmt.Fprintf(a.Out, "  recorded %s\n  judged   %s\n", line(string(was)), line(string(is)))
		}
	}
}
