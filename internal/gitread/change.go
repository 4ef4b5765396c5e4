package gitread

import (
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// side is what stands at a path on one side of a comparison; mode 0 is nothing.
type side struct {
	hash plumbing.Hash
	mode filemode.FileMode
	live bool // its bytes are those of the work tree
}

func (s side) exists() bool { return s.mode != 0 }

// change is one path that differs.
type change struct {
	path, from string // from: where it was before a rename
	old, new   side
	score      int // of a rename: how alike in percent
}

// letter is git's word for the kind of change.
func (c change) letter() string {
	switch {
	case c.from != "":
		return "R"
	case !c.old.exists():
		return "A"
	case !c.new.exists():
		return "D"
	case typeOf(c.old.mode) != typeOf(c.new.mode):
		return "T"
	}
	return "M"
}

func typeOf(m filemode.FileMode) filemode.FileMode { return m & 0o170000 }

func sorted(list []change) []change {
	sort.Slice(list, func(i, j int) bool { return list[i].path < list[j].path })
	return list
}

func below(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// compare walks trees and index and collects what differs and is asked for.
type compare struct {
	r     *repo
	specs pathspecs
	out   []change
	steps int // names that were looked at
}

const (
	// longest bounds a path in a commit, and so how deep its trees go.
	longest = 4096
	// mostSteps bounds the names that one comparison looks at: a few small trees, each twice
	// in the one above, can hold more names than could ever be told.
	mostSteps = 1_000_000
)

// step counts names before they are looked at.
func (c *compare) step(dir string, names int) error {
	if c.steps += names + 1; c.steps > mostSteps {
		return unsupported("more than 1,000,000 names would have to be compared")
	}
	if len(dir) > longest {
		return unsupported("a path of a commit is longer than 4,096 bytes")
	}
	return nil
}

// wants judges a path below the top by the pathspecs, which count from the root.
func (c *compare) wants(p string) bool { return c.specs.match(c.r.full(p)) }
func (c *compare) enters(dir string) bool {
	return dir == "" || c.specs.within(c.r.full(dir))
}

// full gives a path from the workspace's root.
func (r *repo) full(p string) string { return string(r.top.join(p).path) }

// trees compares two trees.
func (c *compare) trees(a, b plumbing.Hash, dir string) error {
	if a == b || !c.enters(dir) {
		return nil
	}
	left, err := c.r.store.tree(a)
	if err != nil {
		return err
	}
	right, err := c.r.store.tree(b)
	if err != nil {
		return err
	}
	if err := c.step(dir, len(left)+len(right)); err != nil {
		return err
	}
	type pair struct{ old, new side }
	both := make(map[string]pair, len(left))
	for _, e := range left {
		both[e.Name] = pair{old: side{hash: e.Hash, mode: e.Mode}}
	}
	for _, e := range right {
		p := both[e.Name]
		p.new = side{hash: e.Hash, mode: e.Mode}
		both[e.Name] = p
	}
	for name, p := range both {
		if p.old == p.new {
			continue
		}
		at := below(dir, name)
		var sub [2]plumbing.Hash
		for i, s := range []*side{&p.old, &p.new} {
			if s.mode == filemode.Dir {
				sub[i], *s = s.hash, side{}
			}
		}
		if !sub[0].IsZero() || !sub[1].IsZero() {
			if err := c.trees(sub[0], sub[1], at); err != nil {
				return err
			}
		}
		if (p.old.exists() || p.new.exists()) && c.wants(at) {
			c.out = append(c.out, change{path: at, old: p.old, new: p.new})
		}
	}
	return nil
}

// tree compares a tree with the part of the index that lies below a directory.
func (c *compare) tree(x *index, t plumbing.Hash, dir string, list []entry) error {
	if known, ok := x.trees[dir]; ok && known.hash == t && known.count == len(list) || !c.enters(dir) {
		return nil
	}
	left, err := c.r.store.tree(t)
	if err != nil {
		return err
	}
	if err := c.step(dir, len(left)); err != nil {
		return err
	}
	subs := map[string]plumbing.Hash{}
	old := map[string]side{}
	for _, e := range left {
		if e.Mode == filemode.Dir {
			subs[e.Name] = e.Hash
		} else {
			old[e.Name] = side{hash: e.Hash, mode: e.Mode}
		}
	}
	put := func(name string, o, n side) {
		if at := below(dir, name); o != n && c.wants(at) {
			c.out = append(c.out, change{path: at, old: o, new: n})
		}
	}
	for _, g := range groups(dir, list) {
		if g.dir {
			if err := c.tree(x, subs[g.name], below(dir, g.name), g.list); err != nil {
				return err
			}
			delete(subs, g.name)
			continue
		}
		e := g.list[0]
		o := old[g.name]
		delete(old, g.name)
		switch {
		case e.stage != 0:
		case e.intent:
			put(g.name, o, side{})
		default:
			put(g.name, o, side{hash: e.hash, mode: e.mode})
		}
	}
	for name, o := range old {
		put(name, o, side{})
	}
	for name, h := range subs {
		if err := c.trees(h, plumbing.ZeroHash, below(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// group is what the index holds of one name in a directory: a file in one or more stages,
// or all that lies below a directory.
type group struct {
	name string
	dir  bool
	list []entry
}

func groups(dir string, list []entry) (out []group) {
	skip := len(dir)
	if skip > 0 {
		skip++
	}
	for i := 0; i < len(list); {
		name, _, isDir := strings.Cut(list[i].path[skip:], "/")
		j := i + 1
		head := below(dir, name)
		for j < len(list) && strings.HasPrefix(list[j].path, head) && (isDir && list[j].path[len(head):] != "" && list[j].path[len(head)] == '/' || !isDir && len(list[j].path) == len(head)) {
			j++
		}
		out = append(out, group{name, isDir, list[i:j]})
		i = j
	}
	return out
}
