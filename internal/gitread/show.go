package gitread

import (
	"context"
	"encoding/base64"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"holdpoint/op"
)

// show tells of one commit and what it changed; of a merge against its first parent, which
// the answer says.
func show(ctx context.Context, o Options, a *op.GitShowArgs) (map[string]any, error) {
	r, err := find(ctx, o, o.Path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if rev, file, is := strings.Cut(a.Rev, ":"); is {
		return r.showFile(ctx, rev, file, int(op.Or(a.MaxBytes, usualBytes)))
	}
	specs, err := r.specs(a.Paths)
	if err != nil {
		return nil, err
	}
	if found, err := r.replaced(); found || err != nil {
		if err == nil {
			err = unsupported("replaced objects change the history, and are not read")
		}
		return nil, err
	}
	at, err := r.revision(ctx, a.Rev, "args.rev")
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for range deepest {
		t, err := r.store.tag(at)
		if err != nil {
			break
		}
		name, _ := shownText(t.Name)
		text, _ := shownText(t.Message)
		out["tag"] = map[string]any{"name": name, "tagger": person(t.Tagger), "message": text}
		at = t.Target
	}
	if at, err = r.peel(at, "commit"); err != nil {
		return nil, err
	}
	c, err := r.store.commit(at)
	if err != nil {
		return nil, err
	}
	for k, v := range summary(c) {
		out[k] = v
	}
	out["repository"] = op.Escape(string(r.top.path))
	before := emptyTree
	cut, err := r.store.Shallow()
	if err != nil {
		return nil, unsupported("the list of cut commits cannot be read").Because(err)
	}
	for _, h := range cut {
		if h == at {
			c.ParentHashes, out["shallow"] = nil, true
		}
	}
	if len(c.ParentHashes) > 0 {
		parent, err := r.store.commit(c.ParentHashes[0])
		if err != nil {
			return nil, err
		}
		before, out["against"] = parent.TreeHash, parent.Hash.String()
	}
	cmp := &compare{r: r, specs: specs}
	if err := cmp.trees(before, c.TreeHash, ""); err != nil {
		return nil, err
	}
	list, attrs := sorted(cmp.out), r.attributes(ctx)
	read := r.reader(ctx, attrs)
	if r.renamesOn("diff.renames") {
		if list, err = detect(list, read); err != nil {
			return nil, err
		}
	}
	p := &patcher{r: r, read: read, attrs: attrs, context: int(op.Or(a.ContextLines, contextOf))}
	return out, p.answer(ctx, out, list, a.Page, a.NamesOnly, int(op.Or(a.MaxBytes, usualBytes)))
}

// lookup finds a path in a tree.
func (r *repo) lookup(tree plumbing.Hash, p string) (side, error) {
	at := side{hash: tree, mode: filemode.Dir}
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." {
			continue
		}
		if at.mode != filemode.Dir {
			return side{}, nil
		}
		list, err := r.store.tree(at.hash)
		if err != nil {
			return side{}, err
		}
		at = side{}
		for _, e := range list {
			if e.Name == name {
				at = side{hash: e.Hash, mode: e.Mode}
			}
		}
		if !at.exists() {
			return side{}, nil
		}
	}
	return at, nil
}

// showFile gives a file as a commit, or as the index where no commit is named, has it.
func (r *repo) showFile(ctx context.Context, rev, file string, most int) (map[string]any, error) {
	file = path.Clean("/" + file)[1:]
	var at side
	if rev == "" {
		x, err := r.readIndex(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range x.entries {
			if e.path == file && e.stage == 0 {
				at = side{hash: e.hash, mode: e.mode}
			}
		}
	} else {
		tree, err := r.treeOf(ctx, rev, "args.rev")
		if err != nil {
			return nil, err
		}
		if at, err = r.lookup(tree, file); err != nil {
			return nil, err
		}
	}
	out := map[string]any{"repository": op.Escape(string(r.top.path)), "path": r.show(file), "object": at.hash.String()}
	switch {
	case !at.exists():
		return nil, op.Fail(op.NotFound, "the commit has no such path").In("args.rev")
	case at.mode == filemode.Submodule:
		out["type"] = "submodule"
		return out, nil
	case at.mode == filemode.Dir:
		list, err := r.store.tree(at.hash)
		if err != nil {
			return nil, err
		}
		entries := []map[string]any{}
		for _, e := range list[:min(len(list), 10_000)] {
			entries = append(entries, map[string]any{"name": op.Escape(e.Name) + slash(e.Mode == filemode.Dir), "object": e.Hash.String()})
		}
		out["type"], out["entries"], out["total"] = "directory", entries, len(list)
		return out, nil
	}
	b, err := r.store.blob(at.hash)
	if err != nil {
		return nil, err
	}
	out["type"], out["mode"], out["size"] = "file", at.mode.String()[1:], len(b)
	if len(b) > most {
		out["truncated"] = "output"
		b = b[:most]
		for i := 0; i < 3 && len(b) > 0 && !utf8.Valid(b); i++ {
			b = b[:len(b)-1]
		}
	}
	if utf8.Valid(b) && !hasNUL(b) {
		out["content"] = string(b)
	} else {
		out["content_base64"] = base64.StdEncoding.EncodeToString(b)
	}
	return out, nil
}
