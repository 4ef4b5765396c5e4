package fileops

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"holdpoint/op"
	"pgregory.net/rapid"
)

// A text over few letters, so that patterns meet and overlap often.
func fewLetters(extra string) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab\n"+extra)), 0, 40, -1)
}

func TestEditProperties(t *testing.T) {
	t.Run("bytes outside the place never change", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			pre, post := rapid.SliceOf(rapid.Byte()).Draw(t, "pre"), rapid.SliceOf(rapid.Byte()).Draw(t, "post")
			old, new := "\x01<"+fewLetters("é").Draw(t, "old")+">\x02", fewLetters("é").Draw(t, "new")
			file := bytes.Join([][]byte{pre, post}, []byte(old))
			facts := Describe(file)
			if facts.EOL == "crlf" || strings.HasPrefix(facts.Encoding, "utf-16") || bytes.Count(file, []byte(old)) != 1 || facts.BOM {
				t.Skip("this draw is thrown away: the plain oracle below does not know such files")
			}
			got, err := ApplyEdits(file, one(old, new))
			if err != nil {
				t.Fatal(err)
			}
			if want := string(pre) + new + string(post); string(got.Bytes) != want {
				t.Fatalf("%q, want %q", got.Bytes, want)
			}
			if want := int64(1 + bytes.Count(pre, []byte("\n"))); got.Lines[0] != want {
				t.Fatalf("line %d, want %d", got.Lines[0], want)
			}
		})
	})
	t.Run("every place or none, as a plain replace does it", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			file := fewLetters("").Draw(t, "file")
			pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 1, 3, -1).Draw(t, "pattern")
			fresh := fewLetters("").Draw(t, "fresh")
			if fresh == pattern {
				t.Skip("this draw is thrown away: nothing to change")
			}
			a := one(pattern, fresh)
			overlapping := 0
			for i := range file {
				if strings.HasPrefix(file[i:], pattern) {
					overlapping++
				}
			}
			got, err := ApplyEdits([]byte(file), a)
			switch {
			case overlapping == 0 && !errors.Is(err, op.NoMatch), overlapping > 1 && !errors.Is(err, op.AmbiguousMatch):
				t.Fatalf("%d places: %v", overlapping, err)
			case overlapping == 1 && (err != nil || string(got.Bytes) != strings.Replace(file, pattern, fresh, 1)):
				t.Fatalf("%q, %v", got.Bytes, err)
			}
			a.ReplaceAll = true
			got, err = ApplyEdits([]byte(file), a)
			want := strings.ReplaceAll(file, pattern, fresh)
			if overlapping > 0 && want != file && (err != nil || string(got.Bytes) != want || got.Replacements != strings.Count(file, pattern)) {
				t.Fatalf("%q, %v, want %q", got.Bytes, err, want)
			}
		})
	})
	t.Run("a UTF-16 file is edited as its text would be", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			file := fewLetters("é😀慡扡").Draw(t, "file")
			pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab\né😀慡扡")), 1, 3, -1).Draw(t, "pattern")
			fresh := fewLetters("é😀慡").Draw(t, "fresh")
			all := rapid.Bool().Draw(t, "all")
			a := one(pattern, fresh)
			a.ReplaceAll = all
			plain, err1 := ApplyEdits([]byte(file), a)
			for _, m := range []text{{mark: markLE, order: split(markLE).order}, {mark: markBE, order: split(markBE).order}} {
				enc := func(s string) []byte { b, _ := m.encode(s); return append(bytes.Clone(m.mark), b...) }
				wide, err2 := ApplyEdits(enc(file), a)
				if (err1 == nil) != (err2 == nil) || err1 != nil && op.AsError(err1).Code != op.AsError(err2).Code {
					t.Fatalf("%v and %v", err1, err2)
				}
				if err1 == nil && !bytes.Equal(wide.Bytes, enc(string(plain.Bytes))) {
					t.Fatalf("%q, want %q", wide.Bytes, enc(string(plain.Bytes)))
				}
			}
		})
	})
	t.Run("a CRLF file stays one", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			file := strings.ReplaceAll(fewLetters("é").Draw(t, "file")+"\n", "\n", "\r\n")
			pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab\n")), 1, 3, -1).Draw(t, "pattern")
			a := one(pattern, fewLetters("é").Draw(t, "fresh"))
			a.ReplaceAll = true
			got, err := ApplyEdits([]byte(file), a)
			if code := op.AsError(err); err != nil && (code.Code == op.NoMatch || code.Code == op.BadRequest) {
				t.Skip("this draw is thrown away: the pattern is not there, or is the new text")
			} else if err != nil {
				t.Fatal(err)
			}
			lf, crlf := split(got.Bytes).endings()
			if lf != crlf || strings.Contains(strings.ReplaceAll(string(got.Bytes), "\r\n", ""), "\r") {
				t.Fatalf("%q", got.Bytes)
			}
		})
	})
}

// FuzzEdit holds whatever the bytes are: no panic, an error of the known codes that
// leaves nothing behind, or a result that keeps the mark and is what a literal replace gives.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("a\r\nb\r\n"), "a\nb", "c\n", false)
	f.Add([]byte("\xff\xfea\x00\n\x00"), "a", "b", true)
	f.Add([]byte("\xef\xbb\xbfx"), "x", "", false)
	f.Add([]byte("caf\xe9 \xc2\xa0x"), " x", "y", true)
	f.Add([]byte("\t\tx\n\ty\n"), "  x\n  y", "z", false)
	f.Add([]byte("\xe2\x80\x98a\xe2\x80\x99"), "'a'", "z", false)
	f.Fuzz(func(t *testing.T, file []byte, old, new string, all bool) {
		in := bytes.Clone(file)
		a := one(old, new)
		a.ReplaceAll = all
		got, err := ApplyEdits(in, a)
		if !bytes.Equal(in, file) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			e := op.AsError(err)
			switch e.Code {
			case op.NoMatch, op.AmbiguousMatch, op.EmptyPattern, op.BadRequest, op.BadEncoding, op.TooLarge:
			default:
				t.Fatalf("code %s", e.Code)
			}
			if got.Bytes != nil || !utf8.ValidString(e.Message) || !utf8.ValidString(e.Hint) || e.Field == "" {
				t.Fatalf("%+v", e)
			}
			return
		}
		was := split(file)
		if !bytes.HasPrefix(got.Bytes, was.mark) || bytes.Equal(got.Bytes, file) || len(got.Lines) != min(got.Replacements, maxPlaces) {
			t.Fatalf("%q, %v", got.Bytes, got.Lines)
		}
		lf, crlf := was.endings()
		if was.order == nil && (lf == 0 || lf != crlf) {
			n := 1
			if all {
				n = -1
			}
			if want := bytes.Replace(was.body, []byte(old), []byte(new), n); !bytes.Equal(got.Bytes[len(was.mark):], want) {
				t.Fatalf("%q, want %q", got.Bytes, want)
			}
		}
		if d := Unified("f", file, got.Bytes, true, true); d.Text == "" || d.Bytes == 0 || !utf8.ValidString(d.Text) {
			t.Fatalf("diff %+v", d)
		}
	})
}
