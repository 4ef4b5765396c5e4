package fileops

import "holdpoint/op"

func checkPointers(a *op.PatchArgs) error { return nil }

func planPointers(s Scene, a *op.PatchArgs) (*Plan, error) {
	return nil, op.Fail(op.NotAvailable, "operations on documents are not built yet").In("args.operations")
}
