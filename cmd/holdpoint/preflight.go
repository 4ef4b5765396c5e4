package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/decision"
	"holdpoint/op"
)

// foresight is what POST /v1/preflight answers.
type foresight struct {
	Decision *op.Decision    `json:"decision"`
	Facts    *op.Facts       `json:"facts"`
	Preview  json.RawMessage `json:"preview"`
	Warnings []op.Warning    `json:"warnings"`
	Error    *op.Error       `json:"error"`
	Pins     string          `json:"pins"`
	raw      json.RawMessage
}

func (a *app) preflightCommand() *cobra.Command {
	f := &callFlags{}
	c := &cobra.Command{
		Use:               "preflight OP [key=value ... | --args JSON|@FILE|-]",
		Short:             "Say what a call would meet and how it would be decided, without doing it",
		Args:              needsOperation,
		ValidArgsFunction: completeCall,
		RunE: func(c *cobra.Command, words []string) error {
			p, err := a.foresee(c.Context(), f, words)
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(p.raw)
			} else {
				a.showForesight(p)
			}
			return exitWith(p.exit())
		},
	}
	f.add(c)
	c.SetHelpFunc(callHelp(c.HelpFunc()))
	return c
}

func (a *app) foresee(ctx context.Context, f *callFlags, words []string) (foresight, error) {
	var p foresight
	body, err := a.request(f, words)
	if err != nil {
		return p, err
	}
	err = a.asOwn(ctx, f.root, func(c *client) error {
		if body.Root, err = c.rootNamed(ctx, f.root); err != nil {
			return err
		}
		got, err := c.send(ctx, http.MethodPost, "/v1/preflight", body)
		if err != nil {
			return err
		}
		// A call that cannot succeed is still answered in full, with its error in it.
		if err := json.Unmarshal(got.body, &p); err != nil || p.Decision == nil && p.Facts == nil {
			if got.status >= 400 {
				return got.failure()
			}
			return op.Fail(op.Internal, "the daemon's answer to a preflight is not understood")
		}
		p.raw = got.body
		return nil
	})
	return p, err
}

// exit is what the call itself would have ended with.
func (p foresight) exit() int {
	switch {
	case p.Error != nil:
		return op.ExitStatus(p.Error.Code)
	case p.Decision == nil || p.Decision.Verdict == op.Refuse:
		return 4
	case p.Decision.Verdict == op.Review:
		return 3
	}
	return 0
}

func (a *app) showForesight(p foresight) {
	if p.Decision != nil {
		a.showDecision(*p.Decision)
	}
	if p.Facts != nil {
		a.showFacts(*p.Facts)
	}
	a.showPreview(p.Preview)
	for _, w := range p.Warnings {
		fmt.Fprintf(a.Out, "warning: %s (%s)\n", line(w.Message), line(w.Code))
	}
	if p.Pins != "" {
		fmt.Fprintf(a.Out, "pins: %s\n", line(p.Pins))
	}
	if p.Error != nil {
		a.showError(p.Error)
	}
}

// verdictWords say what would happen, for a person.
var verdictWords = map[op.Verdict]string{op.Auto: "would run by itself", op.Review: "would wait for a person", op.Refuse: "would be refused"}

func (a *app) showDecision(d op.Decision) {
	fmt.Fprintf(a.Out, "%s (tier %s)\n", a.bold(verdictWords[d.Verdict]), line(string(d.Tier)))
	for _, r := range append([]op.Reason{d.Reason}, d.Also...) {
		fmt.Fprintf(a.Out, "  - %s\n", reasonText(r))
	}
	if d.TrustedPolicyID != "" {
		fmt.Fprintf(a.Out, "  by the trusted policy %s\n", line(d.TrustedPolicyID))
	}
	if d.GrantID != "" {
		fmt.Fprintf(a.Out, "  by the rule or grant %s\n", line(d.GrantID))
	}
	if d.Mandatory {
		fmt.Fprintln(a.Out, "  no switch of the caller's profile lifts this")
	}
}

// reasonText is the fixed sentence of a code, with the code; a newer daemon's code alone.
func reasonText(r op.Reason) string {
	if s := decision.Sentence(r); s != "" && s != string(r) {
		return line(s) + " (" + line(string(r)) + ")"
	}
	return line(string(r))
}

func (a *app) showFacts(f op.Facts) {
	var rows [][]string
	for _, t := range f.Targets {
		state := first(string(t.Kind), "unknown")
		if t.Kind == op.File {
			state = fmt.Sprintf("file, %d bytes", t.Size)
		}
		rows = append(rows, []string{"  " + line(string(t.Role)), showPath(t.Path), line(state), marks(t)})
	}
	if len(rows) > 0 {
		fmt.Fprintln(a.Out, "targets:")
		table(a.Out, rows)
	}
	var missing []string
	for _, m := range []struct {
		known bool
		says  string
	}{{f.WorkspaceBound, "the workspace"}, {f.Available, "the facts"}, {f.Planned, "the plan"}, {f.ChangeBytes >= 0, "the size of the change"}} {
		if !m.known {
			missing = append(missing, m.says)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(a.Out, "not known: %s\n", strings.Join(missing, ", "))
	}
}

func marks(t op.Target) string {
	var m []string
	if t.Protected {
		m = append(m, "protected by "+line(first(t.ProtectedBy, "an unnamed pattern"))+" ("+line(t.ProtectedFrom)+")")
	}
	if t.ContainsProtected {
		m = append(m, "holds something protected")
	}
	if t.Sensitive {
		m = append(m, "sensitive")
	}
	if t.Ignored {
		m = append(m, "ignored by git")
	}
	if len(t.Links) > 0 {
		m = append(m, plural(int64(len(t.Links)), "link")+" walked")
	}
	return strings.Join(m, ", ")
}

// showPreview takes a diff that comes as text, or an object that holds one.
func (a *app) showPreview(raw json.RawMessage) {
	var whole struct {
		Title   string      `json:"title"`
		Diff    string      `json:"diff"`
		Effects []op.Effect `json:"effects"`
	}
	if json.Unmarshal(raw, &whole.Diff) != nil {
		// A preview of another shape is in the JSON form.
		_ = json.Unmarshal(raw, &whole)
	}
	if whole.Title+whole.Diff == "" && len(whole.Effects) == 0 {
		return
	}
	fmt.Fprintf(a.Out, "preview: %s\n", line(whole.Title))
	a.showEffects(whole.Effects)
	fmt.Fprint(a.Out, block(whole.Diff, a.diffLine))
}
