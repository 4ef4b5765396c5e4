package op

import "time"

// Status is how a call ended, for now.
type Status string

const (
	Done    Status = "done"
	Held    Status = "review"
	Refused Status = "refused"
	Failed  Status = "failed"
)

// Reply is the answer to a call.
type Reply struct {
	Status          Status      `json:"status"`
	Op              Name        `json:"op"`
	OperationID     ID          `json:"operation_id,omitempty"`
	RequestID       string      `json:"request_id,omitempty"`
	Decision        *Decision   `json:"decision,omitempty"`
	Result          any         `json:"result,omitempty"`
	Effects         []Effect    `json:"effects"` // never nil on the wire
	EffectsExecuted bool        `json:"effects_executed"`
	Resumed         bool        `json:"resumed,omitempty"` // it is the end of a call that waited for a person
	UndoCredential  *Credential `json:"undo_credential,omitempty"`
	Approval        *Approval   `json:"approval,omitempty"`
	Warnings        []Warning   `json:"warnings,omitempty"`
	Error           *Error      `json:"error,omitempty"`
}

// Approval is what the asking side learns of a held call.
type Approval struct {
	ID        ID        `json:"id"`
	Identity  string    `json:"identity"`
	Title     string    `json:"title"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	ReviewURL string    `json:"review_url,omitempty"`
}

// Credential is the sealed right to take one operation back. It holds no content.
type Credential struct {
	ID        ID        `json:"id"`
	Operation ID        `json:"operation_id"`
	Op        Name      `json:"op"`
	Root      string    `json:"root"`           // root key
	Effects   []Effect  `json:"effects"`        // the first, where they are many
	More      int       `json:"more,omitempty"` // further ones, which the operation's record has
	ExpiresAt time.Time `json:"expires_at"`
	Seal      string    `json:"seal"` // keyed BLAKE3 over all of the above, with a key only the daemon has
}
