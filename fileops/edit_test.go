package fileops

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func one(old, new string) op.EditArgs { return op.EditArgs{OldString: &old, NewString: &new} }

// wantEdit asserts the exact result, and that the input was left alone.
func wantEdit(t *testing.T, file string, a op.EditArgs, want string) Edited {
	t.Helper()
	in := []byte(file)
	got, err := ApplyEdits(in, a)
	if err != nil {
		t.Fatalf("edit of %q: %v, hint %q", file, err, op.AsError(err).Hint)
	}
	if string(got.Bytes) != want {
		t.Fatalf("edit of %q gives %q, want %q", file, got.Bytes, want)
	}
	if string(in) != file {
		t.Fatalf("the input was changed to %q", in)
	}
	return got
}

// wantFail asserts the code, that each word stands in message or hint, and that nothing came out.
func wantFail(t *testing.T, file string, a op.EditArgs, code op.Code, words ...string) *op.Error {
	t.Helper()
	in := []byte(file)
	got, err := ApplyEdits(in, a)
	if !errors.Is(err, code) {
		t.Fatalf("edit of %q: %v, want %s", file, err, code)
	}
	if got.Bytes != nil || got.Replacements != 0 {
		t.Fatalf("a failed edit gives %q", got.Bytes)
	}
	if string(in) != file {
		t.Fatalf("the input was changed to %q", in)
	}
	e := op.AsError(err)
	for _, w := range words {
		if !strings.Contains(e.Message+"\n"+e.Hint, w) {
			t.Errorf("%q is neither in message %q nor in hint %q", w, e.Message, e.Hint)
		}
	}
	return e
}

