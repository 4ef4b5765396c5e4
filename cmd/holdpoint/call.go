package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

// callFlags are the parts of a Request that are no arguments of the operation.
type callFlags struct {
	args, root, pins, requestID, session, stage, executionID, intent string
	dryRun, follow                                                   bool
	wait                                                             durationFlag
}

func (f *callFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.args, "args", "", "all arguments as JSON, @FILE, or - for standard input")
	s.StringVar(&f.root, "root", "", "the root by name, key or directory; a directory without a daemon runs in process")
	s.BoolVar(&f.dryRun, "dry-run", false, "rehearse: say what would happen, change nothing")
	s.StringVar(&f.pins, "pins", "", "pins of a preflight: only if all of it still holds")
	s.StringVar(&f.requestID, "request-id", "", "the same id and call gets the same reply, once done")
	s.StringVar(&f.session, "session", "", "label of the session")
	s.StringVar(&f.stage, "stage", "", "label of the stage")
	s.StringVar(&f.executionID, "execution-id", "", "label of the execution")
	s.StringVar(&f.intent, "intent", "", "what the user asked, for the card")
}

func (a *app) callCommand() *cobra.Command {
	f := &callFlags{}
	c := &cobra.Command{
		Use:               "call OP [key=value ... | --args JSON|@FILE|-]",
		Short:             "Ask for one operation and show the reply",
		Args:              needsOperation,
		ValidArgsFunction: completeCall,
		RunE: func(c *cobra.Command, words []string) error {
			return a.callJSON(words[0], a.asOwnCall(c.Context(), f, words))
		},
	}
	f.add(c)
	c.Flags().Var(&f.wait, "wait", "wait so long for a person's answer, as 30s")
	c.Flags().BoolVar(&f.follow, "follow", false, "show what a program prints as it comes, waiting for the person who releases it")
	c.SetHelpFunc(callHelp(c.HelpFunc()))
	return c
}

func needsOperation(c *cobra.Command, words []string) error {
	if len(words) == 0 {
		return usagef("name an operation; holdpoint %s --help lists them", c.Name())
	}
	return nil
}

// callJSON gives a failure that came before any reply the form of one, so that with --json
// a call is always answered by a Reply.
func (a *app) callJSON(name string, err error) error {
	var code exitCode
	var usage usageError
	if err == nil || !a.json || errors.As(err, &code) || errors.As(err, &usage) {
		return err
	}
	e := asError(err)
	status := op.Failed
	if op.ExitStatus(e.Code) == 4 {
		status = op.Refused
	}
	a.printJSON(op.Reply{Status: status, Op: op.Name(name), Error: e, Effects: []op.Effect{}})
	return exitWith(op.ExitStatus(e.Code))
}

func (a *app) asOwnCall(ctx context.Context, f *callFlags, words []string) error {
	body, err := a.request(f, words)
	if err != nil {
		return err
	}
	return a.asOwn(ctx, f.root, func(c *client) error {
		if body.Root, err = c.rootNamed(ctx, f.root); err != nil {
			return err
		}
		if f.follow {
			limit := time.Duration(1 << 62)
			if f.wait.set {
				limit = f.wait.d
			}
			r, err := a.followed(ctx, c, body, limit)
			if err != nil {
				return err
			}
			return a.finishReply(r.printed(), body)
		}
		r, err := c.call(ctx, "/v1/call", body, body.Op)
		if err != nil {
			return err
		}
		if f.wait.set && r.Status == op.Held && r.Approval != nil {
			if r, err = a.await(ctx, c, r, f.wait.d); err != nil {
				return err
			}
		}
		return a.finishReply(r, body)
	})
}

// request is one Request with its arguments as they were written.
type request struct {
	Op          op.Name         `json:"op"`
	Root        string          `json:"root,omitempty"`
	Args        json.RawMessage `json:"args"`
	DryRun      bool            `json:"dry_run,omitempty"`
	Pins        string          `json:"pins,omitempty"`
	RequestID   string          `json:"request_id,omitempty"`
	Session     string          `json:"session,omitempty"`
	Stage       string          `json:"stage,omitempty"`
	ExecutionID string          `json:"execution_id,omitempty"`
	Intent      string          `json:"intent,omitempty"`
}

func (a *app) request(f *callFlags, words []string) (request, error) {
	r := request{Op: op.Name(words[0]), DryRun: f.dryRun, Pins: f.pins, RequestID: f.requestID, Session: f.session,
		Stage: f.stage, ExecutionID: f.executionID, Intent: f.intent}
	// The JSON encoder would replace bad bytes without a word.
	for _, text := range []string{words[0], f.root, f.pins, f.requestID, f.session, f.stage, f.executionID, f.intent} {
		if !utf8.ValidString(text) {
			return r, op.Fail(op.BadRequest, "the command line holds bytes that are not UTF-8 outside of a path")
		}
	}
	var err error
	switch {
	case f.args != "" && len(words) > 1:
		return r, usagef("give arguments as key=value or as --args, not both")
	case f.args != "":
		r.Args, err = argsFlag(f.args, a.readInput)
	default:
		r.Args, err = argWords(r.Op, words[1:], a.readInput)
	}
	return r, err
}

// call posts what is answered by a Reply, whatever the status line says.
func (c *client) call(ctx context.Context, path string, body any, name op.Name) (reply, error) {
	got, err := c.send(ctx, http.MethodPost, path, body)
	if err != nil {
		return reply{}, err
	}
	return readReply(got, name)
}

// completeCall offers operations, then their arguments.
func completeCall(_ *cobra.Command, words []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(words) == 0 {
		for _, s := range op.Operations() {
			if s.Built {
				out = append(out, string(s.Name)+"\t"+s.Title)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	if s, ok := op.Lookup(op.Name(words[0])); ok && s.Args != nil {
		for _, f := range op.Fields(s.Args) {
			if !slices.ContainsFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, f.Name+"=") }) {
				out = append(out, f.Name+"=\t"+f.Doc)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// callHelp lists the operations, or the arguments of the one that is named, from the same
// table that checks them.
func callHelp(usual func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, words []string) {
		w := c.OutOrStdout()
		for _, word := range words {
			if s, ok := op.Lookup(op.Name(word)); ok {
				operationHelp(w, s)
				return
			}
		}
		usual(c, words)
		operationsHelp(w)
	}
}
