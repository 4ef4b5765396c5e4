package fileops

import "holdpoint/op"

// PartSubject is a path that a call names, and whether what stands there goes.
type PartSubject struct {
	op.Subject
	Deletes bool
}

// Subjects lists the paths of a call. Those of a patch stand in its text; op knows all
// others.
func Subjects(args any) ([]PartSubject, error) {
	if a, ok := args.(*op.PatchArgs); ok {
		return patchSubjects(a)
	}
	var out []PartSubject
	for _, s := range op.Subjects(args) {
		out = append(out, PartSubject{Subject: s})
	}
	return out, nil
}

// Readable refuses a patch that cannot be read, before anything is looked at.
func Readable(args any) error {
	_, err := Subjects(args)
	return err
}

// DestructiveParts names the destructive operations that a call is made of: that of its
// own name, and of a patch a delete for each file that it deletes and a move for each one
// that it renames.
func DestructiveParts(name op.Name, args any) []op.Name {
	if spec, ok := op.Lookup(name); ok && spec.Class == op.Destructive {
		return []op.Name{name}
	}
	if a, ok := args.(*op.PatchArgs); ok {
		return patchParts(a)
	}
	return nil
}
