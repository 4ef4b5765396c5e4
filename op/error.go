package op

import "errors"

// Code is a wire word for one kind of failure. It is an error itself, so that callers
// match with errors.Is(err, op.NotFound).
type Code string

func (c Code) Error() string { return string(c) }

// Codes. New ones go at the end of their group; none is ever renamed.
const (
	// Request.
	BadRequest          Code = "bad_request"
	UnknownOperation    Code = "unknown_operation"
	UnknownRoot         Code = "unknown_root"
	Unauthenticated     Code = "unauthenticated"
	Forbidden           Code = "forbidden"
	BadOrigin           Code = "bad_origin"
	QueueFull           Code = "queue_full"
	TooLarge            Code = "too_large"
	NotReady            Code = "not_ready"
	RequestIDReused     Code = "request_id_reused"
	NotAvailable        Code = "not_available"
	UnsupportedPlatform Code = "unsupported_platform"

	// Policy.
	OperationDisabled Code = "operation_disabled"
	ClearanceTooLow   Code = "clearance_too_low"
	NoReviewer        Code = "no_reviewer"

	// Paths.
	InvalidPath      Code = "invalid_path"
	OutsideWorkspace Code = "outside_workspace"
	CrossesMount     Code = "crosses_mount"
	SymlinkRefused   Code = "symlink_refused"
	SpecialFile      Code = "special_file"
	HardLinked       Code = "hard_linked"
	NameCollision    Code = "name_collision"
	NotFound         Code = "not_found"
	Exists           Code = "exists"
	NotAFile         Code = "not_a_file"
	NotADirectory    Code = "not_a_directory"
	NotEmpty         Code = "not_empty"
	IntoItself       Code = "into_itself"

	// Content.
	NoMatch         Code = "no_match"
	AmbiguousMatch  Code = "ambiguous_match"
	EmptyPattern    Code = "empty_pattern"
	BadEncoding     Code = "bad_encoding"
	BinaryNoData    Code = "binary_no_data"
	PatchParse      Code = "patch_parse"
	PatchMismatch   Code = "patch_mismatch"
	PointerError    Code = "pointer_error"
	InvalidDocument Code = "invalid_document"
	PartialBase     Code = "partial_base"
	GitUnsupported  Code = "git_unsupported"

	// Change.
	Stale              Code = "stale_precondition"
	BusyWriter         Code = "busy_writer"
	BackupFailed       Code = "backup_failed"
	NoSpace            Code = "no_space"
	MetadataLoss       Code = "metadata_loss"
	ReadOnlyFilesystem Code = "read_only_filesystem"
	PermissionDenied   Code = "permission_denied"
	IOError            Code = "io_error"
	StoreFull          Code = "store_full"
	CrossDevice        Code = "cross_device"

	// Approval.
	Rejected         Code = "rejected"
	Expired          Code = "expired"
	Cancelled        Code = "cancelled"
	AlreadyAnswered  Code = "already_answered"
	ApprovalConsumed Code = "approval_consumed"
	UnknownOutcome   Code = "unknown_outcome"
	PasskeyNeeded    Code = "passkey_needed"
	ProofInvalid     Code = "proof_invalid"

	// Undo.
	UndoUnknown  Code = "undo_unknown"
	UndoForged   Code = "undo_forged"
	UndoExpired  Code = "undo_expired"
	UndoConsumed Code = "undo_consumed"
	UndoConflict Code = "undo_conflict"

	// Process.
	SpawnFailed          Code = "spawn_failed"
	TimedOut             Code = "timed_out"
	SandboxUnavailable   Code = "sandbox_unavailable"
	RehearsalUnsupported Code = "rehearsal_unsupported"
	RehearsalTainted     Code = "rehearsal_tainted"
	DescendantsSurvived  Code = "descendants_survived"

	// Policy file and state.
	PolicyInvalid           Code = "policy_invalid"
	PolicyUnsafePermissions Code = "policy_unsafe_permissions"
	StateCorrupt            Code = "state_corrupt"
	StateLocked             Code = "state_locked"
	StateUnsafe             Code = "state_unsafe"
	WatchLimit              Code = "watch_limit"

	// Ours alone: a defect of the daemon.
	Internal Code = "internal_error"
)

// Error is a failure on its way to a person or an agent: what, where, why and what to do.
type Error struct {
	Code        Code   `json:"code"`
	Message     string `json:"message"`
	Path        Path   `json:"path,omitempty"`
	Field       string `json:"field,omitempty"` // the argument at fault, "args.old_string"
	Hint        string `json:"hint,omitempty"`  // one sentence: what to do instead
	CurrentHash Digest `json:"current_hash,omitempty"`
	Expected    Digest `json:"expected_hash,omitempty"` // of a precondition that failed: what should have stood there
	Retry       string `json:"retry,omitempty"`         // same, corrected, never; never is the end of it
	Example     Object `json:"example,omitempty"`       // a correct call, where the form of this one is at fault
	Err         error  `json:"-"`                       // the cause; may be nil

	// Of a call whose precondition failed: the smallest diff from what it stood on to what
	// is there, or why there is none, and whether it would work on that.
	Diff         string `json:"diff,omitempty"`
	NoDiff       string `json:"no_diff,omitempty"`
	StillApplies *bool  `json:"still_applies,omitempty"`
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Path != "" {
		s += " (" + Escape(string(e.Path)) + ")"
	}
	return s
}

// Is matches by code.
func (e *Error) Is(target error) bool { c, ok := target.(Code); return ok && c == e.Code }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf-like constructors, from least to most.

// Fail makes an error of a code and a sentence.
func Fail(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// At adds the path.
func (e *Error) At(p Path) *Error { e.Path = p; return e }

// In adds the argument at fault.
func (e *Error) In(field string) *Error { e.Field = field; return e }

// Do adds what to do instead.
func (e *Error) Do(hint string) *Error { e.Hint = hint; return e }

// Because adds the cause.
func (e *Error) Because(err error) *Error { e.Err = err; return e }

// AsError gives err as an *Error; what is none becomes internal_error.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var c Code
	if errors.As(err, &c) {
		return &Error{Code: c, Message: string(c), Err: err}
	}
	return &Error{Code: Internal, Message: err.Error(), Err: err}
}
