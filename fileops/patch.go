package fileops

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"holdpoint/op"
)

// maxPatched is how many files one patch may name.
const maxPatched = op.MaxItems

// filesOf reads the patch of a call; nil where the call carries operations instead.
func filesOf(a *op.PatchArgs) ([]filePatch, error) {
	text, err := a.Text()
	if err != nil || text == nil {
		return nil, err
	}
	if a.Path != "" && bytes.HasPrefix(bytes.TrimLeft(text, "\r\n"), []byte("@@ -")) {
		head := fmt.Sprintf("--- %s\n+++ %s\n", quoted("a/"+a.Path), quoted("b/"+a.Path))
		text = append([]byte(head), bytes.TrimLeft(text, "\r\n")...)
	}
	files, err := parsePatch(text)
	if err != nil {
		return nil, err
	}
	if len(files) > maxPatched {
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("a patch holds at most %d files, this one %d", maxPatched, len(files))).In("args.patch")
	}
	if a.Path != "" && (len(files) != 1 || files[0].new != a.Path || files[0].old != a.Path) {
		return nil, op.Fail(op.BadRequest, "path and patch name different files").In("args.path").Do("leave path out: the patch names its files")
	}
	if a.ExpectedHash != "" && len(files) != 1 {
		return nil, op.Fail(op.BadRequest, "expected_hash speaks of one file and the patch has several").In("args.expected_hash")
	}
	if a.BackupRoot != "" && a.BackupRoot != op.DefaultBackups {
		return nil, op.Fail(op.NotAvailable, "a patch keeps its backups in the usual place only").In("args.backup_root").Do("leave backup_root out")
	}
	return files, nil
}

// patchSubjects lists the paths of a patch: of each file one, of a rename or copy the
// source and then the destination.
func patchSubjects(a *op.PatchArgs) ([]PartSubject, error) {
	files, err := filesOf(a)
	if err != nil {
		return nil, err
	}
	if files == nil {
		if err := checkPointers(a); err != nil {
			return nil, err
		}
		return []PartSubject{{Subject: op.Subject{Arg: "path", Asked: a.Path, Role: op.RoleTarget, Follow: true}}}, nil
	}
	var out []PartSubject
	for _, f := range files {
		at := func(name string, role op.TargetRole, follow, deletes bool) {
			out = append(out, PartSubject{op.Subject{Arg: "patch", Asked: wireName(name), Role: role, Follow: follow}, deletes})
		}
		switch f.kind {
		case patchChange:
			at(f.old, op.RoleTarget, true, false)
		case patchCreate:
			at(f.new, op.RoleTarget, false, false)
		case patchDelete:
			at(f.old, op.RoleTarget, false, true)
		case patchRename:
			at(f.old, op.RoleSource, false, true)
			at(f.new, op.RoleTarget, false, true)
		case patchCopy:
			at(f.old, op.RoleSource, false, false)
			at(f.new, op.RoleTarget, false, false)
		}
	}
	return out, nil
}

// wireName spells a name of a patch, which may hold any byte, as a path argument.
func wireName(name string) string {
	if name == "~" || strings.HasPrefix(name, "~/") {
		return name // as written: whoever made the patch meant a home directory or nothing
	}
	return op.Escape(name)
}

// patchParts names what a patch destroys; nil too for one that cannot be read.
func patchParts(a *op.PatchArgs) []op.Name {
	files, _ := filesOf(a)
	var out []op.Name
	for _, f := range files {
		switch f.kind {
		case patchDelete:
			out = append(out, op.DeleteFile)
		case patchRename:
			out = append(out, op.MoveFile)
		}
	}
	return out
}

// patchedFile is one file of a patch with what was seen of it.
type patchedFile struct {
	filePatch
	src, dst  int // subjects; the same one unless renamed or copied
	old, new  []byte
	sameBytes bool
	mode      *uint32
	done      bool
}

func planPatch(ctx context.Context, s Scene, a *op.PatchArgs) (*Plan, error) {
	files, err := filesOf(a)
	if err != nil {
		return nil, err
	}
	if files == nil {
		return planPointers(ctx, s, a)
	}
	p := &Plan{BreakLinks: a.HardLinks == "break", DestructiveParts: patchParts(a)}
	var list []*patchedFile
	next := 0
	for _, f := range files {
		one := &patchedFile{filePatch: f, src: next, dst: next}
		next++
		if f.kind == patchRename || f.kind == patchCopy {
			one.dst = next
			next++
		}
		if err := one.read(s, a, p); err != nil {
			return nil, placed(err, orPath(op.AsError(err).Path, s.Targets[one.src].Path))
		}
		list = append(list, one)
	}
	if err := distinct(s, list); err != nil {
		return nil, err
	}
	if err := p.patchSteps(s, list); err != nil {
		return nil, err
	}
	p.patchWords(s, list)
	return p, nil
}

