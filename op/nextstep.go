package op

// Retry says whether the same call may work later, after a correction, or never.
func Retry(c Code) string {
	switch c {
	case BusyWriter, QueueFull, NoSpace, StoreFull, IOError, NotReady, NoReviewer, Cancelled, Internal:
		return "same"
	case OperationDisabled, ClearanceTooLow, Forbidden, NotAvailable, UndoForged, UndoUnknown, UndoConsumed, UndoExpired, Rejected, Expired, UnknownOutcome:
		return "never"
	}
	return "corrected"
}

// NextStep says in one sentence what an agent does next, for errors whose maker did not.
func NextStep(c Code) string { return nextSteps[c] }

// nextSteps says in one sentence what an agent does next, for errors whose maker did not.
var nextSteps = map[Code]string{
	BadRequest:       "read the tool's input schema and send the call again with the right arguments",
	UnknownOperation: "use one of the tools that tools/list names",
	UnknownRoot:      "the client is connected for another workspace; ask the person who configured it",
	Unauthenticated:  "the token was revoked or has expired; ask the person to connect again",
	Forbidden:        "this is for a person to do; ask them",
	QueueFull:        "wait for some of your held calls to be answered, or withdraw some with approval_cancel",
	TooLarge:         "send less at once",
	NotReady:         "send the call again in a moment",
	RequestIDReused:  "use a new request_id for a new call",
	NotAvailable:     "use another tool",

	OperationDisabled: "the operator switched this off; ask them, or use another tool",
	ClearanceTooLow:   "a person must do this",
	NoReviewer:        "ask the person to run holdpoint init on a terminal, which sets who reviews, then send the call again",

	InvalidPath:      "give a path relative to the workspace",
	OutsideWorkspace: "only paths inside the workspace can be used; give one relative to it",
	CrossesMount:     "use a path on the workspace's own filesystem",
	SymlinkRefused:   "use the path that the link leads to, if it lies inside the workspace",
	SpecialFile:      "only regular files can be used",
	HardLinked:       `send hard_links "break" if this name may get a file of its own`,
	NameCollision:    "use another name",
	NotFound:         "use list_directory to see what is there",
	Exists:           "use edit_file to change it, or choose another path",
	NotAFile:         "use list_directory for a directory; delete_file takes one with recursive true",
	NotADirectory:    "use view_file for a file",
	NotEmpty:         "use delete_file with recursive true",
	IntoItself:       "choose a destination outside the source",

	NoMatch:         "view the file again and copy the text exactly as it stands",
	AmbiguousMatch:  "give more of the surrounding text, or replace_all true",
	EmptyPattern:    "use write_file for a new file, or name the text that stands where you want to insert",
	BadEncoding:     "send the bytes as content_base64",
	BinaryNoData:    "this file is no text; use content_base64",
	PatchParse:      "send a unified diff, or use edit_file",
	PatchMismatch:   "view the file again and make the patch from what is there now",
	PointerError:    "view the document and use a pointer that exists in it",
	InvalidDocument: "mend the syntax first",
	GitUnsupported:  "this part of git is not read here; git itself can tell, through workspace_shell",
	PartialBase:     "use edit_file, or view the whole file first",

	Stale:              "view the file again and base the change on what is there now",
	BusyWriter:         "another program writes this file; send the call again in a moment",
	NoSpace:            "the disk is full; ask the person",
	StoreFull:          "the store of undo is full; ask the operator to run holdpoint gc",
	ReadOnlyFilesystem: "this place cannot be written; choose another path",
	PermissionDenied:   "the daemon may not do this; choose another path or ask the person",
	IOError:            "send the call again once; if it fails again, ask the person",
	CrossDevice:        "choose a path on the same filesystem",

	Rejected:         "a person said no; do not send it again, ask what they want instead",
	Expired:          "nobody answered in time; send the call again if it is still wanted",
	Cancelled:        "send the call again if it is still wanted",
	AlreadyAnswered:  "use approval_status to see the answer",
	ApprovalConsumed: "use approval_status to see the result",
	UnknownOutcome:   "look at the files before you go on; a person must look too",
	PasskeyNeeded:    "this is for a person to do; ask them",
	ProofInvalid:     "this is for a person to do; ask them",

	UndoUnknown:  "give the undo id of a change that you made, un_...",
	UndoForged:   "give the undo id as it was returned, un_...",
	UndoExpired:  "change it back with an edit",
	UndoConsumed: "it was taken back already; to redo, undo the undo",
	UndoConflict: "view the file; something changed it since, so take your part back with an edit",

	BackupFailed: "send the call again once; if it fails again, ask the person",
	MetadataLoss: "ask the person, who can agree to the loss",

	SpawnFailed:          "check the program's name and that it is installed",
	TimedOut:             "give a longer timeout_ms, or do less at once",
	SandboxUnavailable:   "ask the person; the machine cannot confine programs",
	RehearsalUnsupported: "send the call without a rehearsal, which waits for a person",
	RehearsalTainted:     "send the call without a rehearsal, which waits for a person",
	DescendantsSurvived:  "tell the person, who must end what still runs",

	BadOrigin:               "connect to the daemon's own address",
	UnsupportedPlatform:     "run this on the Linux machine that holds the files",
	PolicyInvalid:           "ask the operator to mend the policy file",
	PolicyUnsafePermissions: "ask the operator to close the policy file to others",
	StateCorrupt:            "tell the operator, who can run holdpoint verify",
	StateLocked:             "another daemon holds the state; ask the operator",
	StateUnsafe:             "ask the operator to close the state directory to others",
	WatchLimit:              "watch fewer things",

	Internal: "this is a defect of Holdpoint; use another way and tell the person",
}
