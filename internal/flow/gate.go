package flow

import "holdpoint/op"

// allowed reports whether a decision lets a change happen: an automatic one, or one that a
// person released. The zero Decision allows nothing, so a path to a handler that goes round
// the judgement ends here, whoever opens it.
func allowed(d op.Decision, approval op.ID) bool {
	return d.Verdict == op.Auto || d.Verdict == op.Review && approval != ""
}

// ungated is the answer to such a path.
func ungated() error {
	return op.Fail(op.Internal, "no decision lets this happen; nothing was changed").Do("this is a defect of the daemon: report it")
}