func TestEditEncodings(t *testing.T) {
	t.Run("D1 one line of a CRLF file", func(t *testing.T) {
		file, want := "one\r\ntwo\r\nthree\r\n", "one\r\n2\r\nthree\r\n"
		got := wantEdit(t, file, one("two", "2"), want)
		d := Unified("f", []byte(file), got.Bytes, true, true)
		if d.Added != 1 || d.Removed != 1 {
			t.Errorf("the diff shows +%d -%d lines, want one of each:\n%s", d.Added, d.Removed, d.Text)
		}
		if len(got.Warnings) != 0 {
			t.Errorf("warnings %v", got.Warnings)
		}
	})
	t.Run("D2 several lines of a CRLF file by an LF pattern", func(t *testing.T) {
		file := "one\r\ntwo\r\nthree\r\n"
		wantEdit(t, file, one("one\ntwo\n", "1\n2\nnew\n"), "1\r\n2\r\nnew\r\nthree\r\n")
		if eol := Describe([]byte(file)).EOL; eol != "crlf" {
			t.Errorf("eol %q", eol)
		}
	})
	t.Run("CRLF tolerance leaves no lone CR", func(t *testing.T) {
		wantEdit(t, "one\r\ntwo\r\n", one("\ntwo", "X"), "oneX\r\n")
		wantEdit(t, "one\r\ntwo\r\n", one("two", "a\nb\r\nc"), "one\r\na\r\nb\r\nc\r\n")
		wantFail(t, "one\r\ntwo\r\n", one("one\ntwo", "one\r\ntwo"), op.BadRequest, "nothing to change")
	})
	t.Run("mixed endings are matched exactly", func(t *testing.T) {
		wantEdit(t, "a\r\nb\nc\n", one("b\nc", "b\nX"), "a\r\nb\nX\n")
		wantFail(t, "a\r\nb\nc\n", one("a\nb", "x"), op.NoMatch, "only line endings differ, at line 1", "mixed")
		wantFail(t, "a\nb\nc\n", one("a\r\nb", "x"), op.NoMatch, "only line endings differ, at line 1", "file has LF, pattern CRLF")
		got := wantEdit(t, "a\nb\n", one("a", "x\r\ny"), "x\r\ny\nb\n")
		wantWarnings(t, got.Warnings, "eol_change")
	})
	t.Run("D4 the byte-order mark stays", func(t *testing.T) {
		file := "\xef\xbb\xbfhello\n\xe4\xb8\xad\xe6\x96\x87\n"
		got := wantEdit(t, file, one("hello\n", "hello2\n"), "\xef\xbb\xbfhello2\n\xe4\xb8\xad\xe6\x96\x87\n")
		if got.Lines[0] != 1 || !Describe([]byte(file)).BOM {
			t.Errorf("line %v, facts %+v", got.Lines, Describe([]byte(file)))
		}
		v, err := Window(bytesSource(file), op.ViewArgs{})
		text, ok := v.Text()
		if err != nil || !ok || text != "hello\n中文\n" {
			t.Errorf("view shows %q, %v, %v", text, ok, err)
		}
		if text, ok := DecodeForView([]byte(file)); !ok || text != "hello\n中文\n" {
			t.Errorf("decoded to %q, %v", text, ok)
		}
		wantFail(t, file, one("\ufeffhello", "x"), op.NoMatch, "U+FEFF")
	})
	t.Run("D5 no byte-order mark is added", func(t *testing.T) {
		got := wantEdit(t, "l1\r\nl2\r\nl3\r\n", one("l2", "L2 long"), "l1\r\nL2 long\r\nl3\r\n")
		if len(got.Bytes) != 12+5 || string(got.Bytes[:3]) != "l1\r" {
			t.Errorf("%d bytes, %q", len(got.Bytes), got.Bytes[:3])
		}
	})
	t.Run("D6 a Latin-1 byte elsewhere stays", func(t *testing.T) {
		file := "n=1\n# caf\xe9\n"
		got := wantEdit(t, file, one("n=1", "n=2"), "n=2\n# caf\xe9\n")
		if bytes.Contains(got.Bytes, []byte("\xef\xbf\xbd")) {
			t.Error("U+FFFD in the result")
		}
		d := Unified("f", []byte(file), []byte("n=1\n# caf\xef\xbf\xbd\n"), true, true)
		if d.Added != 1 || d.Removed != 1 || strings.Count(d.Text, "caf") != 2 {
			t.Errorf("the diff hides a changed byte:\n%s", d.Text)
		}
		got = wantEdit(t, file, one("n=1", "n=ö"), "n=ö\n# caf\xe9\n")
		wantWarnings(t, got.Warnings, "encoding_change")
	})
	t.Run("edit and view of D7: UTF-16", func(t *testing.T) {
		file := "\xff\xfeh\x00i\x00\n\x00"
		wantEdit(t, file, one("hi", "ho"), "\xff\xfeh\x00o\x00\n\x00")
		if f := Describe([]byte(file)); f.Encoding != "utf-16le" || f.EOL != "lf" || !f.BOM || !f.FinalNewline {
			t.Errorf("facts %+v", f)
		}
		if text, ok := DecodeForView([]byte(file)); !ok || text != "hi\n" {
			t.Errorf("decoded to %q, %v", text, ok)
		}
		big := "\xfe\xff\x00a\x00\r\x00\n\xd8\x3d\xde\x00\x00\r\x00\n"
		wantEdit(t, big, one("a\n😀", "b\n😁\n"), "\xfe\xff\x00b\x00\r\x00\n\xd8\x3d\xde\x01\x00\r\x00\n\x00\r\x00\n")
		// U+6161 U+6200 hold the bytes of U+6162 between two units.
		wantFail(t, "\xfe\xff\x61\x61\x62\x00", one("\u6162", "x"), op.NoMatch)
		wantEdit(t, "\xff\xfea\x00a\x00b\x00", one("aab", "\u3042"), "\xff\xfe\x42\x30")
	})
	t.Run("D9 straight and curly quotes are different", func(t *testing.T) {
		curly := "say \xe2\x80\x98hi\xe2\x80\x99\n"
		wantEdit(t, "say 'hi'\n", one("'hi'", "\xe2\x80\x98hi\xe2\x80\x99"), curly)
		wantFail(t, curly, one("'hi'", "x"), op.NoMatch, "differs only in quote characters at line 1")
	})
	t.Run("D10 a no-break space is named", func(t *testing.T) {
		wantFail(t, "in\xc2\xa0current\n", one("in current", "in next"), op.NoMatch, "line 1", "file U+00A0", "pattern U+0020")
	})
	t.Run("edit of D11: no unescaping", func(t *testing.T) {
		wantEdit(t, "x\n", one("x", `print('a\nb')`), "print('a\\nb')\n")
	})
	t.Run("D12 entities are literal", func(t *testing.T) {
		wantEdit(t, "&amp; &lt;b&gt; &#39;\n", one("&lt;", "<"), "&amp; <b&gt; &#39;\n")
	})
	t.Run("binary bytes are edited as bytes", func(t *testing.T) {
		wantEdit(t, "\x00\r\nab\xff", one("ab", "c\n"), "\x00\r\nc\n\xff")
	})
}

