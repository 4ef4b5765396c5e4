package protected

import (
	"slices"
	"strings"
)

// A glob is a row of tokens. Matching walks the text once and keeps the set of tokens
// that may come next, so its time is at most length of text times length of pattern.
type glob struct {
	tokens []token
	exact  bool   // no wildcard: head is all of it
	head   string // bytes every match begins with
	tail   string // bytes every match ends with
	need   int    // bytes that every match has
}

type kind uint8

const (
	lit    kind = iota // the one byte b
	one                // ?, any byte but a slash
	set                // [...], a byte of class
	star               // *, any run without a slash
	deep               // **, any run
	depth              // **/, nothing or any run that ends in a slash; always before
	inside             // the run itself
)

type token struct {
	kind  kind
	b     byte
	class *class
}

// tokenise reads the wildcards of a pattern as git does; false when the pattern is
// malformed and matches nothing.
func tokenise(p string, fold bool) ([]token, bool) {
	plain := len(p) // git compares the part before the first special character by itself
	if i := strings.IndexAny(p, `*?[\`); i >= 0 {
		plain = i
	}
	var out []token
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '?':
			out = append(out, token{kind: one})
		case '\\':
			if i++; i == len(p) {
				return nil, false
			}
			out = append(out, token{kind: lit, b: p[i]})
		case '[':
			c, end := parseClass(p, i, fold)
			if c == nil {
				return nil, false
			}
			out = append(out, token{kind: set, class: c})
			i = end
		case '*':
			begin := i
			for i+1 < len(p) && p[i+1] == '*' {
				i++
			}
			rest := p[i+1:]
			// Two stars span directories when they stand alone between slashes. "Alone"
			// is also where the plain part ended: foo**/bar reads as foo and **/bar.
			alone := i > begin && (begin == plain || begin == 0 || p[begin-1] == '/')
			switch {
			case alone && strings.HasPrefix(rest, "/"):
				// **/**/ says what **/ says.
				if len(out) == 0 || out[len(out)-1].kind != inside {
					out = append(out, token{kind: depth}, token{kind: inside})
				}
				i++
			case alone && (rest == "" || strings.HasPrefix(rest, `\/`)):
				out = append(out, token{kind: deep})
			default:
				out = append(out, token{kind: star})
			}
		default:
			out = append(out, token{kind: lit, b: p[i]})
		}
	}
	return out, true
}

func newGlob(tokens []token) glob {
	var head, tail []byte
	for _, t := range tokens {
		if t.kind != lit {
			break
		}
		head = append(head, t.b)
	}
	for i := len(tokens) - 1; i >= 0 && tokens[i].kind == lit; i-- {
		tail = append(tail, tokens[i].b)
	}
	slices.Reverse(tail)
	need := 0
	for _, t := range tokens {
		if t.kind <= set {
			need++
		}
	}
	return glob{tokens: tokens, exact: len(head) == len(tokens), head: string(head), tail: string(tail), need: need}
}

func (g *glob) match(text string) bool {
	if g.exact {
		return text == g.head
	}
	if len(text) < g.need || !strings.HasPrefix(text, g.head) || !strings.HasSuffix(text, g.tail) {
		return false
	}
	tokens := g.tokens[len(g.head) : len(g.tokens)-len(g.tail)]
	text = text[len(g.head) : len(text)-len(g.tail)]
	switch {
	case len(tokens) == 1 && tokens[0].kind == star:
		return !strings.Contains(text, "/")
	case len(tokens) == 2 && tokens[0].kind == depth:
		return text == "" || strings.HasSuffix(text, "/")
	}
	if len(tokens) > fewTokens {
		return walkMany(tokens, text)
	}
	return walk(tokens, text)
}

// fewTokens is up to where walk is the faster one.
const fewTokens = 64

// walk is the general case. at[i] says that tokens[:i] match what was read so far.
func walk(tokens []token, text string) bool {
	var small [64]bool
	at := small[:]
	if len(tokens) >= len(small) {
		at = make([]bool, len(tokens)+1)
	}
	at = at[:len(tokens)+1]
	at[0] = true
	pass(tokens, at)
	for i := 0; i < len(text); i++ {
		c, alive := text[i], false
		for j := len(tokens); j >= 0; j-- {
			// From the back, so that at[j-1] is still that of the byte before.
			stays := at[j] && j < len(tokens) && tokens[j].loops(c)
			comes := j > 0 && at[j-1] && tokens[j-1].ends(c)
			at[j] = stays || comes
			alive = alive || at[j]
		}
		if !alive {
			return false
		}
		pass(tokens, at)
	}
	return at[len(tokens)]
}

// pass lets wildcards stand for nothing.
func pass(tokens []token, at []bool) {
	for j, t := range tokens {
		switch {
		case !at[j]:
		case t.kind == star, t.kind == deep:
			at[j+1] = true
		case t.kind == depth:
			at[j+1], at[j+2] = true, true
		}
	}
}

// loops: t takes c and may take more.
func (t token) loops(c byte) bool {
	return t.kind == deep || t.kind == inside || t.kind == star && c != '/'
}

// ends: t takes c as its last byte.
func (t token) ends(c byte) bool {
	switch t.kind {
	case lit:
		return c == t.b
	case one:
		return c != '/'
	case set:
		return t.class.has(c)
	case inside:
		return c == '/'
	}
	return false // star, deep and depth are left through pass
}

// row is a set of tokens, a bit for each.
type row []uint64

func (r row) put(j int) { r[j/64] |= 1 << (j % 64) }

// move adds the tokens of r that are in mask to into, each by so many places further on; it
// reports whether into has more than before.
func (r row) move(mask, into row, by int) (more bool) {
	carry := uint64(0)
	for w := range r {
		from := r[w] & mask[w]
		add := (from<<by | carry) &^ into[w]
		into[w] |= add
		carry, more = from>>(64-by), more || add != 0
	}
	return more
}

// walkMany is walk with sixty-four tokens at a time: patterns come from whoever wrote the
// workspace's ignore files, and a long one is compared with long paths and all above them.
func walkMany(tokens []token, text string) bool {
	words := len(tokens)/64 + 1
	now, next := make(row, words), make(row, words)
	free, skip := make(row, words), make(row, words)
	var loops, ends [256]row
	for j, t := range tokens {
		if t.kind == star || t.kind == deep || t.kind == depth {
			free.put(j)
		}
		if t.kind == depth {
			skip.put(j)
		}
	}
	pass := func(at row) {
		for more := true; more; {
			more = at.move(free, at, 1)
			more = at.move(skip, at, 2) || more
		}
	}
	now.put(0)
	pass(now)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if loops[c] == nil {
			loops[c], ends[c] = make(row, words), make(row, words)
			for j, t := range tokens {
				if t.loops(c) {
					loops[c].put(j)
				}
				if t.ends(c) {
					ends[c].put(j)
				}
			}
		}
		// Most of a long pattern is out of reach: a byte and what stands for nothing lead
		// into the next word at most.
		top := words - 1
		for top >= 0 && now[top] == 0 {
			top--
		}
		if top < 0 {
			return false
		}
		live := now[:min(top+2, words)]
		clear(next)
		for w := range live {
			next[w] = live[w] & loops[c][w]
		}
		live.move(ends[c], next, 1)
		now, next = next, now
		pass(now[:len(live)])
	}
	return now[len(tokens)/64]>>(len(tokens)%64)&1 == 1
}
