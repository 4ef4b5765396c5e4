package gitread

import (
	"bytes"
	"container/heap"
	"context"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"holdpoint/op"
)

// blame tells which commit each line of a file is from, as git blame does: a line that a
// parent has too is the parent's, through renames of the whole file.
func blame(ctx context.Context, o Options, a *op.GitBlameArgs) (map[string]any, error) {
	r, err := find(ctx, o, o.Path)
	if err != nil {
		return nil, err
	}
	defer r.close()
	file, ok := strings.CutPrefix(string(o.Path), r.prefix())
	file = strings.TrimPrefix(file, "/")
	if !ok || file == "" {
		return nil, op.Fail(op.NotAFile, "a directory has no lines").In("args.path").Do("name a file")
	}
	b := &blamer{r: r, ctx: ctx, suspects: map[suspect]*claim{}}
	w := &walk{r: r}
	if err := w.shallow(); err != nil {
		return nil, err
	}
	b.cut = w.cut
	text, err := b.begin(a, file)
	if err != nil {
		return nil, err
	}
	b.lines = cut(text)
	first, last, err := asked(a, len(b.lines))
	if err != nil {
		return nil, err
	}
	b.answer = make([]origin, len(b.lines))
	for i := range b.first.lines {
		if n := b.first.lines[i].final; n >= first-1 && n < last {
			b.first.lines[len(b.kept)] = b.first.lines[i]
			b.kept = b.first.lines[:len(b.kept)+1]
		}
	}
	b.first.lines = b.kept
	if err := b.run(a.Rev == ""); err != nil {
		return nil, err
	}
	return b.result(first, last)
}

func asked(a *op.GitBlameArgs, total int) (first, last int, err error) {
	first, last = int(op.Or(a.StartLine, 1)), int(op.Or(a.EndLine, int64(total)))
	if first > total && total > 0 || last < first && total > 0 {
		return 0, 0, op.Fail(op.BadRequest, "the file has no such lines").In("args.start_line")
	}
	return first, min(last, total), nil
}

// suspect is a file as one commit has it; the zero commit is the work tree.
type suspect struct {
	commit plumbing.Hash
	path   string
}

// origin is where a line is from.
type origin struct {
	suspect
	line int // there, from 0
}

// claim are lines that may be from a suspect.
type claim struct {
	suspect
	c     *object.Commit // nil of the work tree
	blob  plumbing.Hash
	lines []pending
	n     int
}

type pending struct{ final, here int }

type blamer struct {
	r        *repo
	ctx      context.Context
	cut      map[plumbing.Hash]bool
	suspects map[suspect]*claim // those that wait
	queue    claims
	lines    [][]byte
	answer   []origin
	kept     []pending
	count    int

	first    *claim
	fileText []byte          // of the work tree
	parents  []plumbing.Hash // of the work tree
	moved    string          // its name at HEAD, where it was renamed since
}

// begin finds the text that is asked about.
func (b *blamer) begin(a *op.GitBlameArgs, file string) ([]byte, error) {
	absent := op.Fail(op.NotFound, "the commit has no such file").In("args.path")
	if a.Rev != "" {
		at, err := b.r.commitOf(b.ctx, a.Rev, "args.rev")
		if err != nil {
			return nil, err
		}
		c, err := b.r.store.commit(at)
		if err != nil {
			return nil, err
		}
		s, err := b.r.lookup(c.TreeHash, file)
		if err != nil {
			return nil, err
		}
		if typeOf(s.mode) != typeOf(filemode.Regular) && s.mode != filemode.Symlink {
			return nil, absent
		}
		text, err := b.r.store.blob(s.hash)
		b.first = &claim{suspect: suspect{at, file}, c: c, blob: s.hash, lines: all(text)}
		return text, err
	}
	_, head, err := b.r.head()
	if err != nil {
		return nil, err
	}
	tree, err := b.r.headTree()
	if err != nil {
		return nil, err
	}
	s, err := b.r.lookup(tree, file)
	if err != nil {
		return nil, err
	}
	b.moved = file
	known := s.exists()
	if !known {
		if b.moved, s, known, err = b.renamed(file); err != nil {
			return nil, err
		}
	}
	if head.IsZero() || !known || s.mode == filemode.Dir || s.mode == filemode.Submodule {
		return nil, op.Fail(op.NotFound, "no commit has this file yet").In("args.path").Do("git_status tells what is not committed")
	}
	b.parents = append(b.parents, head)
	more, err := b.r.git.join("MERGE_HEAD").small(b.ctx, maxPointer)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(more)) {
		b.parents = append(b.parents, plumbing.NewHash(strings.TrimSpace(line)))
	}
	b.fileText, err = b.r.liveBytes(b.ctx, b.r.attributes(b.ctx), side{hash: s.hash, mode: filemode.Regular, live: true}, file)
	b.first = &claim{suspect: suspect{path: file}, lines: all(b.fileText)}
	return b.fileText, err
}

