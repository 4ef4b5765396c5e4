package audit

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"holdpoint/op"
)

// The kinds of record.
const (
	Forget  = "forget"  // an operator took content out of the store
	Collect = "gc"      // an operator ended a credential
	Call    = "call"    // a call was decided
	Answer  = "answer"  // somebody answered a held call, or tried to
	End     = "end"     // a held call came to its end
	Access  = "access"  // somebody without a valid token was turned away
	Setting = "setting" // somebody changed the configuration or a profile
)

// The three decision words of a record.
const (
	AutoExecute         = "auto_execute"
	RequireUserApproval = "require_user_approval"
	Refused             = "refuse"
)

// Record is one line of the audit: who, what kind, why and by which rule. There is no
// field for a path, an argument or content, and the fields that are free text in the
// program are held to the form of a word or a label before they are written.
type Record struct {
	Seq             int64       `json:"seq"`
	Time            time.Time   `json:"time"`
	Prev            string      `json:"prev"` // hash of the line before
	Kind            string      `json:"kind"`
	Tool            op.Name     `json:"tool"`
	Decision        string      `json:"decision"`
	Reason          op.Reason   `json:"reason"`
	Also            []op.Reason `json:"also"` // never null in a line
	Mandatory       bool        `json:"mandatory"`
	TrustedPolicyID string      `json:"trusted_policy_id"`
	GrantID         string      `json:"grant_id"`
	Pinned          bool        `json:"pinned"`
	Agent           string      `json:"agent"`
	WorkflowID      string      `json:"workflow_id"`
	ExecutionID     string      `json:"execution_id"`
	ApprovalID      op.ID       `json:"approval_id"`
	OperationID     op.ID       `json:"operation_id"`
	ReviewerID      op.ID       `json:"reviewer_id,omitempty"` // the entry of the roster whose key signed, or that was changed
	Outcome         string      `json:"outcome"`               // a status or an error code
	Undo            bool        `json:"undo"`                  // the operation can be taken back
}

// Of makes a record of a decision; the caller adds who and which.
func Of(kind string, tool op.Name, d op.Decision) Record {
	words := map[op.Verdict]string{op.Auto: AutoExecute, op.Review: RequireUserApproval}
	word, known := words[d.Verdict]
	if !known {
		word = Refused
	}
	return Record{Kind: kind, Tool: tool, Decision: word, Reason: d.Reason, Also: d.Also, Mandatory: d.Mandatory,
		TrustedPolicyID: d.TrustedPolicyID, GrantID: d.GrantID, Pinned: d.Pinned}
}

// Encode gives the record as one line of JSON without its end, safe to keep elsewhere until
// it is appended (the journal's outbox): what Append would refuse to show is gone already.
func Encode(r Record) []byte { return appendLine(nil, clean(r)) }

// Parse reads what Encode or a log wrote. Fields it does not know are passed over, so that
// an older program can still check a newer log.
func Parse(line []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, op.Fail(op.StateCorrupt, "this is no audit record").Because(err)
	}
	return r, nil
}

const (
	maxLabel = 96
	maxAlso  = 32
	// maxLine bounds a line; what clean lets through stays well below.
	maxLine = 8 << 10

	invalid = "invalid"
	unknown = "unknown"
)

// clean holds every field to its form. It never fails: at the time of the record the call
// has been decided, perhaps done, and a defect elsewhere must cost a word, not the line.
func clean(r Record) Record {
	r.Kind = oneOf(r.Kind, Access, Setting, Forget, Collect, Call, Answer, End)
	r.Decision = oneOf(r.Decision, "", AutoExecute, RequireUserApproval, Refused)
	// The name of an operation that does not exist is the caller's free text.
	if _, known := op.Lookup(r.Tool); !known && r.Tool != "" {
		r.Tool = unknown
	}
	r.Reason = op.Reason(word(string(r.Reason)))
	also := make([]op.Reason, 0, len(r.Also))
	for _, a := range r.Also[:min(len(r.Also), maxAlso)] {
		also = append(also, op.Reason(word(string(a))))
	}
	r.Also = also
	r.Outcome = word(r.Outcome)
	r.ApprovalID, r.OperationID, r.ReviewerID = id(r.ApprovalID), id(r.OperationID), id(r.ReviewerID)
	r.TrustedPolicyID, r.GrantID = label(r.TrustedPolicyID), label(r.GrantID)
	r.Agent, r.WorkflowID, r.ExecutionID = label(r.Agent), label(r.WorkflowID), label(r.ExecutionID)
	r.Time = r.Time.UTC()
	return r
}

func oneOf(s string, words ...string) string {
	for _, w := range words {
		if s == w {
			return s
		}
	}
	return invalid
}

// word lets wire words through; an error text that strayed in here may hold a path.
func word(s string) string {
	if len(s) > 64 {
		return invalid
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return invalid
		}
	}
	return s
}

func id(i op.ID) op.ID {
	if i != "" && !op.Label(string(i)) {
		return invalid
	}
	return i
}

// label makes a name that people gave safe to show and bounded.
func label(s string) string {
	s = op.Visible(s, false)
	if len(s) <= maxLabel {
		return s
	}
	cut := maxLabel
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// appendLine writes the fields in their fixed order, every one of them, so that each line
// has the same shape.
func appendLine(b []byte, r Record) []byte {
	text := func(name, v string) {
		b = append(b, ',', '"')
		b = append(append(b, name...), '"', ':')
		b = op.AppendString(b, v)
	}
	flag := func(name string, v bool) {
		b = append(b, ',', '"')
		b = strconv.AppendBool(append(append(b, name...), '"', ':'), v)
	}
	b = strconv.AppendInt(append(b, `{"seq":`...), r.Seq, 10)
	text("time", r.Time.Format(time.RFC3339Nano))
	text("prev", r.Prev)
	text("kind", r.Kind)
	text("tool", string(r.Tool))
	text("decision", r.Decision)
	text("reason", string(r.Reason))
	b = append(b, `,"also":[`...)
	for i, a := range r.Also {
		if i > 0 {
			b = append(b, ',')
		}
		b = op.AppendString(b, string(a))
	}
	b = append(b, ']')
	flag("mandatory", r.Mandatory)
	text("trusted_policy_id", r.TrustedPolicyID)
	text("grant_id", r.GrantID)
	flag("pinned", r.Pinned)
	text("agent", r.Agent)
	text("workflow_id", r.WorkflowID)
	text("execution_id", r.ExecutionID)
	text("approval_id", string(r.ApprovalID))
	text("operation_id", string(r.OperationID))
	if r.ReviewerID != "" { // lines of before have no such field
		text("reviewer_id", string(r.ReviewerID))
	}
	text("outcome", r.Outcome)
	flag("undo", r.Undo)
	return append(b, '}')
}
