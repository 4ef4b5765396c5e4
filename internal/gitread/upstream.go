package gitread

import (
	"container/heap"
	"context"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"holdpoint/op"
)

// upstream adds to a status which branch the current one follows, and how many commits
// each has that the other lacks: ahead and behind. Where the branch that is followed is
// not here, upstream_gone says so. A history that grafts or replaced objects change is not
// counted, nor one whose sides part further back than is looked.
func (r *repo) upstream(ctx context.Context, out map[string]any, branch string, at plumbing.Hash) error {
	name := r.followed(branch)
	if name == "" {
		return nil
	}
	out["upstream"] = op.Escape(strings.TrimPrefix(strings.TrimPrefix(name, "refs/remotes/"), "refs/heads/"))
	other, err := r.named(name)
	if err != nil {
		return err
	}
	if other.IsZero() {
		out["upstream_gone"] = true
		return nil
	}
	if at.IsZero() {
		return nil
	}
	w := &walk{r: r}
	if w.shallow() != nil {
		return nil
	}
	ahead, behind, ok, err := w.apart(ctx, at, other)
	if err == nil && ok {
		out["ahead"], out["behind"] = ahead, behind
	}
	return err
}

// followed gives the whole name of the ref that a branch follows; empty where it follows
// none, or one that the remote's settings bring under a name that we cannot tell.
func (r *repo) followed(branch string) string {
	remote, merge := r.conf["branch."+branch+".remote"], r.conf["branch."+branch+".merge"]
	switch {
	case branch == "" || remote == "" || !strings.HasPrefix(merge, "refs/"):
		return ""
	case remote == ".":
		return merge
	}
	from, to, ok := strings.Cut(strings.TrimPrefix(r.conf["remote."+remote+".fetch"], "+"), ":")
	if !ok {
		return ""
	}
	if from == merge {
		return to
	}
	before, after, ok := strings.Cut(from, "*")
	if ok && strings.HasPrefix(merge, before) && strings.HasSuffix(merge, after) && len(merge) >= len(before)+len(after) {
		return strings.Replace(to, "*", merge[len(before):len(merge)-len(after)], 1)
	}
	return ""
}

const (
	// mostApart bounds the commits that are looked at to count.
	mostApart = 100_000
	// further is how many commits that both sides have are looked at after the last that one
	// of them has alone: dates may be wrong.
	further = 1000
)

// reachedFrom says from where a commit was reached.
type reachedFrom uint8

const (
	left reachedFrom = 1 << iota
	right
	both = left | right
)

// apart counts the commits before a that are not before b, and the other way round. It is
// not ok where that would take too long.
func (w *walk) apart(ctx context.Context, a, b plumbing.Hash) (ahead, behind int, ok bool, err error) {
	sides := map[plumbing.Hash]reachedFrom{}
	reach := func(h plumbing.Hash, s reachedFrom) error {
		was := sides[h]
		if was|s == was {
			return nil
		}
		sides[h] = was | s
		c, err := w.r.store.commit(h)
		if err != nil {
			return err
		}
		if w.cut[h] {
			c.ParentHashes = nil
		}
		w.count++
		heap.Push(&w.queue, dated{c, w.count}) // once more where it was told of already: its parents have to know
		return nil
	}
	if err = reach(a, left); err == nil {
		err = reach(b, right)
	}
	done := map[plumbing.Hash]reachedFrom{}
	for beyond := 0; err == nil && len(w.queue) > 0 && beyond < further; {
		if ctx.Err() != nil {
			return 0, 0, false, op.Fail(op.Cancelled, "cancelled while counting commits").Because(ctx.Err())
		}
		if w.count > mostApart {
			return 0, 0, false, nil
		}
		c := heap.Pop(&w.queue).(dated).c
		s := sides[c.Hash]
		if done[c.Hash] == s {
			continue
		}
		if done[c.Hash] = s; s == both {
			beyond++
		} else {
			beyond = 0
		}
		for _, p := range c.ParentHashes {
			if err = reach(p, s); err != nil {
				break
			}
		}
	}
	for _, s := range sides {
		switch s {
		case left:
			ahead++
		case right:
			behind++
		}
	}
	return ahead, behind, err == nil, err
}
