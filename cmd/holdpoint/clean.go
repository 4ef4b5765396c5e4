package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func cleanCommand(a *app) *cobra.Command {
	var root, requestID, executionID string
	var dryRun bool
	c := &cobra.Command{Use: "clean POLICY_ID", Short: "Quarantine what an entry of the trusted policy selects, as one operation", Args: oneArg("the id of an entry with a select"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.callJSON(string(op.BatchFileOps), a.asOwn(ctx, root, func(cl *client) error {
				name, err := cl.rootNamed(ctx, root)
				if err != nil {
					return err
				}
				r, err := cl.call(ctx, "/v1/clean", filled(map[string]any{"policy_id": args[0], "root": name, "dry_run": dryRun, "request_id": requestID, "execution_id": executionID}), op.BatchFileOps)
				if err != nil {
					return err
				}
				return a.finishClean(r)
			}))
		}}
	f := c.Flags()
	f.StringVar(&root, "root", "", "the root by name, key or directory; a directory without a daemon runs in process")
	f.BoolVar(&dryRun, "dry-run", false, "say what would go, move nothing")
	f.StringVar(&requestID, "request-id", "", "the same id gets the same reply, once done")
	f.StringVar(&executionID, "execution-id", "", "label of the execution, for the audit")
	return c
}

// finishClean says what went and how to get it back; what was held or refused is shown
// like any call.
func (a *app) finishClean(r reply) error {
	if a.json || r.Status != op.Done {
		return a.finishReply(r, request{Op: op.BatchFileOps})
	}
	var got struct {
		Count, Remaining, Spared int
		Bytes                    int64
		Sample                   []string
		DryRun                   bool `json:"dry_run"`
	}
	if err := json.Unmarshal(r.Result, &got); err != nil {
		return op.Fail(op.Internal, "the daemon's answer is not understood").Because(err)
	}
	word := "moved to quarantine"
	switch {
	case got.Count == 0:
		fmt.Fprintln(a.Out, "Nothing to do: no file matches.")
	default:
		if got.DryRun {
			word = "would go to quarantine"
		}
		fmt.Fprintf(a.Out, "%d files, %d bytes %s.\n", got.Count, got.Bytes, word)
		for _, p := range got.Sample {
			fmt.Fprintf(a.Out, "  %s\n", line(p))
		}
		if more := got.Count - len(got.Sample); more > 0 {
			fmt.Fprintf(a.Out, "  and %d more\n", more)
		}
	}
	if got.Remaining > 0 {
		fmt.Fprintf(a.Out, "%d more match; run it again for those.\n", got.Remaining)
	}
	if got.Spared > 0 {
		fmt.Fprintf(a.Out, "%d match but are protected or look like secrets; they stay.\n", got.Spared)
	}
	if r.OperationID != "" {
		fmt.Fprintf(a.Out, "Back: holdpoint undo %s\n", line(string(r.OperationID)))
	}
	return exitWith(r.exit())
}
