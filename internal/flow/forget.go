package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// bareReply leaves of a kept reply what happened, and nothing that could be content: no
// result, and no sentences, which may quote a file.
func bareReply(kept []byte) []byte {
	var r op.Reply
	if json.Unmarshal(kept, &r) != nil {
		return nil
	}
	r.Result = map[string]any{"forgotten": true}
	if r.Error != nil {
		r.Error = &op.Error{Code: r.Error.Code, Message: "what this said was forgotten", Path: r.Error.Path, Retry: r.Error.Retry}
	}
	for i := range r.Warnings {
		r.Warnings[i].Message = ""
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil
	}
	return b
}

// forgetRun ends the files of the long output that a kept reply names.
func (e *Engine) forgetRun(kept []byte) {
	var r struct {
		Result struct {
			Run op.ID `json:"run_id"`
		} `json:"result"`
	}
	if json.Unmarshal(kept, &r) == nil && op.Label(string(r.Result.Run)) {
		e.spill().Drop(string(r.Result.Run))
	}
}

// cardsToForget finds the held calls that showed what is to be forgotten: those that led to
// one of the operations or ask to take one back, those about a path or what lies below it,
// and one that is named itself.
func (e *Engine) cardsToForget(ctx context.Context, root, what string, at op.Path, ops map[op.ID]journal.Operation) ([]journal.Approval, error) {
	var out []journal.Approval
	err := e.jrn.EachApproval(ctx, func(a journal.Approval, intact bool) error {
		if intact && !a.Forgotten && (string(a.ID) == what || a.Root == root && concerns(a, at, ops)) {
			out = append(out, a)
		}
		return ctx.Err()
	})
	return out, err
}

func concerns(a journal.Approval, at op.Path, ops map[op.ID]journal.Operation) bool {
	if _, led := ops[a.Operation]; led && a.Operation != "" {
		return true
	}
	for id, o := range ops {
		if o.ApprovalID == a.ID {
			return true
		}
		// A credential ends in the characters of the operation's id.
		if _, bare, ok := strings.Cut(string(id), "_"); ok && bytes.Contains(a.Request, []byte(bare)) {
			return true
		}
	}
	if at == "" {
		return false
	}
	for _, p := range a.Pins {
		if p.Path == at || p.Path.Within(at) {
			return true
		}
	}
	return false
}

// forgetCards ends the content of held calls. Those that wait are withdrawn.
func (e *Engine) forgetCards(ctx context.Context, by op.Caller, list []journal.Approval, out *Forgotten) error {
	for _, a := range list {
		e.forgetRun(a.Reply)
		row, err := e.jrn.ForgetApproval(ctx, a.ID, by.Name, bareReply)
		if err != nil {
			return err
		}
		out.Approvals = append(out.Approvals, a.ID)
		e.log.Append(audit.Record{Kind: audit.Forget, Agent: by.Name, ApprovalID: a.ID, Outcome: "forgotten"})
		if a.State != row.State {
			e.landedSet(a) // the row itself no longer says which
			e.ended(row)
			e.announce("approval.answered", row)
		}
	}
	return nil
}
