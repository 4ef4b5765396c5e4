package hub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"holdpoint/bridge"
	"holdpoint/bridge/nats"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/review"
)

// cardOf reads what a machine froze, and says what this version would not show of it: a
// newer machine must not be answered on half a card.
func cardOf(s nats.Seen) review.Card {
	var c review.Card
	if !s.Open || json.Unmarshal(s.Frozen, &c) != nil {
		c = review.Card{Title: "A card that is not shown here", Effect: "destructive", Lines: []string{}, Reasons: []review.Why{}, Undo: "see the machine"}
		if s.State != journal.Pending {
			c.Title = "A card that waits no longer"
		}
		if s.Why != "" {
			c.Lines = []string{s.Why}
		}
	} else {
		c.Warnings = append(slices.Clone(c.Warnings), unshown(s.Frozen)...)
	}
	c.ID, c.Root, c.CreatedAt, c.ExpiresAt, c.State, c.AnsweredBy = s.ID, s.Root, s.Created, s.Expires, s.State, s.Answered
	c.ShownDigest, c.Drifted, c.ApprovedBy = s.Digest, s.Drifted, s.Approved
	return c
}

// known are the fields of a card that this version has a place for.
var known = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for f := range reflect.TypeFor[review.Card]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = true
	}
	return out
})

// Newer is the warning of a field that a machine shows and this version does not know.
const Newer = "newer_machine"

const mostUnknown = 2000

func unshown(frozen []byte) (out []op.Warning) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(frozen, &fields) != nil {
		return nil
	}
	for name, value := range fields {
		if !known()[name] {
			out = append(out, op.Warning{Code: Newer, Message: fmt.Sprintf("the machine is of a newer version and also says %s: %s", op.Visible(name, false), op.Visible(string(value[:min(len(value), mostUnknown)]), false))})
		}
	}
	slices.SortFunc(out, func(a, b op.Warning) int { return strings.Compare(a.Message, b.Message) })
	return out
}

// answer carries a signed answer to the machine, and tells what that made of it. A hub
// believes nothing here: not even that who is logged in is who signed.
func (h *Hub) answer(w http.ResponseWriter, r *http.Request, _ op.Caller) {
	a, proof, err := bridge.SignedAnswer(r)
	if err != nil {
		bridge.Fail(w, err)
		return
	}
	id := op.ID(r.PathValue("id"))
	c, known, _ := h.cards.One(id)
	if !known {
		bridge.Fail(w, op.Fail(op.NotFound, "no such approval"))
		return
	}
	body, err := nats.SendAnswer(r.Context(), h.conn, c.Root, id, nats.Signed{Answer: a.Answer, Remember: a.Remember, Note: a.Note, ShownDigest: a.ShownDigest, Proof: proof}, h.answers)
	if err != nil {
		bridge.Fail(w, err)
		return
	}
	var got struct {
		State string  `json:"state"`
		Code  op.Code `json:"code"`
	}
	if json.Unmarshal(body, &got) != nil || got.State == "" {
		bridge.Fail(w, op.Fail(op.Internal, "the machine's reply is not understood").Do("see the card on the machine"))
		return
	}
	v := viewOf(c)
	v.State, v.Code, v.Shown = got.State, got.Code, nil
	v.Card.State = got.State
	bridge.Reply(w, v)
}
