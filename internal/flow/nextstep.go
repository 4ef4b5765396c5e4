package flow

import "holdpoint/op"

// complete gives an error what each must say and its maker did not: whether the same call
// may be made again, what to do instead, and, where the form is at fault, a correct call.
func (c *call) complete(why op.Error) *op.Error {
	if why.Retry == "" {
		why.Retry = op.Retry(why.Code)
	}
	if why.Field == "" && why.Path == "" && c.spec.Class == op.Reverting && why.Retry != "same" {
		why.Field = "args"
	}
	why.WithExample(c.req.Op)
	switch {
	case why.Hint != "":
	case why.Example != nil:
		why.Hint = "send the call in the form of the example"
	default:
		why.Hint = op.NextStep(why.Code)
	}
	return &why
}
