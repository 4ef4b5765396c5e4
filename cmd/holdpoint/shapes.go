package main

import (
	"time"

	"holdpoint/audit"
	"holdpoint/bridge"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/protected"
	"holdpoint/review"
)

// protection is either the patterns or what holds of one path.
type protection struct {
	Patterns  []protected.Described `json:"patterns,omitempty"`
	Path      op.Path               `json:"path,omitempty"`
	Protected bool                  `json:"protected,omitempty"`
	By        string                `json:"protected_by,omitempty"`
	From      string                `json:"protected_from,omitempty"`
	Sensitive bool                  `json:"sensitive,omitempty"`
	Ignored   bool                  `json:"ignored,omitempty"`
}

// answerShapes gives the types of answers for the document of the API: the flow's own
// where the bridge passes them on unread.
func answerShapes() map[string]any {
	type rules = struct {
		Rules []ruleView `json:"rules"`
	}
	type removed = struct {
		Name    string `json:"name"`
		Removed bool   `json:"removed"`
	}
	type revoked = struct {
		ID      string `json:"id"`
		Revoked bool   `json:"revoked"`
	}
	return map[string]any{
		"GET /openapi.json": map[string]any{},
		"POST /v1/login": struct {
			Token   string    `json:"token"`
			Role    op.Role   `json:"role"`
			Expires time.Time `json:"expires_at"`
		}{},
		"GET /v1/login": struct {
			Passphrase bool   `json:"passphrase"`
			Provider   string `json:"provider,omitempty"`
			Hub        bool   `json:"hub,omitempty"`
		}{},
		"POST /v1/login/provider/claim": struct {
			Token   string    `json:"token"`
			Role    op.Role   `json:"role"`
			Name    string    `json:"name"`
			Expires time.Time `json:"expires_at"`
		}{},
		"POST /v1/pair": struct {
			Code    string    `json:"code"`
			Expires time.Time `json:"expires_at"`
			URL     string    `json:"url,omitempty"`
		}{},
		"POST /v1/pair/claim": struct {
			Token   string    `json:"token"`
			ID      op.ID     `json:"id"`
			Role    op.Role   `json:"role"`
			Expires time.Time `json:"expires_at"`
		}{},
		"GET /v1/me": flow.Me{},
		"GET /v1/reviewers": struct {
			Reviewers []flow.ReviewerView `json:"reviewers"`
		}{},
		"POST /v1/reviewers": flow.ReviewerView{},
		"DELETE /v1/reviewers/{id}": struct {
			Revoked []flow.ReviewerView `json:"revoked"`
		}{},
		"POST /v1/passkeys/begin":           flow.Enrollment{},
		"POST /v1/passkeys":                 flow.ReviewerView{},
		"POST /v1/approvals/{id}/challenge": map[string]any{},
		"POST /v1/preflight":                flow.PreflightReply{},
		"GET /v1/approvals": struct {
			Cards []review.Card `json:"approvals"`
			Total int           `json:"total,omitempty"`
			Next  int64         `json:"next,omitempty"`
		}{},
		"GET /v1/approvals/{id}":         flow.ApprovalView{},
		"POST /v1/approvals/{id}/answer": flow.ApprovalView{},
		"POST /v1/approvals/{id}/cancel": flow.ApprovalView{},
		"GET /v1/approvals/{id}/diff":    flow.WholeDiff{},
		"GET /v1/approvals/{id}/reach":   flow.Reach{},
		"GET /v1/operations": struct {
			Operations []flow.LogEntry `json:"operations"`
			Next       int64           `json:"next,omitempty"`
		}{},
		"GET /v1/sessions": struct {
			Sessions []journal.Session `json:"sessions"`
		}{},
		"GET /v1/operations/{id}":      flow.Detail{},
		"GET /v1/operations/{id}/kept": flow.Export{},
		"POST /v1/diff":                flow.NetDiff{},
		"POST /v1/elsewhere":           flow.Elsewhere{},
		"POST /v1/gc":                  flow.Collected{},
		"POST /v1/forget":              flow.Forgotten{},
		"POST /v1/verify":              flow.Verified{},
		"GET /v1/replay":               flow.Replayed{},
		"GET /v1/runs": struct {
			Runs []flow.RunView `json:"runs"`
		}{},
		"GET /v1/runs/{id}":        flow.RunView{},
		"GET /v1/runs/{id}/output": flow.Piece{},
		"POST /v1/runs/{id}/stop":  flow.RunView{},
		"POST /v1/runs/{id}/input": struct {
			Typed int `json:"typed_bytes"`
		}{},
		"POST /v1/runs/{id}/resize": struct {
			Rows int64 `json:"rows"`
			Cols int64 `json:"cols"`
		}{},
		"GET /v1/changes": flow.Changes{},
		"GET /v1/status":  statusView{},
		"GET /v1/roots":   statusView{},
		"GET /v1/table": struct {
			Operations []struct {
				Op              op.Name `json:"op"`
				Class           string  `json:"class"`
				Tier            op.Tier `json:"tier"`
				Switch          string  `json:"switch"`
				Built           bool    `json:"built"`
				ApprovalPerCall bool    `json:"approval_per_call"`
				UndoWith        op.Name `json:"undo_with"`
				Title           string  `json:"title"`
				Summary         string  `json:"summary"`
			} `json:"operations"`
		}{},
		"GET /v1/tokens": struct {
			Tokens []bridge.TokenView `json:"tokens"`
		}{},
		"POST /v1/tokens": struct {
			bridge.TokenView
			Token string `json:"token"`
		}{},
		"PUT /v1/tokens": struct {
			bridge.TokenView
			Token string `json:"token"`
		}{},
		"DELETE /v1/tokens/{id}": revoked{},
		"DELETE /v1/tokens":      revoked{},
		"POST /v1/roots": struct {
			Name  string `json:"name"`
			Key   string `json:"key"`
			Dir   string `json:"dir"`
			Store string `json:"store"`
		}{},
		"DELETE /v1/roots/{name}": removed{},
		"GET /v1/profiles": struct {
			Profiles []op.Object `json:"profiles"`
		}{},
		"PUT /v1/profiles":               op.Object{},
		"DELETE /v1/profiles/{name}":     removed{},
		"DELETE /v1/profiles":            removed{},
		"PUT /v1/profiles/{name}/agents": ruleView{},
		"GET /v1/rules":                  rules{},
		"PUT /v1/rules":                  ruleView{},
		"DELETE /v1/rules/{id}":          ruleView{},
		"DELETE /v1/rules":               ruleView{},
		"GET /v1/mode":                   rules{},
		"PUT /v1/mode":                   ruleView{},
		"DELETE /v1/mode/{id}":           ruleView{},
		"DELETE /v1/mode":                map[string]any{},
		"GET /v1/protect":                protection{},
		"GET /v1/protect/test":           protection{},
		"GET /v1/audit": struct {
			Records []audit.Record `json:"records"`
		}{},
		"GET /v1/audit/head":    audit.Head{},
		"POST /v1/audit/verify": audit.Result{},
	}
}
