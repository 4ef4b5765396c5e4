package fileops

import (
	"bytes"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// needle is text that must stand somewhere in every match. With fold, letters match in
// both cases; it then holds only characters whose other case is one byte as well.
type needle struct {
	text []byte // lower case when fold
	fold bool
	rare int // index in text of the byte that is least likely in ordinary text
}

// maxNeedles bounds how many texts are looked for at once; beyond, looking for them costs
// what it saves.
const maxNeedles = 12

// needs gives texts of which at least one stands in every match of re, or nil where no
// such can be told. It is an aid to pass over files and lines quickly, never a judgement:
// what has a needle is still matched in full.
func needs(re *syntax.Regexp) []needle {
	switch re.Op {
	case syntax.OpLiteral:
		if n, ok := newNeedle(re.Rune, re.Flags&syntax.FoldCase != 0); ok {
			return []needle{n}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needs(re.Sub[0])
		}
	case syntax.OpConcat:
		var best []needle
		for _, sub := range re.Sub {
			if n := needs(sub); better(n, best) {
				best = n
			}
		}
		return best
	case syntax.OpAlternate:
		var all []needle
		for _, sub := range re.Sub {
			n := needs(sub)
			if n == nil || len(all)+len(n) > maxNeedles {
				return nil
			}
			all = append(all, n...)
		}
		return all
	}
	return nil
}

// better compares by the shortest text, since that one is found most often, then by how
// many there are.
func better(a, b []needle) bool {
	switch {
	case a == nil:
		return false
	case b == nil:
		return true
	case shortest(a) != shortest(b):
		return shortest(a) > shortest(b)
	}
	return len(a) < len(b)
}

func shortest(list []needle) int {
	n := len(list[0].text)
	for _, e := range list[1:] {
		n = min(n, len(e.text))
	}
	return n
}

// newNeedle takes of a literal what can be looked for byte by byte: all of it, or with
// fold the longest part whose letters have no case outside ASCII.
func newNeedle(runes []rune, fold bool) (needle, bool) {
	var best, part []byte
	for i, r := range append(runes[:len(runes):len(runes)], -1) {
		switch {
		case r < 0 || fold && !plainCase(r) || r == utf8.RuneError:
			// U+FFFD in a pattern also matches a byte that is not UTF-8.
			if len(part) > len(best) {
				best = part
			}
			part = nil
		case fold:
			part = utf8.AppendRune(part, unicode.ToLower(r))
		default:
			part = utf8.AppendRune(part, runes[i])
		}
	}
	if len(best) == 0 {
		return needle{}, false
	}
	n := needle{text: best, fold: fold && bytes.ContainsFunc(best, unicode.IsLetter)}
	for i, c := range best {
		if rank(c) < rank(best[n.rare]) {
			n.rare = i
		}
	}
	return n, true
}

// plainCase: the character has no other case, or one ASCII letter is the other case of
// another and nothing else is (K also stands for the Kelvin sign, S for the long s).
func plainCase(r rune) bool {
	other := unicode.SimpleFold(r)
	return other == r || r < utf8.RuneSelf && other < utf8.RuneSelf && unicode.SimpleFold(other) == r
}

// usual lists bytes from the most to the less frequent in source and prose; what is not
// in it is rare.
const usual = " etaoinsrlcdupmfhg\tbyvw.,_()=\"xk-:/;01{}'TSEACIRN2jzqPDLOM<>*#FB3U[]HG45&W86V97@$!+|\\%XY?`QJKZ~^"

func rank(c byte) int {
	if i := bytes.IndexByte([]byte(usual), c); i >= 0 {
		return len(usual) - i
	}
	return 0
}

// hunt finds needles in one text, going forward. It remembers where each needle, or its
// rare byte in each case, comes next, so that the text is read once for each.
type hunt struct {
	text    []byte
	needles []needle
	next    []int // of each needle: where it comes next, -1 unknown, len(text) never again
	byCase  [][2]int
}

func newHunt(needles []needle) *hunt {
	return &hunt{needles: needles, next: make([]int, len(needles)), byCase: make([][2]int, len(needles))}
}

// over begins anew with another text.
func (h *hunt) over(text []byte) {
	h.text = text
	for i := range h.next {
		h.next[i], h.byCase[i] = -1, [2]int{-1, -1}
	}
}

// from gives the first place at or after pos where a needle stands; -1 when none does.
func (h *hunt) from(pos int) int {
	least := len(h.text)
	for i := range h.needles {
		if h.next[i] < pos {
			h.next[i] = h.find(i, pos)
		}
		least = min(least, h.next[i])
	}
	if least == len(h.text) {
		return -1
	}
	return least
}

func (h *hunt) find(i, pos int) int {
	n := &h.needles[i]
	if !n.fold && len(h.needles) == 1 {
		if k := bytes.Index(h.text[pos:], n.text); k >= 0 {
			return pos + k
		}
		return len(h.text)
	}
	c := n.text[n.rare]
	cases, at := [2]byte{c, c}, &h.byCase[i]
	if n.fold && c < utf8.RuneSelf {
		cases[1] = byte(unicode.ToUpper(rune(c)))
	}
	for p := pos + n.rare; ; p++ {
		for k := range cases {
			if at[k] >= p {
				continue
			}
			at[k] = len(h.text)
			if k == 1 && cases[1] == cases[0] {
				continue
			}
			if j := bytes.IndexByte(h.text[min(p, len(h.text)):], cases[k]); j >= 0 {
				at[k] = p + j
			}
		}
		p = min(at[0], at[1])
		begin := p - n.rare
		if begin+len(n.text) > len(h.text) {
			return len(h.text)
		}
		here := h.text[begin : begin+len(n.text)]
		if n.fold && foldsTo(here, n.text) || !n.fold && string(here) == string(n.text) {
			return begin
		}
	}
}

// foldsTo compares bytes with lower-case ones.
func foldsTo(b, lower []byte) bool {
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