func TestEditMatching(t *testing.T) {
	t.Run("D14 dollar sequences are literal", func(t *testing.T) {
		odd := "$$5 $& $1 ${n} \\1"
		wantEdit(t, "p: X\n", one("X", odd), "p: "+odd+"\n")
		a := one("X", odd)
		a.ReplaceAll = true
		wantEdit(t, "X X\n", a, odd+" "+odd+"\n")
	})
	t.Run("D15 several places", func(t *testing.T) {
		file := "f {\n  x=1\n}\ng {\n    x=1\n}\n"
		a := one("x=1", "x=2")
		wantFail(t, file, a, op.AmbiguousMatch, "2 places", "lines 2 and 5")
		a.ReplaceAll = true
		got := wantEdit(t, file, a, strings.ReplaceAll(file, "x=1", "x=2"))
		if got.Replacements != 2 || !slices.Equal(got.Lines, []int64{2, 5}) {
			t.Errorf("%d replacements at %v", got.Replacements, got.Lines)
		}
		for _, wrong := range []int64{1, 3} {
			a.ExpectedReplacements = &wrong
			for _, all := range []bool{false, true} {
				a.ReplaceAll = all
				code := op.AmbiguousMatch
				wantFail(t, file, a, code, "2", fmt.Sprint(wrong), "lines 2 and 5")
			}
		}
		two := int64(2)
		a.ExpectedReplacements, a.ReplaceAll = &two, false
		wantEdit(t, file, a, strings.ReplaceAll(file, "x=1", "x=2"))
	})
	t.Run("places that overlap are ambiguous", func(t *testing.T) {
		wantFail(t, "baaab", one("aa", "c"), op.AmbiguousMatch, "overlap")
		wantFail(t, "\xff\xfea\x00a\x00a\x00", one("aa", "c"), op.AmbiguousMatch, "overlap")
		wantEdit(t, "\xff\xfea\x00a\x00a\x00b\x00", one("aab", "c"), "\xff\xfea\x00c\x00")
		a := one("aa", "c")
		a.ReplaceAll = true
		wantEdit(t, "baaab", a, "bcab")
		wantEdit(t, "baabaa", a, "bcbc")
	})
	t.Run("D16 an empty pattern on a file with content", func(t *testing.T) {
		wantFail(t, "keep\n", one("", "Z"), op.EmptyPattern, "write_file")
	})
	t.Run("D17 an empty pattern with replace_all", func(t *testing.T) {
		a := one("", "X")
		a.ReplaceAll = true
		wantFail(t, "abc", a, op.EmptyPattern)
		wantFail(t, "", a, op.EmptyPattern)
		e := wantFail(t, "abc", op.EditArgs{ReplaceAll: true, Edits: []op.Edit{{OldString: "a", NewString: "b"}, {NewString: "X"}}}, op.EmptyPattern)
		if e.Field != "args.edits[1].old_string" {
			t.Errorf("field %q", e.Field)
		}
	})
	t.Run("D18 tabs and spaces", func(t *testing.T) {
		wantFail(t, "\t\tx := 1\n", one("        x := 1", "y"), op.NoMatch, "leading whitespace", "file has 2 tabs, pattern 8 spaces")
		var block strings.Builder
		for i := range 60 {
			fmt.Fprintf(&block, "\t\tcall(%d)\n", i)
		}
		got := wantEdit(t, "head\n"+block.String()+"tail\n", one(block.String(), "\tone()\n"), "head\n\tone()\ntail\n")
		if got.Replacements != 1 || got.Lines[0] != 2 {
			t.Errorf("%d replacements at %v", got.Replacements, got.Lines)
		}
	})
	t.Run("D19 first and last line alone never match", func(t *testing.T) {
		wantFail(t, "start\nA\nB\nC\nend\n", one("start\nX\nend", "start\nend"), op.NoMatch, `pattern line 2 is "X"`, `file line 2 is "A"`)
	})
	t.Run("edit of D24: after an unterminated last line", func(t *testing.T) {
		wantEdit(t, "a\nb\nc", one("c", "c\nX\n"), "a\nb\nc\nX\n")
	})
	t.Run("D35 edits that grow a file keep its tail", func(t *testing.T) {
		file := strings.Repeat(strings.Repeat("x", 149)+"\n", 1000)
		b := []byte(file)
		for i, at := range []int{10, 75_000, 149_000} {
			copy(b[at:], fmt.Sprintf("mark%d", i))
		}
		tail := string(b[len(b)-100:])
		for i := range 3 {
			got, err := ApplyEdits(b, one(fmt.Sprintf("mark%d", i), strings.Repeat("y", 2000)))
			if err != nil {
				t.Fatal(err)
			}
			b = got.Bytes
		}
		if len(b) != 155_985 || string(b[len(b)-100:]) != tail || cap(b) < len(b) {
			t.Errorf("%d bytes, tail %q", len(b), b[len(b)-100:])
		}
	})
	t.Run("edits in order, all or none", func(t *testing.T) {
		list := func(e ...op.Edit) op.EditArgs { return op.EditArgs{Edits: e} }
		got := wantEdit(t, "a\nb\nc\n", list(op.Edit{OldString: "a", NewString: "b2"}, op.Edit{OldString: "b2\nb", NewString: "z"}), "z\nc\n")
		if got.Replacements != 2 {
			t.Errorf("%d replacements", got.Replacements)
		}
		e := wantFail(t, "a\nb\n", list(op.Edit{OldString: "a", NewString: "x"}, op.Edit{OldString: "a", NewString: "y"}), op.NoMatch, "an edit before it")
		if e.Field != "args.edits[1].old_string" {
			t.Errorf("field %q", e.Field)
		}
		wantFail(t, "a\n", list(op.Edit{OldString: "a", NewString: "x"}, op.Edit{OldString: "x", NewString: "a"}), op.BadRequest, "cancel")
	})
	t.Run("arguments that say nothing or two things", func(t *testing.T) {
		x, n := "x", int64(1)
		wantFail(t, "x", op.EditArgs{}, op.BadRequest)
		wantFail(t, "x", op.EditArgs{Edits: []op.Edit{}}, op.BadRequest)
		wantFail(t, "x", op.EditArgs{OldString: &x}, op.BadRequest, "new_string")
		wantFail(t, "x", op.EditArgs{NewString: &x}, op.BadRequest, "old_string")
		wantFail(t, "x", one("x", "x"), op.BadRequest, "nothing to change")
		both := one("x", "y")
		both.Edits = []op.Edit{{OldString: "x", NewString: "y"}}
		wantFail(t, "x", both, op.BadRequest, "both")
		wantFail(t, "x y", op.EditArgs{Edits: []op.Edit{{OldString: "x", NewString: "1"}, {OldString: "y", NewString: "2"}}, ExpectedReplacements: &n}, op.BadRequest)
		wantFail(t, "x", op.EditArgs{Edits: make([]op.Edit, maxEdits+1)}, op.TooLarge)
	})
	t.Run("a result without bound is refused", func(t *testing.T) {
		a := one("a", strings.Repeat("b", 1<<20))
		a.ReplaceAll = true
		wantFail(t, strings.Repeat("a", 1<<20), a, op.TooLarge)
	})
	t.Run("many places are counted, not all listed", func(t *testing.T) {
		e := wantFail(t, strings.Repeat("a\n", 5000), one("a", "b"), op.AmbiguousMatch, "5000 places", "and 4980 more")
		if len(e.Message) > 300 {
			t.Errorf("%d bytes of message", len(e.Message))
		}
	})
}

