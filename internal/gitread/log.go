package gitread

import (
	"container/heap"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"holdpoint/op"
)

// log lists commits from the newest on, as git log does: by commit date, of what the
// pathspecs cover only those that made it what it is.
func log(ctx context.Context, o Options, a *op.GitLogArgs) (map[string]any, error) {
	r, err := find(ctx, o, o.Path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	specs, err := r.specs(a.Paths)
	if err != nil {
		return nil, err
	}
	rev, skip := a.Rev, 0
	if a.Page != "" {
		at, n, ok := strings.Cut(a.Page, ":")
		if skip, err = strconv.Atoi(n); !ok || err != nil || len(at) != 40 {
			return nil, op.Fail(op.BadRequest, "page is none that was given").In("args.page")
		}
		rev = at
	}
	out := map[string]any{"repository": op.Escape(string(r.top.path)), "commits": []map[string]any{}}
	if rev == "" {
		if _, at, err := r.head(); err != nil || at.IsZero() {
			return out, err // no commit yet
		}
	}
	from, err := r.commitOf(ctx, rev, "args.rev")
	if err != nil {
		return nil, err
	}
	w := &walk{r: r, specs: specs, seen: map[plumbing.Hash]bool{}}
	if err := w.shallow(); err != nil {
		return nil, err
	}
	if a.Until != "" {
		not, err := r.commitOf(ctx, a.Until, "args.not")
		if err != nil {
			return nil, err
		}
		if w.without, err = r.ancestors(not); err != nil {
			return nil, err
		}
	}
	if err := w.push(from); err != nil {
		return nil, err
	}
	size := int(op.Or(a.PageSize, 50))
	list := []map[string]any{}
	for {
		c, err := w.next()
		if err != nil {
			return nil, err
		}
		if c == nil {
			break
		}
		if skip > 0 && len(list) == 0 && w.told <= skip {
			continue
		}
		if len(list) == size {
			out["next"], out["truncated"] = from.String()+":"+strconv.Itoa(w.told-1), "page"
			break
		}
		list = append(list, summary(c))
	}
	out["commits"] = list
	if len(w.cut) > 0 {
		out["shallow"] = true
	}
	return out, nil
}

// summary words a commit for a list.
func summary(c *object.Commit) map[string]any {
	parents := make([]string, len(c.ParentHashes))
	for i, p := range c.ParentHashes {
		parents[i] = p.String()
	}
	title, body := message(c.Message)
	m := map[string]any{"commit": c.Hash.String(), "parents": parents, "author": person(c.Author), "committer": person(c.Committer)}
	put := func(key, text string) {
		shown, escaped := shownText(text)
		m[key] = shown
		if escaped {
			m["escaped"] = true
		}
	}
	put("subject", title)
	if body != "" {
		put("body", body)
	}
	if c.Encoding != "" && !strings.EqualFold(string(c.Encoding), "utf-8") {
		m["encoding"] = string(c.Encoding)
	}
	return m
}

func person(s object.Signature) map[string]any {
	name, _ := shownText(s.Name)
	mail, _ := shownText(s.Email)
	return map[string]any{"name": name, "email": mail, "date": s.When.Format("2006-01-02T15:04:05-07:00")}
}

// message parts a text as git does: the first paragraph on one line, and the rest.
func message(s string) (title, body string) {
	s = strings.TrimLeft(s, "\n")
	var first []string
	for s != "" {
		line, rest, _ := strings.Cut(s, "\n")
		s = rest
		if strings.TrimSpace(line) == "" {
			break
		}
		first = append(first, strings.TrimRight(line, " \t\r"))
	}
	return strings.Join(first, " "), strings.TrimLeft(s, "\n")
}

// walk goes from commits to their parents, the latest first.
type walk struct {
	r       *repo
	specs   pathspecs
	seen    map[plumbing.Hash]bool
	without map[plumbing.Hash]bool
	cut     map[plumbing.Hash]bool // commits whose parents a shallow clone lacks
	queue   byDate
	count   int
	told    int // commits that next gave
}

// shallow learns where the history of a shallow clone ends.
func (w *walk) shallow() error {
	list, err := w.r.store.Shallow()
	if err != nil {
		return unsupported("the list of cut commits cannot be read").Because(err)
	}
	w.cut = map[plumbing.Hash]bool{}
	for _, h := range list {
		w.cut[h] = true
	}
	for _, name := range []string{"info/grafts"} {
		if w.r.common.join(name).kind(w.r.store.ctx) != op.Absent {
			return unsupported("grafts change the history, and are not read")
		}
	}
	if refs, err := w.r.replaced(); err != nil || refs {
		if err == nil {
			err = unsupported("replaced objects change the history, and are not read")
		}
		return err
	}
	return nil
}

// replaced tells whether any object has a stand-in.
func (r *repo) replaced() (found bool, err error) {
	list, err := r.store.IterReferences()
	if err != nil {
		return false, unsupported("the references cannot be listed").Because(err)
	}
	err = list.ForEach(func(ref *plumbing.Reference) error {
		found = found || strings.HasPrefix(string(ref.Name()), "refs/replace/")
		return nil
	})
	return found, err
}

func (w *walk) push(h plumbing.Hash) error {
	if w.seen[h] || w.without[h] {
		return nil
	}
	w.seen[h] = true
	c, err := w.r.store.commit(h)
	if err != nil {
		return err
	}
	if w.cut[h] {
		c.ParentHashes = nil
	}
	w.count++
	heap.Push(&w.queue, dated{c, w.count})
	return nil
}

// next gives the next commit that is to be told of; nil at the end.
func (w *walk) next() (*object.Commit, error) {
	for len(w.queue) > 0 {
		c := heap.Pop(&w.queue).(dated).c
		parents, tell := c.ParentHashes, true
		if len(w.specs) > 0 {
			var err error
			if parents, tell, err = w.simplified(c); err != nil {
				return nil, err
			}
		}
		for _, p := range parents {
			if err := w.push(p); err != nil {
				return nil, err
			}
		}
		if tell {
			w.told++
			return c, nil
		}
	}
	return nil, nil
}

// simplified tells which parents to follow and whether the commit made a difference: where
// one parent has the same, the history is that parent's alone.
func (w *walk) simplified(c *object.Commit) ([]plumbing.Hash, bool, error) {
	if len(c.ParentHashes) == 0 {
		differs, err := w.differs(emptyTree, c.TreeHash)
		return nil, differs, err
	}
	for _, p := range c.ParentHashes {
		parent, err := w.r.store.commit(p)
		if err != nil {
			return nil, false, err
		}
		differs, err := w.differs(parent.TreeHash, c.TreeHash)
		if err != nil {
			return nil, false, err
		}
		if !differs {
			return []plumbing.Hash{p}, false, nil
		}
	}
	return c.ParentHashes, true, nil
}

func (w *walk) differs(a, b plumbing.Hash) (bool, error) {
	cmp := &compare{r: w.r, specs: w.specs}
	err := cmp.trees(a, b, "")
	return len(cmp.out) > 0, err
}

// ancestors are a commit and all before it.
func (r *repo) ancestors(h plumbing.Hash) (map[plumbing.Hash]bool, error) {
	all, todo := map[plumbing.Hash]bool{h: true}, []plumbing.Hash{h}
	cut, err := r.store.Shallow()
	if err != nil {
		return nil, unsupported("the list of cut commits cannot be read").Because(err)
	}
	for len(todo) > 0 {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if slices.Contains(cut, h) {
			continue
		}
		c, err := r.store.commit(h)
		if err != nil {
			return nil, err
		}
		for _, p := range c.ParentHashes {
			if !all[p] {
				all[p] = true
				todo = append(todo, p)
			}
		}
	}
	return all, nil
}

// dated is a commit in the queue; of one date the first that came goes first.
type dated struct {
	c *object.Commit
	n int
}

type byDate []dated

func (q byDate) Len() int { return len(q) }
func (q byDate) Less(i, j int) bool {
	a, b := q[i].c.Committer.When, q[j].c.Committer.When
	return a.After(b) || a.Equal(b) && q[i].n < q[j].n
}
func (q byDate) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *byDate) Push(x any)   { *q = append(*q, x.(dated)) }
func (q *byDate) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
