package gitread

import (
	"cmp"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

const (
	alike       = 30000 // half of fullScore: what counts as the same file
	alikeByName = 45000 // of the only files of one base name
	fullScore   = 60000
	renameLimit = 1000 // sources times targets, squared: beyond, only equal files are paired
	candidates  = 4    // sources kept for one target
)

// renames joins what went and what came where the bytes are alike, as git does: equal
// ones first, then the only files of one base name, then the best of all.
type renames struct {
	read func(side, string) ([]byte, error)
	gone []change
	came []change
	from map[int]int // of came: which of gone it was
	rate map[int]int
	used map[int]bool
	sums map[string]chunks
	err  error
}

// detect replaces pairs of a deletion and an addition by renames.
func detect(list []change, read func(side, string) ([]byte, error)) ([]change, error) {
	n := &renames{read: read, from: map[int]int{}, rate: map[int]int{}, used: map[int]bool{}, sums: map[string]chunks{}}
	var rest []change
	for _, c := range list {
		switch {
		case !c.new.exists() && c.old.mode != filemode.Submodule:
			n.gone = append(n.gone, c)
		case !c.old.exists() && c.new.mode != filemode.Submodule && c.new.hash != emptyBlob:
			n.came = append(n.came, c)
		default:
			rest = append(rest, c)
		}
	}
	if len(n.gone) == 0 || len(n.came) == 0 {
		return list, nil
	}
	n.exact()
	if (len(n.gone)-len(n.used))*(len(n.came)-len(n.from)) > 0 {
		n.byName()
		n.best()
	}
	if n.err != nil {
		return nil, n.err
	}
	for i, c := range n.came {
		if g, ok := n.from[i]; ok {
			c.from, c.old, c.score = n.gone[g].path, n.gone[g].old, n.rate[i]*100/fullScore
		}
		rest = append(rest, c)
	}
	for i, c := range n.gone {
		if !n.used[i] {
			rest = append(rest, c)
		}
	}
	return sorted(rest), nil
}

var emptyBlob = plumbing.NewHash("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")

func (n *renames) pair(came, gone, score int) {
	n.from[came], n.rate[came], n.used[gone] = gone, score, true
}

// exact pairs equal files; of several sources one with the same base name.
func (n *renames) exact() {
	by := map[plumbing.Hash][]int{}
	for i, c := range n.gone {
		by[c.old.hash] = append(by[c.old.hash], i)
	}
	for i, c := range n.came {
		best, score := -1, -1
		for _, g := range by[c.new.hash] {
			old := n.gone[g]
			if typeOf(old.old.mode) != typeOf(c.new.mode) {
				continue
			}
			s := 0
			if !n.used[g] {
				s++
			}
			if path.Base(old.path) == path.Base(c.path) {
				s++
			}
			if n.used[g] {
				continue
			}
			if s > score {
				best, score = g, s
			}
		}
		if best >= 0 {
			n.pair(i, best, fullScore)
		}
	}
}

func (n *renames) byName() {
	gone, came := map[string]int{}, map[string]int{}
	index := func(list []change, skip func(int) bool, out map[string]int) {
		for i, c := range list {
			if skip(i) {
				continue
			}
			name := path.Base(c.path)
			if _, twice := out[name]; twice {
				out[name] = -1
			} else {
				out[name] = i
			}
		}
	}
	index(n.gone, func(i int) bool { return n.used[i] }, gone)
	index(n.came, func(i int) bool { _, ok := n.from[i]; return ok }, came)
	for i, c := range n.came {
		name := path.Base(c.path)
		j, ok := came[name]
		g, there := gone[name]
		if !ok || j != i || !there || g < 0 {
			continue
		}
		if s := n.score(n.gone[g], c, alikeByName); s >= alikeByName {
			n.pair(i, g, s)
		}
	}
}

func (n *renames) best() {
	var gone, came []int
	for i := range n.gone {
		if !n.used[i] {
			gone = append(gone, i)
		}
	}
	for i := range n.came {
		if _, ok := n.from[i]; !ok {
			came = append(came, i)
		}
	}
	if len(gone)*len(came) > renameLimit*renameLimit {
		return
	}
	type found struct{ came, gone, score, name int }
	var all []found
	for _, i := range came {
		var few []found
		for _, g := range gone {
			f := found{i, g, n.score(n.gone[g], n.came[i], alike), 0}
			if path.Base(n.gone[g].path) == path.Base(n.came[i].path) {
				f.name = 1
			}
			if f.score >= alike {
				few = append(few, f)
			}
		}
		slices.SortStableFunc(few, func(a, b found) int { return cmp.Or(b.score-a.score, b.name-a.name) })
		all = append(all, few[:min(len(few), candidates)]...)
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Or(b.score-a.score, b.name-a.name) })
	for _, f := range all {
		if _, ok := n.from[f.came]; !ok && !n.used[f.gone] {
			n.pair(f.came, f.gone, f.score)
		}
	}
}

// score says how much of the larger file both have.
func (n *renames) score(old, new change, least int) int {
	if n.err != nil || typeOf(old.old.mode) != typeOf(filemode.Regular) || typeOf(new.new.mode) != typeOf(filemode.Regular) {
		return 0
	}
	a, b := n.chunks(old.old, old.path), n.chunks(new.new, new.path)
	most, few := max(a.size, b.size), min(a.size, b.size)
	if most == 0 || few == 0 || most*(fullScore-least) < (most-few)*fullScore {
		return 0
	}
	shared := 0
	for text, size := range a.bytes {
		shared += min(size, b.bytes[text])
	}
	return shared * fullScore / most
}

type chunks struct {
	size  int
	bytes map[string]int
}

// chunks cuts a file into its lines, and those into pieces of 64 bytes.
func (n *renames) chunks(s side, at string) chunks {
	key := s.hash.String() + at
	if c, ok := n.sums[key]; ok {
		return c
	}
	b, err := n.read(s, at)
	if err != nil {
		n.err = err
	}
	c := chunks{len(b), map[string]int{}}
	text := !hasNUL(b)
	var piece []byte
	for i, ch := range b {
		if text && ch == '\r' && i+1 < len(b) && b[i+1] == '\n' {
			continue
		}
		piece = append(piece, ch)
		if ch == '\n' || len(piece) == 64 {
			c.bytes[string(piece)] += len(piece)
			piece = piece[:0]
		}
	}
	if len(piece) > 0 {
		c.bytes[string(piece)] += len(piece)
	}
	n.sums[key] = c
	return c
}

// hasNUL is how git tells a binary file: by a NUL among the first 8,000 bytes.
func hasNUL(b []byte) bool { return slices.Contains(b[:min(len(b), 8000)], 0) }