// renamed finds what a file is called at HEAD that the index has under a new name, and
// whether the index has it at all.
func (b *blamer) renamed(file string) (was string, old side, known bool, err error) {
	x, err := b.r.readIndex(b.ctx)
	if err != nil {
		return "", old, false, err
	}
	for _, e := range x.entries {
		known = known || e.path == file
	}
	list, err := b.r.staged(b.ctx, x, nil)
	if err == nil {
		list, err = detect(list, b.r.reader(b.ctx, nil))
	}
	for _, c := range list {
		if c.path == file && c.from != "" {
			return c.from, c.old, known, err
		}
	}
	return file, old, known, err
}

func all(text []byte) []pending {
	out := make([]pending, len(cut(text)))
	for i := range out {
		out[i] = pending{i, i}
	}
	return out
}

// run asks suspects from the newest on until each line has its origin.
func (b *blamer) run(live bool) error {
	if live {
		if err := b.ask(b.first, b.parents, b.fileText); err != nil {
			return err
		}
	} else {
		b.put(b.first)
	}
	for len(b.queue) > 0 {
		if err := b.ctx.Err(); err != nil {
			return op.Fail(op.Cancelled, "cancelled while blaming").Because(err)
		}
		s := heap.Pop(&b.queue).(*claim)
		delete(b.suspects, s.suspect)
		parents := s.c.ParentHashes
		if b.cut[s.commit] {
			parents = nil
		}
		if err := b.ask(s, parents, nil); err != nil {
			return err
		}
	}
	return nil
}

// put lets a suspect wait for its turn.
func (b *blamer) put(s *claim) {
	if old := b.suspects[s.suspect]; old != nil {
		old.lines = append(old.lines, s.lines...)
		return
	}
	b.count++
	s.n = b.count
	b.suspects[s.suspect] = s
	heap.Push(&b.queue, s)
}

// ask passes the lines of a suspect on to the parents that have them; the rest are its own.
// text is that of the work tree, else nil.
func (b *blamer) ask(s *claim, parents []plumbing.Hash, text []byte) error {
	before := make([]*claim, len(parents))
	hash := s.blob
	if s.c == nil {
		hash = blobHash(text)
	}
	for _, find := range []func(*claim, *object.Commit) (*claim, error){b.samePath, b.otherPath} {
		for i, h := range parents {
			if before[i] != nil {
				continue
			}
			p, err := b.r.store.commit(h)
			if err != nil {
				return err
			}
			o, err := find(s, p)
			if err != nil {
				return err
			}
			if o == nil {
				continue
			}
			if o.blob == hash {
				o.lines = s.lines
				b.put(o)
				return nil
			}
			twin := false
			for _, other := range before {
				twin = twin || other != nil && other.blob == o.blob
			}
			if !twin {
				before[i] = o
			}
		}
	}
	for _, o := range before {
		if o == nil || len(s.lines) == 0 {
			continue
		}
		if text == nil {
			var err error
			if text, err = b.r.store.blob(s.blob); err != nil {
				return err
			}
		}
		if err := b.pass(s, o, text); err != nil {
			return err
		}
	}
	for _, l := range s.lines {
		b.answer[l.final] = origin{s.suspect, l.here}
	}
	return nil
}

// pass gives an older file the lines that it has.
func (b *blamer) pass(s, to *claim, text []byte) error {
	old, err := b.r.store.blob(to.blob)
	if err != nil {
		return err
	}
	left, right := withoutTail(old, text)
	l, r := cut(left), cut(right)
	spans := align(l, r)
	var rest []pending
	for _, p := range s.lines {
		shift, changed := 0, false
		for _, sp := range spans {
			if p.here >= sp.b1 {
				shift = sp.a1 - sp.b1
				continue
			}
			changed = p.here >= sp.b0
			break
		}
		if changed {
			rest = append(rest, p)
			continue
		}
		to.lines = append(to.lines, pending{p.final, p.here + shift})
	}
	s.lines = rest
	if len(to.lines) > 0 {
		b.put(to)
	}
	return nil
}

