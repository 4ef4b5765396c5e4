package fileops

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"holdpoint/op"
)

// filePatch is what a patch says of one file.
type filePatch struct {
	old, new  string // paths; the same one twice unless it is renamed or copied
	kind      patchKind
	mode      string // of a new file, or the new mode: "0644"; empty keeps it
	hunks     []hunk
	binary    *binaryPatch
	noData    bool   // binary files differ, and the patch does not say how
	oldID     string // of the index line, where it is whole
	newID     string
	line      int  // of the patch, where this file begins
	anywhere  bool // hunks name no lines: they are looked for from the top, in order
	hasHeader bool // "diff --git"
	anchored  bool // git made it with context: a hunk that lacks some at an end is at that end of the file
}

type patchKind uint8

const (
	patchChange patchKind = iota
	patchCreate
	patchDelete
	patchRename
	patchCopy
)

// hunk is one counted group of lines.
type hunk struct {
	oldStart, oldLines, newStart, newLines int64
	lines                                  []hunkLine
	section                                string // apply_patch: the line to begin after
	atEnd                                  bool   // apply_patch: its last line is the file's
	line                                   int    // of the patch
}

// hunkLine is one line with its ending; one that the marker says has none has none.
type hunkLine struct {
	mark byte // ' ', '-', '+'
	text []byte
}

type patchReader struct {
	lines [][]byte
	i     int
}

func (r *patchReader) peek() []byte {
	if r.i < len(r.lines) {
		return r.lines[r.i]
	}
	return nil
}

func (r *patchReader) bad(what string) error {
	return op.Fail(op.PatchParse, fmt.Sprintf("line %d of the patch: %s", r.i+1, what)).In("args.patch").
		Do("send the diff as git diff or diff -u prints it, whole and unwrapped")
}

// bare is a line without its ending, for headers.
func bare(l []byte) string { return strings.TrimRight(string(l), "\r\n") }

// Bounds of lines: each takes some tens of bytes of memory, whatever it holds.
const (
	maxPatchLines   = 1_000_000
	maxPatchedLines = 10_000_000
)

// parsePatch reads a unified diff of one or several files, as git writes it or diff -u,
// or an apply_patch envelope. Text before and between the files is passed over, as git
// does. Inside a hunk the counts decide what belongs to it, whatever the lines look like.
func parsePatch(text []byte) ([]filePatch, error) {
	if bytes.Count(text, []byte{'\n'}) > maxPatchLines {
		return nil, op.Fail(op.TooLarge, "the patch has more than 1,000,000 lines").In("args.patch").Do("send it in parts, or write the whole files")
	}
	r := &patchReader{lines: splitLines(text)}
	for _, l := range r.lines {
		if s := bare(l); strings.TrimSpace(s) != "" {
			if strings.HasPrefix(s, "*** Begin Patch") {
				return r.envelope()
			}
			break
		}
	}
	var out []filePatch
	for r.i < len(r.lines) {
		f, err := r.file()
		if err != nil {
			return nil, err
		}
		if f != nil {
			out = append(out, *f)
		}
	}
	if len(out) == 0 {
		return nil, op.Fail(op.PatchParse, "no file header is in the patch").In("args.patch").Do(`a unified diff begins with "--- a/file" and "+++ b/file", or with "diff --git"`)
	}
	anchor(out)
	return out, nil
}

// anchor marks the files of a patch that git made with context. A patch without any, as
// diff -U0 makes, says nothing by what it lacks.
func anchor(files []filePatch) {
	context := slices.ContainsFunc(files, func(f filePatch) bool {
		return slices.ContainsFunc(f.hunks, func(h hunk) bool {
			return slices.ContainsFunc(h.lines, func(l hunkLine) bool { return l.mark == ' ' })
		})
	})
	for i := range files {
		files[i].anchored = context && files[i].hasHeader
	}
}