func orPath(p, other op.Path) op.Path {
	if p != "" {
		return p
	}
	return other
}

// read applies one file's part to what stands there.
func (o *patchedFile) read(s Scene, a *op.PatchArgs, p *Plan) error {
	src, dst := s.Targets[o.src], s.Targets[o.dst]
	if o.noData {
		return noBinaryData()
	}
	if o.kind == patchCreate {
		return o.create(p)
	}
	if src.Kind == op.Symlink {
		return op.Fail(op.SymlinkRefused, "a link stands at this path; a patch never changes, moves or deletes one").At(src.Path).Do("name the file that it leads to")
	}
	if err := regular(src); err != nil {
		return err
	}
	if _, err := expect(src, a.ExpectedHash); err != nil {
		return err
	}
	var err error
	if o.old, err = bytesOf(s, o.src); err != nil {
		return err
	}
	if o.new, err = o.result(o.old, true, p); err != nil {
		return err
	}
	o.sameBytes = bytes.Equal(o.old, o.new)
	o.newMode(s.Nodes[o.src].Info.Mode)
	switch {
	case o.kind == patchDelete && len(o.new) > 0:
		return op.Fail(op.PatchMismatch, "the patch deletes the file, and not all of its lines are in the patch").At(src.Path).Do("view the file and make the patch on what is there now")
	case o.kind == patchChange && o.sameBytes && o.mode == nil:
		return op.Fail(op.BadRequest, "the patch changes nothing in this file").At(src.Path).In("args.patch")
	case o.kind == patchChange:
		return hardLinks(src, s.Nodes[o.src], a.Safety)
	case (o.kind == patchRename || o.kind == patchCopy) && dst.Path.Within(src.Path):
		return op.Fail(op.IntoItself, "source and destination are the same").At(dst.Path)
	}
	if !o.sameBytes {
		p.Warnings = append(p.Warnings, WriteWarnings(o.old, o.new)...)
	}
	return nil
}

func (o *patchedFile) create(p *Plan) (err error) {
	o.new, err = o.result(nil, false, p)
	if o.filePatch.mode == "0755" {
		exec := uint32(0o777)
		o.mode = &exec
	}
	return err
}

func (o *patchedFile) result(old []byte, exists bool, p *Plan) ([]byte, error) {
	if o.binary != nil {
		return o.applyBinary(old, exists)
	}
	if o.kind == patchDelete && o.anywhere {
		return nil, nil // an envelope deletes by name
	}
	mark, text := o.markOf(old)
	out, warnings, err := applyHunks(text, o.inEndingOf(text))
	if mark != nil && err == nil && (o.kind != patchDelete || len(out) > 0) {
		out = append(slices.Clip(mark), out...)
	}
	for _, w := range warnings {
		w.Message = op.Escape(o.filePatch.old) + ": " + w.Message
		p.Warnings = append(p.Warnings, w)
	}
	return out, err
}

// markOf parts the byte-order mark from the text that it stands before. Views show it as a
// fact and not as a character, so that a patch made from one does not hold it; a patch that
// does is taken at its word.
func (o *patchedFile) markOf(old []byte) (mark, text []byte) {
	m := []byte("\ufeff")
	if !bytes.HasPrefix(old, m) {
		return nil, old
	}
	for _, h := range o.hunks {
		if slices.ContainsFunc(h.lines, func(l hunkLine) bool { return bytes.HasPrefix(l.text, m) }) {
			return nil, old
		}
	}
	return m, old[len(m):]
}

// newMode gives or takes the right to execute, to those who may read; all other bits stay.
func (o *patchedFile) newMode(now uint32) {
	mode := now
	switch {
	case o.filePatch.mode == "0755" && now&0o111 == 0:
		mode |= now & 0o444 >> 2
	case o.filePatch.mode == "0644":
		mode &^= 0o111
	}
	if mode != now {
		o.mode = &mode
	}
}
