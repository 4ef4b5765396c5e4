package flow

import "holdpoint/op"

// halted answers every change while the operator's file "halt" lies in the state directory:
// new calls, approvals and what was approved a moment ago alike. Reads, rehearsals and
// rejections go on.
func (e *Engine) halted() error {
	if !e.jrn.Halted() {
		return nil
	}
	return op.Fail(op.NotReady, "the operator has stopped all changes").Do("nothing was changed or queued; changes go on when the file halt is removed from the daemon's state directory")
}
