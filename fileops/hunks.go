package fileops

import (
	"bytes"
	"fmt"

	godiff "github.com/rogpeppe/go-internal/diff"
)

// change says that lines x0 to x1 of the old text became lines y0 to y1 of the new.
type change struct{ x0, x1, y0, y1 int }

// hunks gives a unified diff without its head, and its counts.
func hunks(old, new []byte, context int) ([]byte, Diff) {
	pre, post := common(old, new, context)
	skipped := bytes.Count(old[:pre], []byte{'\n'})
	old, new = old[pre:len(old)-post], new[pre:len(new)-post]
	x, y := splitLines(old), splitLines(new)
	list := changes(x, y)
	var out bytes.Buffer
	var d Diff
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].x0-list[n-1].x1 < 2*context {
			n++
		}
		writeHunk(&out, x, y, list[:n], context, skipped)
		list = list[n:]
	}
	for line := range bytes.Lines(out.Bytes()) {
		switch line[0] {
		case '+':
			d.Added++
		case '-':
			d.Removed++
		}
	}
	return out.Bytes(), d
}

// maxDiffLines bounds the lines that are compared, of both sides together: each takes some
// hundred bytes of memory, whatever it holds.
const maxDiffLines = 1_000_000

func manyLines(old, new []byte, context int) bool {
	if len(old)+len(new) <= maxDiffLines {
		return false
	}
	pre, post := common(old, new, context)
	lf := []byte{'\n'}
	return bytes.Count(old[pre:len(old)-post], lf)+bytes.Count(new[pre:len(new)-post], lf) > maxDiffLines
}

// common measures how many bytes at the start and at the end need no comparing: whole
// lines that both sides share, but for those shown as context. Without this an edit of
// one line in a large file would cost time and memory for each of its lines.
func common(a, b []byte, context int) (pre, post int) {
	n := min(len(a), len(b))
	for pre+4096 <= n && bytes.Equal(a[pre:pre+4096], b[pre:pre+4096]) {
		pre += 4096
	}
	for pre < n && a[pre] == b[pre] {
		pre++
	}
	n -= pre // the two ends must not overlap
	for post+4096 <= n && bytes.Equal(a[len(a)-post-4096:len(a)-post], b[len(b)-post-4096:len(b)-post]) {
		post += 4096
	}
	for post < n && a[len(a)-1-post] == b[len(b)-1-post] {
		post++
	}
	// Back to the start of a line, and past the lines of context before it. The line that
	// differs may begin before pre, so one more newline is gone back over.
	for range context + 1 {
		pre = bytes.LastIndexByte(a[:pre], '\n')
		if pre < 0 {
			pre = 0
			break
		}
	}
	if pre > 0 {
		pre++
	}
	// The rest of the line that differs, and the lines of context after it.
	tail := a[len(a)-post:]
	for range context + 1 {
		i := bytes.IndexByte(tail, '\n')
		if i < 0 {
			return pre, 0
		}
		tail = tail[i+1:]
	}
	return pre, len(tail)
}

// anchored finds the changes by lines that are unique on both sides, reading them out of
// the diff that the package makes. Each of its lines begins with a mark, so that no
// content can pass for a heading.
func anchored(left, right [][]byte) []change {
	text := godiff.Diff("a", bytes.Join(left, nil), "b", bytes.Join(right, nil))
	text = text[max(bytes.Index(text, []byte("@@ ")), 0):] // past the three lines of its head
	var out []change
	var x, y int
	open := false
	for line := range bytes.Lines(text) {
		switch {
		case bytes.HasPrefix(line, []byte("@@ ")):
			var nx, ny int
			if _, err := fmt.Sscanf(string(line), "@@ -%d,%d +%d,%d @@", &x, &nx, &y, &ny); err != nil {
				panic("fileops: internal error: malformed heading in a diff of our own")
			}
			if nx > 0 {
				x--
			}
			if ny > 0 {
				y--
			}
			open = false
		case line[0] == ' ':
			x, y, open = x+1, y+1, false
		case line[0] == '-' || line[0] == '+':
			if !open {
				out = append(out, change{x, x, y, y})
				open = true
			}
			c := &out[len(out)-1]
			if line[0] == '-' {
				x++
				c.x1 = x
			} else {
				y++
				c.y1 = y
			}
		}
	}
	return out
}

// writeHunk renders neighbouring changes with the lines around them.
func writeHunk(out *bytes.Buffer, x, y [][]byte, list []change, context, skipped int) {
	first, last := list[0], list[len(list)-1]
	lead := min(context, first.x0)
	tail := min(context, len(x)-last.x1)
	x0, y0 := first.x0-lead, first.y0-lead
	nx, ny := last.x1+tail-x0, last.y1+tail-y0
	at := func(start, n int) int {
		if n > 0 {
			start++
		}
		return start + skipped
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", at(x0, nx), nx, at(y0, ny), ny)
	from := x0
	for _, c := range list {
		writeLines(out, ' ', x[from:c.x0])
		writeLines(out, '-', x[c.x0:c.x1])
		writeLines(out, '+', y[c.y0:c.y1])
		from = c.x1
	}
	writeLines(out, ' ', x[from:last.x1+tail])
}

func writeLines(out *bytes.Buffer, mark byte, lines [][]byte) {
	for _, l := range lines {
		out.WriteByte(mark)
		out.Write(l)
		if l[len(l)-1] != '\n' {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// splitLines keeps the endings; there is no line after the last newline.
func splitLines(b []byte) [][]byte {
	out := make([][]byte, 0, bytes.Count(b, []byte{'\n'})+1)
	for l := range bytes.Lines(b) {
		out = append(out, l)
	}
	return out
}
