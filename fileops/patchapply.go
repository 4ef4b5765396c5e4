package fileops

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdpoint/op"
)

// applyHunks gives the new content of a file. Each hunk goes where its heading says if its
// lines stand there, else to the one other place after the hunk before where they do. Its
// lines are compared byte for byte, endings included, and none is ever dropped: a hunk
// that fits nowhere, or several places, changes nothing.
func applyHunks(old []byte, f filePatch) ([]byte, []op.Warning, error) {
	if bytes.Count(old, []byte{'\n'}) > maxPatchedLines {
		return nil, nil, op.Fail(op.TooLarge, "the file has more than 10,000,000 lines, which is more than a patch is looked for in").Do("change it with edit_file")
	}
	lines := splitLines(old)
	var out bytes.Buffer
	var warnings []op.Warning
	from := 0
	for i, h := range f.hunks {
		want := h.side('-')
		at, err := h.place(lines, want, from, f)
		if err != nil {
			e := op.AsError(err)
			e.Message = fmt.Sprintf("hunk %d (line %d of the patch): %s", i+1, h.line, e.Message)
			return nil, nil, e.In("args.patch")
		}
		if stated := h.stated(); !f.anywhere && at != stated {
			warnings = append(warnings, op.Warning{Code: "offset", Message: fmt.Sprintf("hunk %d was found at line %d, its heading says %d", i+1, at+1, stated+1)})
		}
		for _, l := range lines[from:at] {
			out.Write(l)
		}
		for _, l := range h.result(lines[at:], f.anywhere) {
			out.Write(l)
		}
		from = at + len(want)
	}
	for _, l := range lines[from:] {
		out.Write(l)
	}
	return out.Bytes(), warnings, nil
}

// stated is where the heading puts the hunk, counted from 0.
func (h hunk) stated() int {
	if h.oldLines == 0 {
		return int(h.oldStart) // after that line
	}
	return max(int(h.oldStart)-1, 0)
}

// side gives the lines of the old or the new text.
func (h hunk) side(mark byte) [][]byte {
	var out [][]byte
	for _, l := range h.lines {
		if l.mark == ' ' || l.mark == mark {
			out = append(out, l.text)
		}
	}
	return out
}

// result gives the new lines for the place whose lines begin with there. Where lines of an
// envelope met the last one of the file, which has no newline, it goes on having none.
func (h hunk) result(there [][]byte, loose bool) [][]byte {
	out := h.side('+')
	want := h.side('-')
	if !loose || len(want) == 0 || len(want) > len(there) || len(out) == 0 {
		return out
	}
	if last := there[len(want)-1]; !bytes.HasSuffix(last, []byte("\n")) {
		out = append([][]byte(nil), out...)
		out[len(out)-1] = bytes.TrimSuffix(out[len(out)-1], []byte("\n"))
	}
	return out
}

// place finds the one place for the old lines, at or after from.
func (h hunk) place(lines, want [][]byte, from int, f filePatch) (int, error) {
	if f.anywhere {
		return h.seek(lines, want, from)
	}
	stated := h.stated()
	if len(want) == 0 {
		return h.insertion(lines, stated, from)
	}
	if stated >= from && fits(lines, want, stated, false) && !(f.anchored && h.misplaced(stated, len(want), len(lines), true)) {
		return stated, nil
	}
	found := slices.DeleteFunc(places(lines, want, from, false), func(at int) bool { return h.misplaced(at, len(want), len(lines), f.anchored) })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return 0, mismatch(lines, want, stated)
	}
	return 0, severalPlaces(found)
}

// misplaced reports a place that goes against what the hunk says by the context that it
// has not: one with context at its end only, at line 1, begins the file, and one with
// context at its start only ends it. Elsewhere that would be dropped context. A hunk
// without any says nothing, unless its patch is anchored: then it is the whole file.
func (h hunk) misplaced(at, n, lines int, anchored bool) bool {
	lead, trail := 0, 0
	for lead < len(h.lines) && h.lines[lead].mark == ' ' {
		lead++
	}
	for trail < len(h.lines) && h.lines[len(h.lines)-1-trail].mark == ' ' {
		trail++
	}
	if lead == 0 && trail == 0 && !anchored {
		return false
	}
	return h.oldStart == 1 && at != 0 || trail == 0 && at+n != lines
}

// insertion has nothing to compare: only its heading says where it goes.
func (h hunk) insertion(lines [][]byte, at, from int) (int, error) {
	switch {
	case at < from || at > len(lines):
		return 0, op.Fail(op.PatchMismatch, fmt.Sprintf("it inserts after line %d, and the file has %d", at, len(lines))).Do("make the patch with lines of context, on what is there now")
	case at > 0 && at == len(lines) && !bytes.HasSuffix(lines[at-1], []byte("\n")):
		return 0, op.Fail(op.PatchMismatch, "it inserts after the last line, which has no newline: the two would run together").Do("send the last line as context, with the marker for no newline")
	}
	return at, nil
}

// fits compares lines. With loose the last line of the file may lack its newline.
func fits(lines, want [][]byte, at int, loose bool) bool {
	if at < 0 || at+len(want) > len(lines) {
		return false
	}
	for i, w := range want {
		l := lines[at+i]
		if !bytes.Equal(l, w) && !(loose && at+i == len(lines)-1 && bytes.Equal(l, bytes.TrimSuffix(w, []byte("\n")))) {
			return false
		}
	}
	return true
}

func places(lines, want [][]byte, from int, loose bool) []int {
	var out []int
	for at := from; at+len(want) <= len(lines); at++ {
		if fits(lines, want, at, loose) {
			out = append(out, at)
		}
	}
	return out
}

func severalPlaces(found []int) error {
	var words []string
	for _, at := range found[:min(len(found), maxTold)] {
		words = append(words, strconv.Itoa(at+1))
	}
	return op.Fail(op.AmbiguousMatch, fmt.Sprintf("its lines stand at %d places, at lines %s", len(found), strings.Join(words, ", "))).
		Do("give more lines of context, or a heading with the exact line")
}

// mismatch names the first difference at the stated place.
func mismatch(lines, want [][]byte, at int) error {
	e := op.Fail(op.PatchMismatch, "the file ends before it").Do("view the file and make the patch on what is there now; context is never dropped")
	for i, w := range want {
		if at+i >= len(lines) {
			e.Message = fmt.Sprintf("the file ends at line %d, expected %s", len(lines), quoteLine(w))
			break
		}
		if l := lines[at+i]; !bytes.Equal(l, w) {
			e.Message = fmt.Sprintf("first difference at file line %d: expected %s, found %s", at+i+1, quoteLine(w), quoteLine(l))
			if bytes.Equal(bytes.TrimRight(l, "\r\n"), bytes.TrimRight(w, "\r\n")) {
				e.Message += "; they differ only in the line ending"
				e.Do("send the patch with the line endings of the file, in patch_base64 if the transport changes them")
			}
			break
		}
	}
	return e
}

// quoteLine quotes a line for a message, bounded.
func quoteLine(l []byte) string {
	const most = 120
	s := string(l)
	s = strings.TrimSuffix(s, "\n")
	if len(s) > most {
		s = s[:most] + "..."
	}
	text := `"` + op.Visible(op.Escape(strings.TrimSuffix(s, "\r")), false) + `"`
	switch {
	case !bytes.HasSuffix(l, []byte("\n")):
		text += " without newline"
	case bytes.HasSuffix(l, []byte("\r\n")):
		text += " with CRLF"
	}
	return text
}
