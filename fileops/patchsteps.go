package fileops

import (
	"fmt"
	"strings"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

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
