// Package review is the durable queue: rows whose terms nobody can change, the card that
// a person sees, the answers, the deadlines.
//
// It executes nothing. What runs after an answer is the stored call, run by the daemon.
package review

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/zeebo/blake3"

	"encoding/hex"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// Why is one reason with its sentence in plain words.
type Why struct {
	Code     op.Reason `json:"code"`
	Sentence string    `json:"sentence"`
}

// Card is what a person sees of a held call. It is frozen when the call is held; only
// State and what comes after it move.
type Card struct {
	ID           op.ID           `json:"id"`
	Title        string          `json:"title"` // names the act: "Delete 1 file"
	Op           op.Name         `json:"op"`
	Lines        []string        `json:"lines"` // one an item, never cut
	Reasons      []Why           `json:"reasons"`
	Tier         op.Tier         `json:"tier"`
	Effect       string          `json:"effect"` // destructive, write, read
	Mandatory    bool            `json:"mandatory"`
	OneShot      bool            `json:"one_shot"`
	Diff         string          `json:"diff"`
	Targets      []op.Target     `json:"targets"`
	Undo         string          `json:"undo"`   // one sentence
	Intent       string          `json:"intent"` // what they asked, in the caller's words
	Agent        string          `json:"agent"`
	Workflow     string          `json:"workflow,omitempty"`
	Session      string          `json:"session,omitempty"`
	Root         string          `json:"root"` // key
	RootName     string          `json:"root_name"`
	Host         string          `json:"host"`
	Dir          string          `json:"dir"`
	Identity     string          `json:"identity"`
	Call         json.RawMessage `json:"call"` // the exact call, canonical
	Warnings     []op.Warning    `json:"warnings,omitempty"`
	Needs        int             `json:"needs,omitempty"` // how many people must approve; 0 is 1
	CreatedAt    time.Time       `json:"created_at"`
	ExpiresAt    time.Time       `json:"expires_at,omitzero"`
	ShownDigest  string          `json:"shown_digest"` // of all of the above; part of the answer
	State        string          `json:"state"`
	AnsweredBy   string          `json:"answered_by,omitempty"`
	AnsweredWith string          `json:"answered_with,omitempty"` // the kind of key that signed it
	Note         string          `json:"note,omitempty"`
	ReviewerNote string          `json:"reviewer_note,omitempty"`

	ApprovedBy []string `json:"approved_by,omitempty"` // people whose approval is not enough alone
	Drifted    string   `json:"drifted,omitempty"`     // what no longer is as it was when this was asked
	Forgotten  bool     `json:"forgotten,omitempty"`   // an operator had the content ended for good
}

// Destroys reports whether approving takes a second step.
func (c Card) Destroys() bool { return c.Effect != "write" && c.Effect != "read" }

// digest is over everything that is shown, before State.
func (c Card) digest() string {
	c.ShownDigest, c.State, c.AnsweredBy, c.AnsweredWith, c.Note, c.ApprovedBy, c.Drifted = "", "", "", "", "", nil, ""
	body, err := json.Marshal(c)
	if err != nil {
		panic("review: internal error: " + err.Error())
	}
	sum := blake3.Sum256(body)
	return "blake3:" + hex.EncodeToString(sum[:])
}

// CardOf gives the card of a row. A card that cannot be read shows the raw call and
// counts as destructive.
func CardOf(a journal.Approval) Card {
	var c Card
	if a.Forgotten {
		c = Card{ID: a.ID, Title: "Content was forgotten", Op: a.Op, Lines: []string{"an operator had the content of this call forgotten; it cannot be shown, approved or run any more"},
			Tier: a.Decision.Tier, Effect: "destructive", Mandatory: a.Decision.Mandatory, OneShot: a.Decision.OneShot, Undo: "the log says what became of it", Agent: a.Agent, Workflow: a.Workflow, Session: a.Session,
			CreatedAt: a.Created, Root: a.Root, Forgotten: true}
	} else if json.Unmarshal(a.Card, &c) != nil || c.Title == "" {
		c = Card{ID: a.ID, Title: "Run " + string(a.Op), Op: a.Op, Lines: []string{op.Visible(string(a.Request), false)}, Call: a.Request,
			Effect: "destructive", Identity: a.Identity, CreatedAt: a.Created, Root: a.Root}
	}
	c.ShownDigest, c.ExpiresAt, c.State = a.ShownDigest, a.Deadline, a.State
	if a.Answer != nil {
		c.AnsweredBy, c.AnsweredWith, c.Note = a.Answer.By, signedWith(a.Answer.Proof), a.Answer.Note
		for _, b := range a.Answer.Before {
			c.ApprovedBy = append(c.ApprovedBy, b.By)
		}
	}
	return c
}

// Summary is the card without what a list does not show. Its digest is kept, but nobody
// has seen what it is about: an answer needs the card.
func (c Card) Summary() Card {
	c.Diff, c.Targets, c.Call = "", nil, nil
	if len(c.Lines) > summaryLines {
		c.Lines = append(c.Lines[:summaryLines:summaryLines], fmt.Sprintf("and %d more", len(c.Lines)-summaryLines))
	}
	return c
}

// summaryLines is how many lines a summary shows before it counts the rest.
const summaryLines = 3