// withoutTail leaves off what two texts end with alike, in blocks, as git does before it
// compares without context; a change cannot slide into what was left off.
func withoutTail(a, b []byte) ([]byte, []byte) {
	const block = 1024
	n, least := 0, min(len(a), len(b))
	for n+block <= least && bytes.Equal(a[len(a)-n-block:len(a)-n], b[len(b)-n-block:len(b)-n]) {
		n += block
	}
	back := 0
	for back < n {
		back++
		if a[len(a)-n+back-1] == '\n' {
			break
		}
	}
	return a[:len(a)-n+back], b[:len(b)-n+back]
}

func (b *blamer) samePath(s *claim, p *object.Commit) (*claim, error) {
	name := s.path
	if s.c == nil && p.Hash == b.parents[0] {
		name = b.moved
	}
	at, err := b.r.lookup(p.TreeHash, name)
	if err != nil || !at.exists() || at.mode == filemode.Dir || at.mode == filemode.Submodule {
		return nil, err
	}
	return &claim{suspect: suspect{p.Hash, name}, c: p, blob: at.hash}, nil
}

// otherPath finds what a file that came with a commit was called before.
func (b *blamer) otherPath(s *claim, p *object.Commit) (*claim, error) {
	if s.c == nil {
		return nil, nil
	}
	if at, err := b.r.lookup(p.TreeHash, s.path); err != nil || at.exists() {
		return nil, err
	}
	c := &compare{r: b.r}
	if err := c.trees(p.TreeHash, s.c.TreeHash, ""); err != nil {
		return nil, err
	}
	list, err := detect(sorted(c.out), b.r.reader(b.ctx, nil))
	if err != nil {
		return nil, err
	}
	for _, c := range list {
		if c.path == s.path && c.from != "" {
			return &claim{suspect: suspect{p.Hash, c.from}, c: p, blob: c.old.hash}, nil
		}
	}
	return nil, nil
}

// result words the origins: lines of one commit that stood together there are one entry.
func (b *blamer) result(first, last int) (map[string]any, error) {
	commits, list := map[string]any{}, []map[string]any{}
	out := map[string]any{"repository": op.Escape(string(b.r.top.path)), "path": b.r.show(b.first.path), "total_lines": len(b.lines), "commits": commits}
	size := 0
	for i := first - 1; i < last; {
		o, j := b.answer[i], i+1
		for j < last && b.answer[j].suspect == o.suspect && b.answer[j].line == o.line+j-i {
			j++
		}
		text, escaped := shownText(string(bytes.Join(b.lines[i:j], nil)))
		if size += len(text); size > usualBytes/2 && i > first-1 {
			out["next"], out["next_arg"], out["truncated"] = i+1, "start_line", "output"
			break
		}
		m := map[string]any{"line": i + 1, "end_line": j, "text": text}
		if escaped {
			m["escaped"] = true
		}
		if o.commit.IsZero() {
			m["uncommitted"] = true
		} else {
			m["commit"], m["from_line"] = o.commit.String(), o.line+1
			if o.path != b.first.path {
				m["from"] = b.r.show(o.path)
			}
			if commits[o.commit.String()] == nil {
				c, err := b.r.store.commit(o.commit)
				if err != nil {
					return nil, err
				}
				about := summary(c)
				commits[o.commit.String()] = map[string]any{"author": about["author"], "subject": about["subject"], "date": about["committer"].(map[string]any)["date"]}
			}
		}
		list = append(list, m)
		i = j
	}
	out["lines"] = list
	return out, nil
}

type claims []*claim

func (q claims) Len() int { return len(q) }
func (q claims) Less(i, j int) bool {
	a, b := q[i].c.Committer.When, q[j].c.Committer.When
	return a.After(b) || a.Equal(b) && q[i].n < q[j].n
}
func (q claims) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *claims) Push(x any)   { *q = append(*q, x.(*claim)) }
func (q *claims) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
