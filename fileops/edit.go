package fileops

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"holdpoint/op"
)

// Edited is what an edit makes of a file.
type Edited struct {
	Bytes        []byte
	Replacements int     // places replaced, over all edits
	Lines        []int64 // their lines from 1, at most maxPlaces, each in the text that its edit found
	Warnings     []op.Warning
}

const (
	maxEdits   = 1000      // of one call
	maxPlaces  = 1000      // lines told of one call
	maxTold    = 20        // lines told in a message
	maxGrowth  = 256 << 20 // bytes by which one call may make a file longer
	hintUnique = "add lines around it until it fits one place, or send replace_all, or expected_replacements with the number"
)

// ApplyEdits replaces exact text in b and returns new bytes; b stays as it is. Edits are
// done in order, each on what the one before left; if one fails nothing is done.
//
// Bytes match bytes. The one tolerance: in a file whose every LF follows a CR, LF in
// either text stands for CRLF. A UTF-16 file with a mark is searched and changed in
// UTF-16. The mark is no part of the text: nothing matches it and it always stays. The
// new text is literal. Text in other sets is handled as bytes, so an ASCII pattern may
// meet the second half of a multi-byte character.
//
// More places than one are ambiguous_match unless replace_all is set or
// expected_replacements is their number. Places that overlap count as several. Fewer
// than expected is no_match. An edit whose texts are the same, or that leaves the file
// as it was, is bad_request: a caller that asks for it has lost track of something.
func ApplyEdits(b []byte, a op.EditArgs) (Edited, error) {
	todo, err := editsOf(a)
	if err != nil {
		return Edited{}, err
	}
	t := split(b)
	lf, crlf := t.endings()
	rule := rules{all: a.ReplaceAll, crlf: t.enc != encBinary && lf > 0 && lf == crlf, limit: int64(len(b)) + maxGrowth}
	if a.ExpectedReplacements != nil {
		rule.want = *a.ExpectedReplacements
	}
	var out Edited
	first := t.body
	for _, e := range todo {
		e.first = first
		if t.body, err = rule.apply(t, e, &out); err != nil {
			return Edited{}, err
		}
	}
	out.Bytes = t.body
	if len(t.mark) > 0 {
		out.Bytes = append(bytes.Clone(t.mark), t.body...)
	}
	if bytes.Equal(out.Bytes, b) {
		return Edited{}, op.Fail(op.BadRequest, "the edits cancel each other out: nothing to change").In("args.edits")
	}
	out.Warnings = WriteWarnings(b, out.Bytes)
	if t.order == nil && family(t.enc) == encEight && len(out.Warnings) == 0 {
		for _, e := range todo {
			if !ascii(e.New) {
				out.Warnings = append(out.Warnings, op.Warning{Code: warnEncoding, Message: "the file is not UTF-8; the new text went in as UTF-8 bytes"})
				break
			}
		}
	}
	return out, nil
}

// edit is one replacement with its place in the call.
type edit struct {
	Old, New string
	at       string // "args" or "args.edits[2]"
	index    int    // among several, from 0
	first    []byte // the body before the first edit
}

// editsOf takes the two spellings of the arguments.
func editsOf(a op.EditArgs) ([]edit, error) {
	single := a.OldString != nil || a.NewString != nil
	var out []edit
	switch {
	case single && a.Edits != nil:
		return nil, op.Fail(op.BadRequest, "old_string and edits are both given").In("args.edits").Do("put every replacement into edits")
	case single && a.OldString == nil:
		return nil, op.Fail(op.BadRequest, "the argument old_string is missing").In("args.old_string")
	case single && a.NewString == nil:
		return nil, op.Fail(op.BadRequest, "the argument new_string is missing").In("args.new_string").Do("send an empty new_string to delete the text")
	case single:
		out = []edit{{Old: *a.OldString, New: *a.NewString, at: "args"}}
	case len(a.Edits) == 0:
		return nil, op.Fail(op.BadRequest, "there is nothing to replace").In("args.old_string").Do("give old_string and new_string, or edits")
	case len(a.Edits) > maxEdits:
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("more than %d edits in one call", maxEdits)).In("args.edits").Do("send them in several calls, or write the whole file")
	case a.ExpectedReplacements != nil && len(a.Edits) > 1:
		return nil, op.Fail(op.BadRequest, "expected_replacements speaks of one edit and there are several").In("args.expected_replacements")
	default:
		for i, e := range a.Edits {
			out = append(out, edit{Old: e.OldString, New: e.NewString, at: fmt.Sprintf("args.edits[%d]", i), index: i})
		}
	}
	for _, e := range out {
		if e.Old == "" {
			return nil, op.Fail(op.EmptyPattern, "the text to replace is empty").In(e.at + ".old_string").Do("use write_file to give the file new content; to insert, replace a line with itself and the new text")
		}
		if e.Old == e.New {
			return nil, same(e)
		}
	}
	return out, nil
}

