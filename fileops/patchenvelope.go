package fileops

import (
	"bytes"
	"fmt"
	"strings"

	"holdpoint/op"
)

// envelope reads the form between "*** Begin Patch" and "*** End Patch": files are added,
// updated, moved and deleted by name, and hunks have no line numbers. What they replace
// must stand at exactly one place.
func (r *patchReader) envelope() ([]filePatch, error) {
	for !strings.HasPrefix(bare(r.peek()), "*** Begin Patch") {
		r.i++
	}
	r.i++
	var out []filePatch
	for r.i < len(r.lines) {
		l := bare(r.peek())
		at := r.i + 1
		word, name, ok := strings.Cut(l, ": ")
		switch {
		case strings.TrimSpace(l) == "*** End Patch":
			if len(out) == 0 {
				return nil, r.bad("the envelope is empty")
			}
			return out, nil
		case strings.TrimSpace(l) == "":
			r.i++
			continue
		case !ok || name == "":
			return nil, r.bad("expected *** Add File, *** Update File, *** Delete File or *** End Patch")
		}
		r.i++
		f := filePatch{old: name, new: name, line: at, anywhere: true}
		var err error
		switch word {
		case "*** Add File":
			f.kind = patchCreate
			err = r.added(&f)
		case "*** Delete File":
			f.kind = patchDelete
		case "*** Update File":
			err = r.updated(&f)
		default:
			r.i--
			err = r.bad("unknown instruction " + op.Visible(word, false))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return nil, r.bad("the envelope has no *** End Patch")
}

func (r *patchReader) added(f *filePatch) error {
	h := hunk{line: r.i + 1}
	for bytes.HasPrefix(r.peek(), []byte("+")) {
		h.lines = append(h.lines, hunkLine{'+', withNewline(r.peek()[1:])})
		r.i++
	}
	if next := bare(r.peek()); next != "" && !strings.HasPrefix(next, "*** ") {
		return r.bad(`each line of an added file begins with "+"`)
	}
	if len(h.lines) > 0 {
		f.hunks = []hunk{h}
	}
	return nil
}

func (r *patchReader) updated(f *filePatch) error {
	if to, ok := strings.CutPrefix(bare(r.peek()), "*** Move to: "); ok {
		f.kind, f.new = patchRename, to
		r.i++
	}
	for r.i < len(r.lines) {
		l := bare(r.peek())
		if strings.HasPrefix(l, "*** ") && l != "*** End of File" {
			break
		}
		h := hunk{line: r.i + 1}
		if strings.HasPrefix(l, "@@") {
			h.section = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(l, "@@"), "@@"))
			r.i++
		}
		if err := r.looseLines(&h); err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.kind == patchChange {
		return r.bad("an update without a change")
	}
	return nil
}

// looseLines reads until the next heading or instruction.
func (r *patchReader) looseLines(h *hunk) error {
	changes := false
	for r.i < len(r.lines) {
		l := r.peek()
		text := bare(l)
		if strings.HasPrefix(text, "@@") || strings.HasPrefix(text, "*** ") && text != "*** End of File" {
			break
		}
		r.i++
		if text == "*** End of File" {
			h.atEnd = true
			break
		}
		mark := byte(' ')
		body := l
		if text != "" {
			mark, body = l[0], l[1:]
		}
		if mark != ' ' && mark != '-' && mark != '+' {
			r.i--
			return r.bad(fmt.Sprintf("%q begins no line of a change", mark))
		}
		changes = changes || mark != ' '
		h.lines = append(h.lines, hunkLine{mark, withNewline(body)})
	}
	if !changes {
		return r.bad("a part that changes nothing")
	}
	return nil
}

func withNewline(l []byte) []byte {
	if bytes.HasSuffix(l, []byte("\n")) {
		return l
	}
	return append(bytes.Clone(l), '\n')
}

// seek finds the place of a hunk without numbers: after its section line if it names one,
// at the end if it says so, and else the only one there is.
func (h hunk) seek(lines, want [][]byte, from int) (int, error) {
	if h.section != "" {
		found := []int(nil)
		for i := from; i < len(lines); i++ {
			if strings.TrimSpace(bare(lines[i])) == h.section {
				found = append(found, i)
			}
		}
		switch len(found) {
		case 0:
			return 0, op.Fail(op.PatchMismatch, "its section line "+quoteLine([]byte(h.section+"\n"))+" is not in the rest of the file").Do("view the file and take a line that is there")
		case 1:
			from = found[0] + 1
			if fits(lines, want, found[0], true) && len(want) > 0 {
				from = found[0] // the section is given as context as well
			}
		default:
			return 0, severalPlaces(found)
		}
	}
	if len(want) == 0 {
		switch end := len(lines); {
		case h.section != "" && !h.atEnd:
			return h.insertion(lines, from, from)
		case h.atEnd || end == 0:
			return h.insertion(lines, end, from)
		}
		return 0, op.Fail(op.AmbiguousMatch, "it only adds lines, and nothing says where").Do("give lines of context, a section after @@, or *** End of File")
	}
	found := places(lines, want, from, true)
	if h.atEnd {
		if at := len(lines) - len(want); at >= from && fits(lines, want, at, true) {
			return at, nil
		}
		found = nil
	}
	switch len(found) {
	case 0:
		return 0, nowhere(lines, want, from)
	case 1:
		return found[0], nil
	}
	return 0, severalPlaces(found)
}

// nowhere names the first line that is missing.
func nowhere(lines, want [][]byte, from int) error {
	for i := range want {
		if at := places(lines, want[:i+1], from, true); len(at) == 0 {
			return op.Fail(op.PatchMismatch, fmt.Sprintf("its lines are not in the file; the first that fits nowhere is line %d of them, %s", i+1, quoteLine(want[i]))).
				Do("view the file and make the patch on what is there now")
		}
	}
	return op.Fail(op.PatchMismatch, "its lines do not stand at the end of the file").Do("leave *** End of File out, or view the end of the file")
}

// inEndingOf gives the lines of an envelope, which knows no endings, those of the file.
func (f filePatch) inEndingOf(old []byte) filePatch {
	lf, crlf := split(old).endings()
	if !f.anywhere || lf == 0 || lf != crlf {
		return f
	}
	hunks := make([]hunk, len(f.hunks))
	for i, h := range f.hunks {
		lines := make([]hunkLine, len(h.lines))
		for k, l := range h.lines {
			lines[k] = hunkLine{l.mark, []byte(toCRLF(string(l.text)))}
		}
		h.lines = lines
		hunks[i] = h
	}
	f.hunks = hunks
	return f
}
