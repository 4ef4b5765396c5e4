package gitread

import (
	"context"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"holdpoint/op"
)

const (
	usualBytes = 64 << 10 // of text in one answer unless the call says otherwise
	contextOf  = 3        // lines around a change
)

// diff tells what changed between two of: a commit, the index, the work tree.
func diff(ctx context.Context, o Options, a *op.GitDiffArgs) (map[string]any, error) {
	if a.To != "" && (a.From == "" || a.Staged) {
		return nil, op.Fail(op.BadRequest, "to goes with from, and not with staged").In("args.to")
	}
	r, err := find(ctx, o, o.Path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	specs, err := r.specs(a.Paths)
	if err != nil {
		return nil, err
	}
	d, err := r.differences(ctx, a, specs)
	if err != nil {
		return nil, err
	}
	attrs := r.attributes(ctx)
	read := r.reader(ctx, attrs)
	if d.list, err = settled(d.list, read); err != nil {
		return nil, err
	}
	if r.renamesOn("diff.renames") {
		if d.list, err = detect(d.list, read); err != nil {
			return nil, err
		}
	}
	p := &patcher{r: r, read: read, attrs: attrs, context: int(op.Or(a.ContextLines, contextOf))}
	out := map[string]any{"repository": op.Escape(string(r.top.path))}
	if len(d.unmerged) > 0 {
		out["unmerged"] = r.shown(d.unmerged)
	}
	if len(d.undecided) > 0 {
		out["undecided"] = r.shown(d.undecided)
	}
	return out, p.answer(ctx, out, d.list, a.Page, a.NamesOnly, int(op.Or(a.MaxBytes, usualBytes)))
}

// differences is what a comparison found.
type differences struct {
	list                []change
	unmerged, undecided []string
}

func (r *repo) differences(ctx context.Context, a *op.GitDiffArgs, specs pathspecs) (d differences, err error) {
	var from plumbing.Hash
	if a.From != "" {
		from, err = r.treeOf(ctx, a.From, "args.from")
	} else {
		from, err = r.headTree()
	}
	if err != nil {
		return d, err
	}
	if a.To != "" {
		to, err := r.treeOf(ctx, a.To, "args.to")
		if err != nil {
			return d, err
		}
		c := &compare{r: r, specs: specs}
		err = c.trees(from, to, "")
		return differences{list: sorted(c.out)}, err
	}
	x, err := r.readIndex(ctx)
	if err != nil {
		return d, err
	}
	var staged []change
	if a.Staged || a.From != "" {
		if staged, err = r.against(x, from, specs); err != nil {
			return d, err
		}
	}
	if a.Staged {
		for _, e := range x.entries {
			if e.stage != 0 && specs.match(r.full(e.path)) && (len(d.unmerged) == 0 || d.unmerged[len(d.unmerged)-1] != e.path) {
				d.unmerged = append(d.unmerged, e.path)
			}
		}
		d.list = staged
		return d, nil
	}
	w, err := r.scan(ctx, x, specs, "no")
	if err != nil {
		return d, err
	}
	for p := range w.unmerged {
		d.unmerged = append(d.unmerged, p)
	}
	d.list, d.undecided = joined(staged, w.changes), w.undecided
	return d, nil
}

// joined follows each path through two comparisons: from the first's old side to the
// second's new one.
func joined(first, second []change) []change {
	by := make(map[string]change, len(first)+len(second))
	for _, c := range first {
		by[c.path] = c
	}
	for _, c := range second {
		if f, ok := by[c.path]; ok {
			c.old = f.old
		}
		by[c.path] = c
	}
	out := make([]change, 0, len(by))
	for _, c := range by {
		out = append(out, c)
	}
	return sorted(out)
}

// settled names the bytes of the work tree and leaves out what turns out to be the same.
func settled(list []change, read func(side, string) ([]byte, error)) ([]change, error) {
	var out []change
	for _, c := range list {
		if c.new.live && c.new.exists() && typeOf(c.new.mode) != 0o160000 {
			b, err := read(side{hash: c.old.hash, mode: c.new.mode, live: true}, c.path)
			if err != nil {
				return nil, err
			}
			c.new.hash = blobHash(b)
			if c.new.hash == c.old.hash && c.new.mode == c.old.mode {
				continue
			}
		}
		if c.old == c.new {
			continue
		}
		out = append(out, c)
	}
	return out, nil
}

// answer writes as many changes as the bytes allow, at least one, from a cursor on.
func (p *patcher) answer(ctx context.Context, out map[string]any, list []change, after string, names bool, most int) error {
	after, err := op.Unescape(after)
	if err != nil {
		return op.Fail(op.BadRequest, "page is none that was given").In("args.page")
	}
	out["total"] = len(list)
	begin := 0
	if after != "" {
		begin = sort.Search(len(list), func(i int) bool { return list[i].path > after })
	}
	var text strings.Builder
	files := []map[string]any{}
	for i, c := range list[begin:] {
		if err := ctx.Err(); err != nil {
			return op.Fail(op.Cancelled, "cancelled while comparing").Because(err)
		}
		m := map[string]any{"path": p.r.show(c.path), "status": c.letter()}
		if c.from != "" {
			m["from"], m["similarity"] = p.r.show(c.from), c.score
		}
		if !names {
			w, err := p.write(ctx, c)
			if code := op.AsError(err); err != nil && code.Code == op.TooLarge {
				m["too_large"], err = true, nil
			}
			if err != nil {
				return err
			}
			if text.Len()+len(w.text) > most && (i > 0 || len(w.text) > most) {
				if i > 0 {
					out["next"], out["truncated"] = p.last(list[begin+i-1]), "output"
					break
				}
				m["cut"] = true
				w.text = w.text[:strings.LastIndexByte(w.text[:most], '\n')+1]
			}
			m["added"], m["removed"] = w.added, w.removed
			if w.binary {
				m["binary"] = true
			}
			text.WriteString(w.text)
		}
		files = append(files, m)
		if len(files) == 10_000 && begin+i+1 < len(list) {
			out["next"], out["truncated"] = p.last(c), "page"
			break
		}
	}
	out["files"] = files
	if !names {
		shown, escaped := shownText(text.String())
		out["diff"] = shown
		if escaped {
			out["escaped"] = true
		}
	}
	return nil
}

func (p *patcher) last(c change) string { return op.Escape(c.path) }