func same(e edit) error {
	return op.Fail(op.BadRequest, "old and new text are the same: nothing to change").In(e.at + ".new_string")
}

// rules are what holds for each edit of a call.
type rules struct {
	all   bool
	want  int64 // how many places there must be; 0: not said
	crlf  bool
	limit int64
}

// apply does one edit and returns the new body.
func (r rules) apply(t text, e edit, out *Edited) ([]byte, error) {
	oldText, newText := e.Old, e.New
	if r.crlf {
		oldText, newText = toCRLF(oldText), toCRLF(newText)
		if oldText == newText {
			return nil, same(e)
		}
	}
	pattern, ok1 := t.encode(oldText)
	fresh, ok2 := t.encode(newText)
	if !ok1 || !ok2 {
		return nil, op.Fail(op.BadEncoding, "the texts are not UTF-8 and cannot be put into a UTF-16 file").In(e.at)
	}
	found := t.survey(pattern, !r.all)
	if err := r.judge(found, t, e); err != nil {
		return nil, err
	}
	size := int64(len(t.body)) + found.count*int64(len(fresh)-len(pattern))
	if size > r.limit {
		return nil, op.Fail(op.TooLarge, fmt.Sprintf("%d replacements would make the file %d bytes long", found.count, size)).In(e.at + ".new_string")
	}
	body, from := make([]byte, 0, size), 0
	for at := range t.places(pattern) {
		body = append(append(body, t.body[from:at]...), fresh...)
		from = at + len(pattern)
	}
	out.Replacements += int(found.count)
	out.Lines = append(out.Lines, found.lines[:min(len(found.lines), maxPlaces-len(out.Lines))]...)
	return append(body, t.body[from:]...), nil
}

// judge says whether these are the places that were meant.
func (r rules) judge(f finding, t text, e edit) error {
	field := e.at + ".old_string"
	switch {
	case f.count == 0:
		return op.Fail(op.NoMatch, "old_string is not in the file").In(field).Do(explain(t, e, r.crlf))
	case f.overlap && !r.all:
		return op.Fail(op.AmbiguousMatch, fmt.Sprintf("old_string fits places that overlap, at %s", inLines(f))).In(field).Do("add lines around it until it fits one place")
	case r.want > 0 && f.count > r.want:
		return op.Fail(op.AmbiguousMatch, fmt.Sprintf("old_string fits %d places, not %d, at %s", f.count, r.want, inLines(f))).In(field).Do(hintUnique)
	case r.want > 0 && f.count < r.want:
		code := op.NoMatch
		if f.count > 1 { // several places, and the number does not settle which
			code = op.AmbiguousMatch
		}
		return op.Fail(code, fmt.Sprintf("old_string fits %d of %d expected places, at %s", f.count, r.want, inLines(f))).In(field).Do("view the file again; expected_replacements is the number of all places")
	case r.want == 0 && f.count > 1 && !r.all:
		return op.Fail(op.AmbiguousMatch, fmt.Sprintf("old_string fits %d places, at %s", f.count, inLines(f))).In(field).Do(hintUnique)
	}
	return nil
}

// inLines words the places of a finding, saying how many it leaves out.
func inLines(f finding) string {
	var words []string
	for _, n := range f.lines[:min(len(f.lines), maxTold)] {
		words = append(words, strconv.FormatInt(n, 10))
	}
	text := "line " + words[0]
	if n := len(words); n > 1 {
		text = "lines " + strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	if left := f.count - int64(len(words)); left > 0 {
		text += fmt.Sprintf(" (and %d more)", left)
	}
	return text
}

// toCRLF gives each LF without CR one.
func toCRLF(s string) string {
	if !strings.Contains(s, "\n") {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