// file reads the next file; nil for a line that is none of one.
func (r *patchReader) file() (*filePatch, error) {
	l := r.peek()
	switch {
	case bytes.HasPrefix(l, []byte("diff --git ")):
		return r.gitFile()
	case bytes.HasPrefix(l, []byte("--- ")) && r.i+1 < len(r.lines) && bytes.HasPrefix(r.lines[r.i+1], []byte("+++ ")):
		return r.plainFile()
	case bytes.HasPrefix(l, []byte("@@ -")):
		return nil, r.bad("a hunk without a file header")
	case bytes.HasPrefix(l, []byte("GIT binary patch")):
		return nil, r.bad("binary data without a file header")
	case saysDiffer(bare(l)): // as diff -r says it: no header, and no name that could be relied on
		return nil, noBinaryData()
	}
	r.i++
	return nil, nil
}

// saysDiffer reports whether a line says in place of a diff that two files differ, as git,
// diff, Mercurial and Subversion do.
func saysDiffer(l string) bool {
	switch {
	case strings.HasPrefix(l, "Binary files ") || strings.HasPrefix(l, "Files "):
		return strings.Contains(l, " and ") && strings.HasSuffix(l, " differ")
	case strings.HasPrefix(l, "Binary file "):
		return strings.HasSuffix(l, " has changed")
	}
	return l == "Cannot display: file marked as a binary type."
}

func noBinaryData() error {
	return op.Fail(op.BinaryNoData, "the patch says that a binary file differs, and not how").In("args.patch").Do("make it with git diff --binary")
}

// plainFile reads a diff without git's header: the names and the dates decide.
func (r *patchReader) plainFile() (*filePatch, error) {
	f := &filePatch{line: r.i + 1}
	oldName, err := r.headerName("--- ")
	if err != nil {
		return nil, err
	}
	newName, err := r.headerName("+++ ")
	if err != nil {
		return nil, err
	}
	stripped := func(n, prefix string) string { return strings.TrimPrefix(n, prefix) }
	both := (strings.HasPrefix(oldName, "a/") || oldName == devNull) && (strings.HasPrefix(newName, "b/") || newName == devNull)
	if both {
		oldName, newName = stripped(oldName, "a/"), stripped(newName, "b/")
	}
	switch {
	case oldName == devNull && newName == devNull:
		return nil, r.bad("neither side names a file")
	case oldName == devNull:
		f.kind, f.old, f.new = patchCreate, newName, newName
	case newName == devNull:
		f.kind, f.old, f.new = patchDelete, oldName, oldName
	case oldName != newName && !both && strings.TrimSuffix(oldName, ".orig") == newName:
		f.old, f.new = newName, newName
	case oldName != newName:
		return nil, r.bad("the two sides name different files and nothing says that it is a rename")
	default:
		f.old, f.new = oldName, newName
	}
	return f, r.hunksOf(f)
}

const devNull = "/dev/null"

// headerName takes the name of a "--- " or "+++ " line: up to a tab, quoted or not.
func (r *patchReader) headerName(prefix string) (string, error) {
	text := strings.TrimPrefix(bare(r.peek()), prefix)
	name, err := unquote(text)
	if err != nil {
		return "", r.bad(err.Error())
	}
	if name == "" {
		return "", r.bad("the file header names no file")
	}
	r.i++
	return name, nil
}

// unquote takes a name as git writes it: bare up to a tab, or between quotes with the
// escapes of C.
func unquote(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		name, _, _ := strings.Cut(text, "\t")
		return name, nil
	}
	name, _, err := quotedPrefix(text)
	return name, err
}

