package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/op"
)

func (a *app) reviewCommand() *cobra.Command {
	var root string
	var hub throughHub
	c := &cobra.Command{
		Use:   "review",
		Short: "See and answer what waits for a person",
		Args:  knownSub,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.TTY && a.InTTY && !a.json {
				return a.reviewScreen(c.Context(), root)
			}
			return a.reviewList(c.Context(), root, "pending")
		},
	}
	c.PersistentFlags().StringVar(&root, "root", "", "a directory to open in process when no daemon runs")
	hub.flags(c)
	a.hubOf = &hub
	c.AddCommand(a.reviewListCommand(&root), a.reviewShowCommand(&root), a.reviewAnswerCommand(&root, "approve"),
		a.reviewAnswerCommand(&root, "reject"), a.reviewWatchCommand(&root), a.keygenCommand())
	return c
}

func (a *app) reviewListCommand(root *string) *cobra.Command {
	var state string
	c := &cobra.Command{Use: "list", Short: "List the cards that wait", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.reviewList(c.Context(), *root, state) }}
	c.Flags().StringVar(&state, "state", "pending", "list cards of this state, or all")
	return c
}

func (a *app) reviewShowCommand(root *string) *cobra.Command {
	var exact bool
	var tool string
	c := &cobra.Command{Use: "show ID", Short: "Show one card in full", Args: oneArg("the id of a card"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.asWatcher(c.Context(), *root, func(cl *client) error {
				if c.Flags().Changed("tool") {
					return a.showInTool(c.Context(), cl, args[0], strings.TrimPrefix(tool, "auto"))
				}
				p, raw, err := cl.approval(c.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(raw)
					return nil
				}
				if p.Card == nil {
					fmt.Fprintf(a.Out, "%s  %s\n", line(string(p.ID)), line(p.State))
				} else {
					fmt.Fprint(a.Out, a.cardText(*p.Card, exact))
				}
				if p.Note != "" {
					fmt.Fprintf(a.Out, "%-10s %s\n", "note", quoted(p.Note))
				}
				return nil
			})
		}}
	c.Flags().BoolVar(&exact, "exact", false, "also the exact call as canonical JSON")
	c.Flags().StringVar(&tool, "tool", "", "open the change in the diff tool `NAME` instead (else HOLDPOINT_DIFFTOOL, else one that is there)")
	c.Flags().Lookup("tool").NoOptDefVal = "auto"
	return c
}

func (a *app) reviewWatchCommand(root *string) *cobra.Command {
	return &cobra.Command{Use: "watch", Short: "Show cards as they come and go, until interrupted", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.asWatcher(c.Context(), *root, func(cl *client) error { return a.watch(c.Context(), cl) })
		}}
}

func (c *client) cards(ctx context.Context, state string) ([]card, error) {
	var got struct {
		Approvals []card `json:"approvals"`
	}
	_, err := c.get(ctx, query("/v1/approvals", "state", state, "mine", "true"), &got)
	return got.Approvals, err
}

// approval gives one row. raw is the card where the caller may see it, else the row.
func (c *client) approval(ctx context.Context, id string) (p approval, raw json.RawMessage, err error) {
	raw, err = c.get(ctx, "/v1/approvals/"+escapeID(op.ID(id)), &p)
	if err == nil && p.Card != nil {
		raw = p.Card.raw
		if p.Card.State == "" {
			p.Card.State = p.State
		}
	}
	return p, raw, err
}

func escapeID(id op.ID) string { return url.PathEscape(string(id)) }

func (a *app) reviewList(ctx context.Context, root, state string) error {
	return a.asWatcher(ctx, root, func(c *client) error {
		asked := state
		if state == "all" {
			asked = ""
		}
		cards, err := c.cards(ctx, asked)
		if err != nil {
			return err
		}
		if a.json {
			list := make([]json.RawMessage, 0, len(cards))
			for _, k := range cards {
				list = append(list, k.raw)
			}
			a.printJSON(list)
			return nil
		}
		if len(cards) == 0 {
			fmt.Fprintf(a.Err, "No card is there (state: %s).\n", line(state))
			return nil
		}
		rows := make([][]string, 0, len(cards))
		for _, k := range cards {
			rows = append(rows, a.cardRow(k))
		}
		table(a.Out, rows)
		return nil
	})
}

func (a *app) cardRow(k card) []string {
	return []string{line(string(k.ID)), line(k.State), line(string(k.Tier)), line(k.Title), joined(", ", line(k.Agent), a.until(k.ExpiresAt)), glimpse(k.Lines)}
}

// glimpse gives a list the first line of a card; review show has them all.
func glimpse(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	const width = 72
	first := []rune(line(lines[0]))
	if len(first) > width {
		first = append(first[:width-1], '…')
	}
	if n := len(lines) - 1; n > 0 {
		return fmt.Sprintf("%s, and %d more", string(first), n)
	}
	return string(first)
}

