package mcp

import "holdpoint/op"

// nextSteps says in one sentence what an agent does next, for errors whose maker did not.
var nextSteps = map[op.Code]string{
	op.BadRequest:       "read the tool's input schema and send the call again with the right arguments",
	op.UnknownOperation: "use one of the tools that tools/list names",
	op.UnknownRoot:      "the client is connected for another workspace; ask the person who configured it",
	op.Unauthenticated:  "the token was revoked or has expired; ask the person to connect again",
	op.Forbidden:        "this is for a person to do; ask them",
	op.QueueFull:        "wait for some of your held calls to be answered, or withdraw some with approval_cancel",
	op.TooLarge:         "send less at once",
	op.NotReady:         "send the call again in a moment",
	op.RequestIDReused:  "use a new request_id for a new call",
	op.NotAvailable:     "use another tool",

	op.OperationDisabled: "the operator switched this off; ask them, or use another tool",
	op.ClearanceTooLow:   "a person must do this",
	op.NoReviewer:        "ask the person to run holdpoint init on a terminal, which sets who reviews, then send the call again",

	op.InvalidPath:      "give a path relative to the workspace",
	op.OutsideWorkspace: "only paths inside the workspace can be used; give one relative to it",
	op.CrossesMount:     "use a path on the workspace's own filesystem",
	op.SymlinkRefused:   "use the path that the link leads to, if it lies inside the workspace",
	op.SpecialFile:      "only regular files can be used",
	op.HardLinked:       `send hard_links "break" if this name may get a file of its own`,
	op.NameCollision:    "use another name",
	op.NotFound:         "use list_directory to see what is there",
	op.Exists:           "use edit_file to change it, or choose another path",
	op.NotAFile:         "use list_directory for a directory; delete_file takes one with recursive true",
	op.NotADirectory:    "use view_file for a file",
	op.NotEmpty:         "use delete_file with recursive true",
	op.IntoItself:       "choose a destination outside the source",

	op.NoMatch:         "view the file again and copy the text exactly as it stands",
	op.AmbiguousMatch:  "give more of the surrounding text, or replace_all true",
	op.EmptyPattern:    "use write_file for a new file, or name the text that stands where you want to insert",
	op.BadEncoding:     "send the bytes as content_base64",
	op.BinaryNoData:    "this file is no text; use content_base64",
	op.PatchParse:      "send a unified diff, or use edit_file",
	op.PatchMismatch:   "view the file again and make the patch from what is there now",
	op.PointerError:    "view the document and use a pointer that exists in it",
	op.InvalidDocument: "mend the syntax first",
	op.GitUnsupported:  "this part of git is not read here; git itself can tell, through workspace_shell",
	op.PartialBase:     "use edit_file, or view the whole file first",

	op.Stale:              "view the file again and base the change on what is there now",
	op.BusyWriter:         "another program writes this file; send the call again in a moment",
	op.NoSpace:            "the disk is full; ask the person",
	op.StoreFull:          "the store of undo is full; ask the operator to run holdpoint gc",
	op.ReadOnlyFilesystem: "this place cannot be written; choose another path",
	op.PermissionDenied:   "the daemon may not do this; choose another path or ask the person",
	op.IOError:            "send the call again once; if it fails again, ask the person",
	op.CrossDevice:        "choose a path on the same filesystem",

	op.Rejected:         "a person said no; do not send it again, ask what they want instead",
	op.Expired:          "nobody answered in time; send the call again if it is still wanted",
	op.Cancelled:        "send the call again if it is still wanted",
	op.AlreadyAnswered:  "use approval_status to see the answer",
	op.ApprovalConsumed: "use approval_status to see the result",
	op.UnknownOutcome:   "look at the files before you go on; a person must look too",
	op.PasskeyNeeded:    "this is for a person to do; ask them",
	op.ProofInvalid:     "this is for a person to do; ask them",

	op.UndoUnknown:  "give the undo id of a change that you made, un_...",
	op.UndoForged:   "give the undo id as it was returned, un_...",
	op.UndoExpired:  "change it back with an edit",
	op.UndoConsumed: "it was taken back already; to redo, undo the undo",
	op.UndoConflict: "view the file; something changed it since, so take your part back with an edit",

	op.BackupFailed: "send the call again once; if it fails again, ask the person",
	op.MetadataLoss: "ask the person, who can agree to the loss",

	op.SpawnFailed:          "check the program's name and that it is installed",
	op.TimedOut:             "give a longer timeout_ms, or do less at once",
	op.SandboxUnavailable:   "ask the person; the machine cannot confine programs",
	op.RehearsalUnsupported: "send the call without a rehearsal, which waits for a person",
	op.RehearsalTainted:     "send the call without a rehearsal, which waits for a person",
	op.DescendantsSurvived:  "tell the person, who must end what still runs",

	op.BadOrigin:               "connect to the daemon's own address",
	op.UnsupportedPlatform:     "run this on the Linux machine that holds the files",
	op.PolicyInvalid:           "ask the operator to mend the policy file",
	op.PolicyUnsafePermissions: "ask the operator to close the policy file to others",
	op.StateCorrupt:            "tell the operator, who can run holdpoint verify",
	op.StateLocked:             "another daemon holds the state; ask the operator",
	op.StateUnsafe:             "ask the operator to close the state directory to others",
	op.WatchLimit:              "watch fewer things",

	op.Internal: "this is a defect of Holdpoint; use another way and tell the person",
}

// otherWays tells of a held call, in one sentence, how the same may be had without waiting.
var otherWays = map[op.Reason]string{
	op.ReasonOverwrite:       "edit_file on the lines that change runs at once, where write_file over an existing file waits.",
	op.ReasonTooLarge:        "Smaller changes run at once.",
	op.ReasonMultipleTargets: "One file at a time runs at once.",
	op.ReasonBatch:           "Small edits sent one by one run at once.",
	op.ReasonSafetyOverride:  "Without the argument that turns a safety net off it may run at once.",
	op.ReasonBackupRoot:      "With the usual place for backups it may run at once.",
	op.ReasonBackupDisabled:  "With a backup it may run at once.",
}

func nextStep(c op.Code) string { return nextSteps[c] }
