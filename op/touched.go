package op

// Touched is what steps work on, so that of a long list each step can be asked whether it
// stands on an earlier one. The zero value is empty.
type Touched struct {
	at, above map[Path]bool // the paths themselves, and every directory above one
}

// Add takes one more step in.
func (t *Touched) Add(s Step) {
	if t.at == nil {
		t.at, t.above = map[Path]bool{}, map[Path]bool{}
	}
	for _, p := range []Path{s.Path, s.To} {
		if p == "" {
			continue
		}
		t.at[p] = true
		for up := p.Parent(); !t.above[up]; up = up.Parent() {
			t.above[up] = true
		}
	}
}

// By reports whether a step works on, above or below what was added.
func (t *Touched) By(s Step) bool { return t.near(s.Path) || t.near(s.To) }

func (t *Touched) near(p Path) bool {
	if p == "" || len(t.at) == 0 {
		return false
	}
	if t.at[p] || t.above[p] {
		return true
	}
	for p != "." {
		if p = p.Parent(); t.at[p] {
			return true
		}
	}
	return false
}
