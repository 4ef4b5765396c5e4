package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"holdpoint/op"
)

// card is what a person is shown of a held call. What is not named here is still in the
// raw form, which --json prints.
type card struct {
	ID           op.ID             `json:"id"`
	State        string            `json:"state"`
	Title        string            `json:"title"`
	Op           op.Name           `json:"op"`
	Tier         op.Tier           `json:"tier"`
	Lines        []string          `json:"lines"`
	Reasons      []cardReason      `json:"reasons"`
	Diff         string            `json:"diff"`
	Undo         string            `json:"undo"`
	Intent       string            `json:"intent"`
	Agent        string            `json:"agent"`
	Workflow     string            `json:"workflow"`
	Session      string            `json:"session"`
	Call         json.RawMessage   `json:"call"`
	Effect       string            `json:"effect"` // "write", or what destroys
	Host         string            `json:"host"`
	Dir          string            `json:"dir"`
	RootName     string            `json:"root_name"`
	Warnings     []json.RawMessage `json:"warnings"`
	AnsweredBy   string            `json:"answered_by"`
	ReviewerNote string            `json:"reviewer_note"`
	ExpiresAt    time.Time         `json:"expires_at"`
	ShownDigest  string            `json:"shown_digest"`
	raw          json.RawMessage
}

// UnmarshalJSON keeps the raw form beside the parts.
func (c *card) UnmarshalJSON(data []byte) error {
	type parts card
	if err := json.Unmarshal(data, (*parts)(c)); err != nil {
		return err
	}
	c.raw = append(json.RawMessage(nil), data...)
	return nil
}

// cardReason is one sentence, with its code where the daemon gives both.
type cardReason struct {
	Code     op.Reason `json:"code"`
	Sentence string    `json:"sentence"`
}

// UnmarshalJSON takes a text, which is a code or a sentence, or both in an object.
func (r *cardReason) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		type parts cardReason
		return json.Unmarshal(data, (*parts)(r))
	}
	if op.Label(text) {
		r.Code = op.Reason(text)
	} else {
		r.Sentence = text
	}
	return nil
}

func (r cardReason) text() string {
	switch {
	case r.Sentence == "":
		return reasonText(r.Code)
	case r.Code == "":
		return line(r.Sentence)
	}
	return line(r.Sentence) + " (" + line(string(r.Code)) + ")"
}

// destroys reports whether approving this asks once more. What is not known destroys.
func (c card) destroys() bool {
	spec, known := op.Lookup(c.Op)
	return c.Effect != "" && c.Effect != "write" && c.Effect != "read" || !known || spec.Class == op.Destructive || spec.Class == op.Batch || c.Tier.Rank() >= op.T4.Rank()
}

// cardText words a whole card; nothing is cut. exact adds the call as canonical JSON.
func (a *app) cardText(c card, exact bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", a.bold(line(c.Title)))
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, text)
		}
	}
	row("card", line(string(c.ID))+"  "+line(c.State)+"  "+a.until(c.ExpiresAt))
	row("operation", line(string(c.Op))+"  "+line(string(c.Tier)))
	row("in", line(joined(" ", c.RootName, joined(":", c.Host, c.Dir))))
	row("asked by", line(joined(", ", c.Agent, labeled("workflow", c.Workflow), labeled("session", c.Session))))
	for _, l := range c.Lines {
		fmt.Fprintf(&b, "  * %s\n", line(l))
	}
	for i, r := range c.Reasons {
		name := ""
		if i == 0 {
			name = "why"
		}
		fmt.Fprintf(&b, "%-10s %s\n", name, r.text())
	}
	for _, w := range c.Warnings {
		row("warning", warningText(w))
	}
	row("they asked", quoted(c.Intent))
	if c.Diff != "" {
		lines := strings.Count(strings.TrimSuffix(c.Diff, "\n"), "\n") + 1
		fmt.Fprintf(&b, "change     %s, %s\n%s", plural(int64(lines), "line"), plural(int64(len(c.Diff)), "byte"), block(c.Diff, a.diffLine))
	}
	if exact {
		call, err := oneLine(c.Call)
		if err != nil {
			call = "not in the card; see --json"
		}
		row("exact call", call)
	}
	row("undo", line(c.Undo))
	row("answered", line(c.AnsweredBy))
	row("note", line(c.ReviewerNote))
	return b.String()
}

// quoted marks words that are the caller's, not ours.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return `"` + line(s) + `"`
}

func labeled(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

func joined(sep string, words ...string) string {
	var kept []string
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, sep)
}