// quotedPrefix reads one quoted name and gives what follows it.
func quotedPrefix(text string) (name, rest string, err error) {
	const from, to = `abfnrtv"\`, "\a\b\f\n\r\t\v\"\\"
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
			continue
		}
		if i++; i == len(text) {
			break
		}
		if k := strings.IndexByte(from, text[i]); k >= 0 {
			b.WriteByte(to[k])
			continue
		}
		if i+3 > len(text) {
			break
		}
		n, bad := strconv.ParseUint(text[i:i+3], 8, 8)
		if bad != nil {
			return "", "", fmt.Errorf("a quoted name holds an unknown escape")
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return "", "", fmt.Errorf("a quoted name has no end")
}

// hunksOf reads the hunks that follow.
func (r *patchReader) hunksOf(f *filePatch) error {
	for bytes.HasPrefix(r.peek(), []byte("@@ -")) {
		h, err := r.hunk()
		if err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.kind == patchChange && !f.hasHeader {
		return r.bad("a file header without a hunk")
	}
	return nil
}

// hunk reads exactly as many lines as its heading says.
func (r *patchReader) hunk() (hunk, error) {
	h := hunk{line: r.i + 1}
	if err := h.heading(bare(r.peek())); err != nil {
		return h, r.bad(err.Error())
	}
	r.i++
	oldLeft, newLeft := h.oldLines, h.newLines
	for oldLeft > 0 || newLeft > 0 {
		l := r.peek()
		if l == nil {
			return h, r.bad("the patch ends inside a hunk")
		}
		mark, text := l[0], l[1:]
		if mark == '\n' || mark == '\r' && (len(l) == 1 || string(l) == "\r\n") {
			// An empty line of context whose leading space was trimmed away.
			mark, text = ' ', l
		}
		switch mark {
		case ' ':
			oldLeft, newLeft = oldLeft-1, newLeft-1
		case '-':
			oldLeft--
		case '+':
			newLeft--
		case '\\':
			if err := h.noNewline(); err != nil {
				return h, r.bad(err.Error())
			}
			r.i++
			continue
		default:
			return h, r.bad(fmt.Sprintf("%q begins no line of a hunk", mark))
		}
		if oldLeft < 0 || newLeft < 0 {
			return h, r.bad("the hunk has more lines than its heading says")
		}
		if text[max(len(text)-1, 0):] == nil || len(text) == 0 || text[len(text)-1] != '\n' {
			// The last line of the patch itself; that the file has no newline there is
			// said by a marker only.
			text = append(bytes.Clone(text), '\n')
		}
		h.lines = append(h.lines, hunkLine{mark, text})
		r.i++
	}
	if l := r.peek(); bytes.HasPrefix(l, []byte(`\ `)) {
		if err := h.noNewline(); err != nil {
			return h, r.bad(err.Error())
		}
		r.i++
	}
	return h, r.checkEnds(h)
}

// noNewline takes the ending off the line before a marker.
func (h *hunk) noNewline() error {
	if len(h.lines) == 0 {
		return fmt.Errorf("a marker for no newline before any line")
	}
	l := &h.lines[len(h.lines)-1]
	l.text = bytes.TrimSuffix(l.text, []byte("\n"))
	return nil
}

// checkEnds refuses a line without newline that another line of the same side follows:
// that would glue the two together.
func (r *patchReader) checkEnds(h hunk) error {
	for _, side := range []byte{'-', '+'} {
		ended := false
		for _, l := range h.lines {
			if l.mark != ' ' && l.mark != side {
				continue
			}
			if ended {
				return r.bad("a line follows one that the patch says is the last and has no newline")
			}
			ended = len(l.text) == 0 || l.text[len(l.text)-1] != '\n'
		}
	}
	return nil
}

// heading reads "@@ -l,n +l,n @@"; a count that is left out is one.
func (h *hunk) heading(text string) error {
	rest := strings.TrimPrefix(text, "@@ -")
	ranges, _, ok := strings.Cut(rest, " @@")
	left, right, ok2 := strings.Cut(ranges, " +")
	if !ok || !ok2 {
		return fmt.Errorf("a malformed hunk heading")
	}
	var err1, err2 error
	h.oldStart, h.oldLines, err1 = lineRange(left)
	h.newStart, h.newLines, err2 = lineRange(right)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("a malformed hunk heading")
	}
	if h.oldLines == 0 && h.newLines == 0 {
		return fmt.Errorf("an empty hunk")
	}
	return nil
}

func lineRange(text string) (start, n int64, err error) {
	first, count, counted := strings.Cut(text, ",")
	if start, err = strconv.ParseInt(first, 10, 32); err != nil || start < 0 {
		return 0, 0, fmt.Errorf("bad line number")
	}
	if n = 1; counted {
		if n, err = strconv.ParseInt(count, 10, 32); err != nil || n < 0 {
			return 0, 0, fmt.Errorf("bad count")
		}
	}
	return start, n, nil
}