func TestNoMatchHints(t *testing.T) {
	for _, c := range []struct{ name, file, old, want string }{
		{"indent of a later line", "if x {\n\tgo()\n}\n", "if x {\n    go()\n}", "leading whitespace at line 2: file has 1 tab, pattern 4 spaces"},
		{"indent missing", "\tgo()\n\tstop()\n", "go()\nstop()\n", "leading whitespace at line 2: file has 1 tab, pattern none"},
		{"trailing", "a \nb\n", "a\nb", "trailing whitespace at line 1: file has 1 space, pattern none"},
		{"inner spacing", "x  =  1\n", "x = 1", "only whitespace differs, first at line 1"},
		{"two spaces at the end", "foo bar\n", "foo  ", "only whitespace differs"},
		{"case", "a\nHello\n", "hello", `upper and lower case, first at line 2: file has 'H', pattern 'h'`},
		{"normal form", "caf\u00e9\n", "cafe\u0301", "normal form"},
		{"zero width", "a\nfoo\u200bbar\n", "foobar", "characters that do not show, at line 2: file has U+200B, pattern none"},
		{"endings in a CRLF file next to another difference", "a\r\nb\r\n", "A\nb", "upper and lower case"},
		{"no newline at the end", "a\nb", "b\n", "ends without a newline at line 2"},
		{"window at the end", "a\nb\nc\n", "b\nc\nd", `pattern line 3 is "d", but the file ends before it`},
		{"window before the start", "b\nc\n", "a\nb\nc", `pattern line 1 is "a", but the file begins only after it`},
		{"most equal lines win", "k\n1\n\nk\n2\nm\n", "k\n3\nm", "nearest place: line 4, where 2 of 3 lines are alike"},
		{"one similar line", "func Alpha(x int) error {\nother\n", "func Alpha(y int) error {", "nearest line 1"},
		{"already done", "x := newValue(1)\n", "y := oldValue(2, 3, 4, 5)", "new_string is in the file already, at line 1"},
		{"empty file", "", "x", "the file is empty"},
		{"nothing alike", "alpha\n", "zzzzzzzzzzzzzz", "nothing in the file is like it"},
		{"only blanks", "a\n", "\t\t\t", "nothing in the file is like it"},
		{"UTF-16", "\xff\xfeA\x00\n\x00", "a", "upper and lower case"},
		{"bytes that are not UTF-8", "\xff\xe9 Ab\n", "\u00e9 ab", "the file is not UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) { wantFail(t, c.file, one(c.old, "newValue(1)"), op.NoMatch, c.want) })
	}
	t.Run("a hint is short and shows no control characters", func(t *testing.T) {
		long := strings.Repeat("\x1b[31m\u202e", 5000)
		e := wantFail(t, "start\n"+long+"\nend\n", one("start\n"+long+"x\nend", "y"), op.NoMatch, "bytes)")
		if len(e.Hint) > 4000 || strings.ContainsAny(e.Hint, "\x1b\u202e") {
			t.Errorf("%d bytes: %q", len(e.Hint), e.Hint)
		}
	})
}

func TestEditIsFast(t *testing.T) {
	file := bytes.Repeat([]byte("a line of some text that is not very long\r\n"), 250_000)
	copy(file[len(file)/2:], "HERE")
	start := time.Now()
	got, err := ApplyEdits(file, one("HERE", "THERE"))
	took := time.Since(start)
	if err != nil || len(got.Bytes) != len(file)+1 {
		t.Fatal(len(got.Bytes), err)
	}
	t.Logf("one edit in %d MiB took %v", len(file)>>20, took)
	if took > 2*time.Second { // generous: the machine is shared and -race slows it down
		t.Errorf("an edit of %d bytes took %v", len(file), took)
	}
	// Texts that make a naive search quadratic.
	odd := []byte("\xfe\xff\x00" + strings.Repeat("ab", 1<<18) + "\x00")
	for _, a := range []op.EditArgs{one(strings.Repeat("\u6162", 1<<16), "x"), one(strings.Repeat("a", 1<<16)+"b", "x")} {
		start = time.Now()
		if _, err := ApplyEdits(odd, a); !errors.Is(err, op.NoMatch) {
			t.Error(err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	}
	start = time.Now()
	_, err = ApplyEdits(bytes.Repeat([]byte("a"), 4<<20), one(strings.Repeat("a", 1<<20), "x"))
	if took := time.Since(start); !errors.Is(err, op.AmbiguousMatch) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

func wantWarnings(t *testing.T, got []op.Warning, codes ...string) {
	t.Helper()
	var have []string
	for _, w := range got {
		have = append(have, w.Code)
		if w.Message == "" {
			t.Errorf("%s has no message", w.Code)
		}
	}
	if !slices.Equal(have, codes) {
		t.Errorf("warnings %v, want %v", have, codes)
	}
}

type bytesSource string

func (s bytesSource) Size() int64 { return int64(len(s)) }
func (s bytesSource) ReadAt(off int64, n int) ([]byte, error) {
	if off > int64(len(s)) {
		return nil, nil
	}
	return []byte(s[off:min(len(s), int(off)+n)]), nil
}
