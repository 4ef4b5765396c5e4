package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"holdpoint/audit"
	"holdpoint/op"
)

func (a *app) auditCommand() *cobra.Command {
	var n int
	var head, root string
	tail := &cobra.Command{Use: "tail", Short: "Show the last records", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 1 {
				return usagef("-n needs a number from 1")
			}
			return a.asWatcher(c.Context(), root, func(cl *client) error { return a.auditTail(c.Context(), cl, n) })
		}}
	tail.Flags().IntVarP(&n, "lines", "n", 20, "so many records")
	verify := &cobra.Command{Use: "verify", Short: "Check the whole chain, with --head also that its end is still there", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.auditVerify(c.Context(), root, head) }}
	verify.Flags().StringVar(&head, "head", "", "a head kept elsewhere, as audit head printed it; - for standard input")
	g := a.group("audit", "Read and check the record of decisions", tail,
		&cobra.Command{Use: "head", Short: "Print the sealed head, to keep elsewhere", Args: noArgs,
			RunE: func(c *cobra.Command, _ []string) error {
				return a.asWatcher(c.Context(), root, func(cl *client) error {
					raw, err := cl.get(c.Context(), "/v1/audit/head", nil)
					if err == nil {
						a.printJSON(raw)
					}
					return err
				})
			}}, verify)
	g.PersistentFlags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	return g
}

func (a *app) auditTail(ctx context.Context, c *client, n int) error {
	var got struct {
		Records []json.RawMessage `json:"records"`
	}
	if _, err := c.get(ctx, query("/v1/audit", "n", strconv.Itoa(n)), &got); err != nil {
		return err
	}
	var rows [][]string
	for _, raw := range got.Records {
		if a.json {
			a.printJSON(raw)
			continue
		}
		var r audit.Record
		if err := json.Unmarshal(raw, &r); err != nil {
			return op.Fail(op.Internal, "an audit record is not understood: "+err.Error()).Because(err)
		}
		rows = append(rows, []string{strconv.FormatInt(r.Seq, 10), a.clock(r.Time), line(r.Kind), line(string(r.Tool)), line(r.Decision),
			line(string(r.Reason)), first(line(r.Agent), "-"), first(line(r.Outcome), "-"), line(string(first(r.OperationID, r.ApprovalID)))})
	}
	table(a.Out, rows)
	return nil
}

// auditVerify asks the daemon, which can check the seal of a head; without one it reads the
// log itself and says what that leaves open.
func (a *app) auditVerify(ctx context.Context, root, file string) error {
	var head *audit.Head
	if file != "" {
		data, err := a.readInput(file)
		if err != nil {
			return err
		}
		head = &audit.Head{}
		if err := json.Unmarshal(data, head); err != nil || head.Hash == "" {
			return op.Fail(op.BadRequest, file+" holds no head").Do("keep what holdpoint audit head prints")
		}
	}
	var result audit.Result
	err := a.asWatcher(ctx, root, func(c *client) error {
		body := map[string]any{}
		if head != nil {
			body["head"] = head
		}
		_, err := c.do(ctx, http.MethodPost, "/v1/audit/verify", body, &result)
		return err
	})
	if noDaemon(err) {
		dir := filepath.Join(StatePath(a.state, a.Env), "audit")
		if result, err = audit.Verify(dir, head, nil); errors.Is(err, op.NotFound) || noDaemon(err) {
			return op.Fail(op.NotFound, "no audit log in "+dir).Do("name the state directory with --state")
		}
		if err == nil && head != nil {
			fmt.Fprintln(a.Err, "note: no daemon runs, so the seal of the head was not checked")
		}
	}
	if err != nil {
		return err
	}
	return a.showVerified(result, head != nil)
}

func (a *app) showVerified(r audit.Result, withHead bool) error {
	switch {
	case a.json:
		a.printJSON(r)
	case r.Err != nil:
		fmt.Fprintf(a.Out, "%s\n", plural(r.Records, "record")+" in order")
		a.showError(r.Err)
		if r.At > 0 {
			fmt.Fprintf(a.Err, "  record: %d\n", r.At)
		}
	default:
		fmt.Fprintf(a.Out, "%s in order\n", plural(r.Records, "record"))
		if r.Torn > 0 {
			fmt.Fprintf(a.Err, "note: %s of an unfinished last record, as a crash leaves\n", plural(r.Torn, "byte"))
		}
		if !withHead {
			fmt.Fprintln(a.Err, "note: that the end was cut off shows only against a head kept elsewhere: --head FILE")
		}
	}
	if r.Err != nil {
		return exitWith(op.ExitStatus(r.Err.Code))
	}
	return nil
}
