package decision

import "holdpoint/op"

// sentences holds every code that a decision can carry, in the order of op, with the one
// sentence that a card shows for it. Neither half ever changes meaning.
var sentences = []struct {
	reason op.Reason
	text   string
}{
	{op.ReasonUnknownOperation, "There is no operation of this name."},
	{op.ReasonOperationDisabled, "The operator has switched this operation off for this caller."},
	{op.ReasonReadOnly, "It only reads."},
	{op.ReasonRehearsal, "It is a rehearsal: it shows what would happen and changes nothing."},
	{op.ReasonClearanceTooLow, "The caller's clearance is below what this operation needs."},
	{op.ReasonUnbound, "The call is not bound to a workspace whose root has been verified."},
	{op.ReasonNoPreflight, "What stands at the target could not be observed beforehand."},
	{op.ReasonPlanningFailed, "What would change could not be worked out beforehand."},
	{op.ReasonBatch, "It is a batch of several operations that changes files; it is released as a whole, once."},
	{op.ReasonDestructive, "It deletes, moves or rolls back files."},
	{op.ReasonProcess, "It runs a program on the machine that holds the files."},
	{op.ReasonProfileSwitch, "It asks for another profile, which changes what this caller may do and what it is asked for."},
	{op.ReasonProtected, "It touches a protected path, or a directory that holds one."},
	{op.ReasonGuarded, "It touches a file that looks like a secret, or one that git ignores."},
	{op.ReasonSafetyOverride, "The call asks to switch a safety check off."},
	{op.ReasonMultipleTargets, "It changes more than one file."},
	{op.ReasonOverwrite, "It replaces something that is already there."},
	{op.ReasonBackupRoot, "It would keep the backup in another place than the usual one."},
	{op.ReasonBackupDisabled, "It would keep no backup of what it edits."},
	{op.ReasonTooLarge, "The change is larger than 65,536 bytes."},
	{op.ReasonModeRestricted, "A person has set a mode in which this kind of call must ask."},
	{op.ReasonLowImpact, "It is a small change to one file and can be taken back."},
	{op.ReasonUndo, "It takes back an earlier operation, and nothing has changed since."},
	{op.ReasonAuthorOptOut, "The caller's profile does not require approval for changes of this kind."},
	{op.ReasonTrusted, "An entry of the operator's trusted-automation file covers it."},
	{op.ReasonRemembered, "A person has allowed exactly this call before and asked to have that remembered."},
	{op.ReasonGranted, "A person has granted this caller changes of this kind."},
	{op.ReasonProcessDisabled, "The operator has switched approval of programs off for this machine."},
	{op.ReasonConfinedRehearsal, "It runs on a copy, confined and without network; nothing reaches the workspace."},
	{op.ReasonYolo, "A person has set the mode in which nearly everything runs without asking."},
}

// Sentence gives the card's sentence for a reason; it is empty for what is no reason.
func Sentence(r op.Reason) string {
	for _, s := range sentences {
		if s.reason == r {
			return s.text
		}
	}
	return ""
}

// Reasons lists every code that a decision can carry.
func Reasons() []op.Reason {
	out := make([]op.Reason, 0, len(sentences))
	for _, s := range sentences {
		out = append(out, s.reason)
	}
	return out
}
