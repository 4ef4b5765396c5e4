package mcp

import "holdpoint/op"

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
