package op

import (
	"fmt"
	"strings"
	"time"
)

// Request is one call as it arrived. Identity is not in it: that comes from the token.
type Request struct {
	Op          Name   `json:"op"`
	Root        string `json:"root,omitempty"` // name or key; may be empty when the token is bound to one
	Args        Object `json:"args"`
	DryRun      bool   `json:"dry_run,omitempty"`
	Pins        string `json:"pins,omitempty"` // sealed token of a preflight
	RequestID   string `json:"request_id,omitempty"`
	Session     string `json:"session,omitempty"`
	Stage       string `json:"stage,omitempty"`
	ExecutionID string `json:"execution_id,omitempty"`
	Intent      string `json:"intent,omitempty"` // what the user asked, in the caller's words
}

// MaxIntent is the longest intent, in bytes.
const MaxIntent = 4096

// ParseRequest reads a Request from strict JSON. Unknown fields are bad_request.
func ParseRequest(data []byte) (Request, []Warning, error) {
	o, err := ParseJSON(data)
	if err != nil {
		return Request{}, nil, err
	}
	return RequestFrom(o)
}

// RequestFrom reads a Request from a decoded object.
func RequestFrom(o Object) (Request, []Warning, error) {
	var r Request
	var warnings []Warning
	texts := map[string]*string{"root": &r.Root, "pins": &r.Pins, "request_id": &r.RequestID, "session": &r.Session,
		"stage": &r.Stage, "execution_id": &r.ExecutionID, "intent": &r.Intent}
	for _, k := range sortedKeys(o) {
		v := o[k]
		if k == "dryRun" {
			if _, twice := o["dry_run"]; twice {
				return r, nil, Fail(BadRequest, "dry_run is given twice, once under another name").In("dry_run")
			}
			k = "dry_run"
			warnings = append(warnings, Warning{"alias", "dryRun is dry_run here"})
		}
		ok := true
		switch dst := texts[k]; {
		case dst != nil:
			*dst, ok = v.(string)
		case k == "op":
			var s string
			s, ok = v.(string)
			r.Op = Name(s)
		case k == "args":
			r.Args, ok = v.(Object)
		case k == "dry_run":
			r.DryRun, ok = v.(bool)
		default:
			return r, nil, Fail(BadRequest, fmt.Sprintf("unknown field %q", k)).In(k).Do("the fields are op, root, args, dry_run, pins, request_id, session, stage, execution_id, intent")
		}
		if !ok {
			return r, nil, Fail(BadRequest, k+" has the wrong type").In(k)
		}
	}
	if r.Op == "" {
		return r, nil, Fail(BadRequest, "op is missing").In("op")
	}
	if r.Args == nil {
		r.Args = Object{}
	}
	return r, warnings, r.check()
}

func (r Request) check() error {
	for field, label := range map[string]string{"request_id": r.RequestID, "session": r.Session, "stage": r.Stage, "execution_id": r.ExecutionID} {
		if !Label(label) && label != "" {
			return Fail(BadRequest, field+" must be at most 64 of A-Z a-z 0-9 . _ : -").In(field)
		}
	}
	if len(r.Intent) > MaxIntent {
		return Fail(TooLarge, fmt.Sprintf("intent is over %d bytes", MaxIntent)).In("intent")
	}
	return nil
}

// Label reports whether s may be a label: 1 to 64 of A-Z a-z 0-9 . _ : -
func Label(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") == ""
}

// Caller is who asks, by the token that was shown.
type Caller struct {
	Token     ID       `json:"token"` // id of the token, not its secret
	Name      string   `json:"name"`
	Role      Role     `json:"role"`
	Roots     []string `json:"roots,omitempty"` // keys; empty means every root
	Workflow  string   `json:"workflow,omitempty"`
	Profile   string   `json:"profile,omitempty"`
	Clearance int      `json:"clearance,omitempty"` // of the owner; the call gets one less, at least 1
	// LoggedIn is when a person showed who they are; zero for a token, which may lie anywhere.
	LoggedIn time.Time `json:"-"`
}
