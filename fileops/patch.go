package fileops

import (
	"bytes"
	"fmt"
	"strings"

	"holdpoint/internal/rooted"
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
func wireName(name string) string { return op.Escape(name) }

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

func planPatch(s Scene, a *op.PatchArgs) (*Plan, error) {
	files, err := filesOf(a)
	if err != nil {
		return nil, err
	}
	if files == nil {
		return planPointers(s, a)
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
		return op.Fail(op.BinaryNoData, "the patch says that a binary file differs, and not how").In("args.patch").Do("make it with git diff --binary")
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
	out, warnings, err := applyHunks(old, o.inEndingOf(old))
	for _, w := range warnings {
		w.Message = op.Escape(o.filePatch.old) + ": " + w.Message
		p.Warnings = append(p.Warnings, w)
	}
	return out, err
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

// distinct refuses two parts that meet at one file by way of a link, and a destination
// where something stays.
func distinct(s Scene, list []*patchedFile) error {
	vacated, seen := map[op.Path]bool{}, map[op.Path]bool{}
	for _, o := range list {
		if at := s.Targets[o.src].Path; o.kind == patchDelete || o.kind == patchRename {
			if vacated[at] {
				return patchedTwice(at)
			}
			vacated[at] = true
		}
	}
	for _, o := range list {
		t := s.Targets[o.dst]
		if o.kind != patchDelete {
			if seen[t.Path] {
				return patchedTwice(t.Path)
			}
			seen[t.Path] = true
		}
		makes := o.kind == patchCreate || o.kind == patchRename || o.kind == patchCopy
		if makes && t.Exists && !vacated[t.Path] {
			return op.Fail(op.Exists, "the patch makes this file, and something stands there already").At(t.Path).Do("move it away first, or make the patch on what is there now")
		}
		if o.kind == patchChange && vacated[t.Path] {
			return patchedTwice(t.Path)
		}
	}
	return nil
}

// patchedTwice refuses what would build on an earlier part: that is not what stands there.
func patchedTwice(p op.Path) error {
	return op.Fail(op.PatchParse, "two parts of the patch concern this file").At(p).In("args.patch").Do("join them, or send them one after the other")
}

// patchSteps puts what goes before what comes.
func (p *Plan) patchSteps(s Scene, list []*patchedFile) error {
	take := func(i int) {
		p.add(op.Step{Do: op.Take, Path: s.Nodes[i].Path, Before: stateOf(s.Targets[i], s.Nodes[i]), After: op.State{Kind: op.Absent}}, nil)
	}
	pending := map[op.Path]bool{} // sources of plain renames
	for _, o := range list {
		switch {
		case o.kind == patchDelete, o.kind == patchRename && !o.moves():
			take(o.src)
		case o.kind == patchRename:
			pending[s.Targets[o.src].Path] = true
		}
	}
	for len(pending) > 0 {
		if err := p.patchMoves(s, list, pending, take); err != nil {
			return err
		}
	}
	for _, o := range list {
		if o.done || o.kind == patchDelete {
			continue
		}
		if err := p.patchFile(s, o); err != nil {
			return err
		}
	}
	return nil
}

// moves reports a rename that is nothing but that.
func (o *patchedFile) moves() bool { return o.kind == patchRename && o.sameBytes && o.mode == nil }

// patchMoves does the renames whose destination is free. Where all wait for each other one
// of them goes by way of a copy.
func (p *Plan) patchMoves(s Scene, list []*patchedFile, pending map[op.Path]bool, take func(int)) error {
	moved := false
	var waits *patchedFile
	for _, o := range list {
		src, dst := s.Targets[o.src], s.Targets[o.dst]
		if !o.moves() || !pending[src.Path] {
			continue
		}
		if pending[dst.Path] {
			waits = o
			continue
		}
		if err := p.parents(s.Nodes[o.dst], true); err != nil {
			return err
		}
		state := stateOf(src, s.Nodes[o.src])
		p.add(op.Step{Do: op.Move, Path: s.Nodes[o.src].Path, To: s.Nodes[o.dst].Path, Before: state, After: state}, nil)
		delete(pending, src.Path)
		o.done, moved = true, true
	}
	if !moved && waits != nil {
		take(waits.src)
		delete(pending, s.Targets[waits.src].Path)
		waits.sameBytes = false
	}
	return nil
}

// patchFile puts new bytes in place.
func (p *Plan) patchFile(s Scene, o *patchedFile) error {
	n, t := s.Nodes[o.dst], s.Targets[o.dst]
	if o.kind == patchChange {
		meta := rooted.Meta{}
		if o.mode != nil {
			meta.Perm, meta.Exact = *o.mode, true
		}
		p.replace(s, o.dst, o.new, meta)
		return nil
	}
	if err := p.parents(n, true); err != nil {
		return err
	}
	meta := rooted.Meta{Perm: permFile}
	switch {
	case o.kind == patchRename:
		meta.Like = s.Nodes[o.src]
		if o.mode != nil {
			meta.Perm, meta.Exact = *o.mode, true
		}
	case o.kind == patchCopy && o.mode == nil:
		meta.Perm = permFile | s.Nodes[o.src].Info.Mode&0o111
	case o.mode != nil:
		meta.Perm = *o.mode & 0o777
	}
	t.Exists = false
	f := freshBytes(n, t, meta, o.new)
	step := op.Step{Do: op.Place, Path: n.Path, Before: op.State{Kind: op.Absent}}
	p.put(step, f.over(o.new, nil), f)
	return nil
}

// patchWords gives the plan its title, lines, diff and result.
func (p *Plan) patchWords(s Scene, list []*patchedFile) {
	verbs := map[patchKind]string{patchChange: "patch", patchCreate: "create", patchDelete: "delete", patchRename: "rename", patchCopy: "copy"}
	count := map[patchKind]int{}
	var diffs []string
	files := []map[string]any{}
	for _, o := range list {
		src, dst := s.Targets[o.src], s.Targets[o.dst]
		count[o.kind]++
		text := verbs[o.kind] + " " + op.Escape(string(src.Path))
		if o.src != o.dst {
			text += " to " + op.Escape(string(dst.Path))
		}
		if o.mode != nil {
			text += fmt.Sprintf(", mode %s", rooted.Info{Mode: *o.mode}.ModeString())
		}
		p.Lines = append(p.Lines, text)
		d := Compare(Side{src.Path, o.old, o.kind != patchCreate}, Side{dst.Path, o.new, o.kind != patchDelete}, contextLines)
		if o.kind == patchCreate {
			d = Unified(dst.Path, nil, o.new, false, true)
		}
		diffs = append(diffs, d.Text)
		p.Diff.Bytes, p.Diff.Added, p.Diff.Removed = p.Diff.Bytes+d.Bytes, p.Diff.Added+d.Added, p.Diff.Removed+d.Removed
		p.Diff.Binary, p.Diff.Escaped = p.Diff.Binary || d.Binary, p.Diff.Escaped || d.Escaped
		one := map[string]any{"path": op.Escape(string(dst.Path)), "change": verbs[o.kind], "added": d.Added, "removed": d.Removed}
		if o.kind != patchDelete {
			one["hash"], one["size"] = rooted.HashBytes(o.new), len(o.new)
			head := o.new
			if o.kind == patchChange && !d.Binary && !d.Escaped {
				head = []byte(d.Text)
			}
			p.Contents = append(p.Contents, Place{Path: dst.Path, Head: head})
		}
		files = append(files, one)
		p.Creates = p.Creates || o.kind != patchChange && o.kind != patchDelete
	}
	p.Title = patchTitle(count)
	p.Diff.Text = strings.Join(diffs, "")
	p.ChangeBytes = p.Diff.Bytes
	p.Result = map[string]any{"files": files, "diff": p.Diff.Text}
	if len(files) == 1 {
		for _, k := range []string{"hash", "size"} {
			if v, ok := files[0][k]; ok {
				p.Result[k] = v
			}
		}
	}
}

func patchTitle(n map[patchKind]int) string {
	var words []string
	for _, k := range []struct {
		kind patchKind
		verb string
	}{{patchDelete, "delete"}, {patchRename, "rename"}, {patchChange, "patch"}, {patchCreate, "create"}, {patchCopy, "copy"}} {
		if n[k.kind] > 0 {
			words = append(words, k.verb+" "+count(n[k.kind], "file"))
		}
	}
	text := strings.Join(words, ", ")
	return strings.ToUpper(text[:1]) + text[1:]
}
