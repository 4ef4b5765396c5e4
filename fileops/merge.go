package fileops

import (
	"bytes"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// Merge takes the step from base to theirs on what ours made of base, line by line. It
// reports false where both changed the same lines, and then gives nothing.
//
// Both sides may change neighbouring lines; both inserting at one place is overlap. Where
// ours differs from base in white space only, as after a formatter, the lines are those of
// base to everybody's mind, and theirs stand.
func Merge(base, ours, theirs []byte) ([]byte, bool) {
	b, o, t := splitLines(base), splitLines(ours), splitLines(theirs)
	left, right := changes(b, o), changes(b, t)
	var out bytes.Buffer
	at := 0 // lines of base done
	for len(left) > 0 || len(right) > 0 {
		l, r, from, to := touching(&left, &right)
		putLines(&out, b[at:from])
		at = to
		mine, other := sideOf(o, l, b, from, to), sideOf(t, r, b, from, to)
		was := b[from:to]
		switch {
		case len(r) == 0:
			putLines(&out, mine)
		case len(l) == 0, sameLines(mine, other), sameButSpace(mine, was):
			putLines(&out, other)
		default:
			return nil, false
		}
	}
	putLines(&out, b[at:])
	return out.Bytes(), true
}

// touching takes off both lists the next changes that touch the same lines of base, and
// gives those lines.
func touching(left, right *[]change) (l, r []change, from, to int) {
	from = -1
	for {
		a, isLeft := nextChange(*left, *right)
		if a == nil || from >= 0 && !meets(*a, isLeft, l, r, from, to) {
			return l, r, from, to
		}
		if from < 0 {
			from, to = a.x0, a.x1
		}
		to = max(to, a.x1)
		if isLeft {
			l, *left = append(l, *a), (*left)[1:]
		} else {
			r, *right = append(r, *a), (*right)[1:]
		}
	}
}

func nextChange(left, right []change) (*change, bool) {
	switch {
	case len(left) == 0 && len(right) == 0:
		return nil, false
	case len(right) == 0, len(left) > 0 && before(left[0], right[0]):
		return &left[0], true
	}
	return &right[0], false
}

// before orders changes; what is inserted at a line goes before what is made of that line.
func before(a, b change) bool { return a.x0 < b.x0 || a.x0 == b.x0 && a.x1 <= b.x1 }

// meets reports whether a change lies among the lines of a cluster that holds changes of
// the other side: it shares a line with it, or both insert at one place.
func meets(c change, isLeft bool, l, r []change, from, to int) bool {
	others := l
	if isLeft {
		others = r
	}
	if c.x0 < to {
		return true
	}
	for _, o := range others {
		if c.x0 == c.x1 && o.x0 == o.x1 && c.x0 == o.x0 {
			return true
		}
	}
	return false
}

// sideOf gives what one side made of lines from to to of base.
func sideOf(lines [][]byte, list []change, base [][]byte, from, to int) [][]byte {
	var out [][]byte
	at := from
	for _, c := range list {
		out = append(out, base[at:c.x0]...)
		out = append(out, lines[c.y0:c.y1]...)
		at = c.x1
	}
	return append(out, base[at:to]...)
}

func putLines(out *bytes.Buffer, lines [][]byte) {
	for _, l := range lines {
		out.Write(l)
	}
}

func sameLines(a, b [][]byte) bool { return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) }

// sameButSpace compares without white space; lines that hold nothing else count for none.
func sameButSpace(a, b [][]byte) bool {
	x, y := bytes.Join(bytes.Fields(bytes.Join(a, nil)), nil), bytes.Join(bytes.Fields(bytes.Join(b, nil)), nil)
	return len(x) > 0 && bytes.Equal(x, y)
}

// After gives what a change made of a file, from what was there before and the diff that
// was kept of it. ok is false when the result is not the one with this digest: the diff
// was cut, or shows text that is not as it was stored.
func After(path op.Path, old, diff []byte, want op.Digest) (after []byte, ok bool) {
	for _, exists := range []bool{true, false} {
		head := []byte("--- " + heading("a/", Side{Path: path, Exists: exists}) + "\n+++ " + heading("b/", Side{Path: path, Exists: true}) + "\n")
		for from := 0; ; {
			i := bytes.Index(diff[from:], head)
			if i < 0 {
				break
			}
			from += i + len(head)
			if i > 0 && diff[from-len(head)-1] != '\n' {
				continue
			}
			if out, ok := followHunks(old, diff[from:]); ok && rooted.HashBytes(out) == want {
				return out, true
			}
		}
	}
	return nil, rooted.HashBytes(nil) == want && len(old) == 0
}

// followHunks applies hunks of our own making, exactly where they say, up to the first line
// that belongs to none.
func followHunks(old, hunks []byte) ([]byte, bool) {
	x := splitLines(old)
	var out bytes.Buffer
	at := 0
	for bytes.HasPrefix(hunks, []byte("@@ ")) {
		var x0, nx, y0, ny int
		if _, err := fmt.Sscanf(string(hunks[:min(len(hunks), 80)]), "@@ -%d,%d +%d,%d @@", &x0, &nx, &y0, &ny); err != nil {
			return nil, false
		}
		if nx > 0 {
			x0--
		}
		if x0 < at || x0+nx > len(x) {
			return nil, false
		}
		putLines(&out, x[at:x0])
		at = x0 + nx
		hunks = hunks[bytes.IndexByte(hunks, '\n')+1:]
		for nx > 0 || ny > 0 {
			end := bytes.IndexByte(hunks, '\n') + 1
			if end < 2 {
				return nil, false
			}
			line := hunks[:end]
			hunks = hunks[end:]
			text := line[1:]
			if bytes.HasPrefix(hunks, []byte(`\ `)) {
				text = text[:len(text)-1]
				hunks = hunks[bytes.IndexByte(hunks, '\n')+1:]
			}
			switch line[0] {
			case ' ':
				nx, ny = nx-1, ny-1
				out.Write(text)
			case '-':
				nx--
			case '+':
				ny--
				out.Write(text)
			default:
				return nil, false
			}
		}
	}
	putLines(&out, x[at:])
	return out.Bytes(), true
}