// watch polls: a list a second over a local socket costs little and needs no stream.
func (a *app) watch(ctx context.Context, c *client) error {
	seen := map[op.ID]card{}
	for {
		cards, err := c.cards(ctx, "pending")
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		now := map[op.ID]card{}
		for _, k := range cards {
			now[k.ID] = k
			if _, old := seen[k.ID]; !old {
				a.showComing(k)
			}
		}
		for id, k := range seen {
			if _, still := now[id]; !still && !a.json {
				fmt.Fprintf(a.Out, "no longer pending: %s  %s\n", line(string(id)), line(k.Title))
			}
		}
		seen = now
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (a *app) showComing(k card) {
	if a.json {
		a.printJSON(k.raw)
		return
	}
	fmt.Fprintln(a.Out, strings.Join(a.cardRow(k), "  "))
}

// reviewAnswerCommand makes approve and reject, which are one act with two words.
func (a *app) reviewAnswerCommand(root *string, answer string) *cobra.Command {
	var remember bool
	var note string
	c := &cobra.Command{Use: answer + " ID", Args: oneArg("the id of a card"),
		RunE: func(c *cobra.Command, args []string) error {
			if a.hubOf.at != "" {
				return a.hubOf.through(c.Context(), a, func(cl *client) error {
					return a.hubOf.answer(c.Context(), a, cl, args[0], decisionWords{answer, remember, note})
				})
			}
			return a.asReviewer(c.Context(), *root, func(cl *client) error {
				return a.answer(c.Context(), cl, args[0], decisionWords{answer, remember, note})
			})
		}}
	c.Flags().StringVar(&note, "note", "", "words for the agent")
	if answer == "approve" {
		c.Short = "Let a held call run, once"
		c.Flags().BoolVar(&remember, "remember", false, "also let exactly this call run from now on")
	} else {
		c.Short = "Turn a held call down"
	}
	return c
}

// decisionWords are what a person says to a card.
type decisionWords struct {
	answer   string
	remember bool
	note     string
}

// answer sends the person's words with the digest of the card as it was fetched here, so
// that what is approved is what was shown.
func (a *app) answer(ctx context.Context, c *client, id string, w decisionWords) error {
	p, _, err := c.approval(ctx, id)
	if err != nil {
		return err
	}
	if p.Card == nil {
		return op.Fail(op.Forbidden, "this token does not show the card of "+id+", so it cannot answer it")
	}
	k := *p.Card
	if w.answer == "approve" && a.InTTY && !a.json && p.State == "pending" {
		fmt.Fprint(a.Err, a.cardText(k, false))
		if k.destroys() {
			if err := a.askAgain(ctx, k.Title); err != nil {
				return err
			}
		}
	}
	if w.remember {
		if err := a.showReach(ctx, c, k.ID); err != nil {
			return err
		}
	}
	body := map[string]any{"answer": w.answer, "remember": w.remember, "note": w.note, "shown_digest": k.ShownDigest}
	var after approval
	raw, err := c.do(ctx, http.MethodPost, "/v1/approvals/"+escapeID(op.ID(id))+"/answer", body, &after)
	if err != nil {
		return err
	}
	if w.answer == "reject" {
		if a.json {
			a.printJSON(raw)
		} else {
			fmt.Fprintf(a.Out, "Rejected: %s\n", line(k.Title))
		}
		return nil
	}
	return a.outcome(ctx, c, k, after)
}

// askAgain is the second step before something is destroyed: the same words as the card,
// and a whole word to type, so that no single key approves.
func (a *app) askAgain(ctx context.Context, title string) error {
	fmt.Fprintf(a.Err, "%s? Type yes to approve: ", a.bold(line(title)))
	got, err := a.readLine(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if got != "yes" || err != nil {
		fmt.Fprintln(a.Err, "Not approved; the card still waits.")
		return exitWith(3)
	}
	return nil
}

// outcome waits for an approved call and shows its reply. Interrupting the wait stops
// nothing: the daemon executes, not this command.
func (a *app) outcome(ctx context.Context, c *client, k card, after approval) error {
	var err error
	if after.open() {
		if after, err = c.poll(ctx, k.ID, time.Duration(1<<62)); errors.Is(err, context.Canceled) {
			fmt.Fprintf(a.Err, "Approved; it still runs. See: %s\n", a.command("review show "+line(string(k.ID))))
			return exitWith(0)
		}
		if err != nil {
			return err
		}
	}
	r, err := after.final(k.Op)
	if err != nil {
		return err
	}
	if !a.json {
		fmt.Fprintf(a.Out, "Approved: %s\n", line(k.Title))
	}
	return a.finishReply(r, request{})
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, and %q is one", c.CommandPath(), args[0])
	}
	return nil
}

func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s needs %s, and nothing else", c.CommandPath(), what)
		}
		return nil
	}
}
