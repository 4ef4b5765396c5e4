package fileops

import (
	"testing"

	"holdpoint/op"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name, file string
		want       op.TextFacts
		lines      int64
	}{
		{"empty", "", op.TextFacts{Encoding: "utf-8", EOL: "none"}, 0},
		{"one line without newline", "a", op.TextFacts{Encoding: "utf-8", EOL: "none"}, 1},
		{"lf", "a\nb\n", op.TextFacts{Encoding: "utf-8", EOL: "lf", FinalNewline: true}, 2},
		{"crlf", "a\r\nb", op.TextFacts{Encoding: "utf-8", EOL: "crlf"}, 2},
		{"mixed", "a\r\nb\n", op.TextFacts{Encoding: "utf-8", EOL: "mixed", FinalNewline: true}, 2},
		{"a CR alone ends no line", "a\rb", op.TextFacts{Encoding: "utf-8", EOL: "none"}, 1},
		{"form feed, NEL and U+2028 end no line", "a\x0cb\nc\u2028d\ne\u0085f\n", op.TextFacts{Encoding: "utf-8", EOL: "lf", FinalNewline: true}, 3},
		{"utf-8 mark", "\xef\xbb\xbfa\n", op.TextFacts{Encoding: "utf-8", EOL: "lf", BOM: true, FinalNewline: true}, 1},
		{"utf-8 mark alone", "\xef\xbb\xbf", op.TextFacts{Encoding: "utf-8", EOL: "none", BOM: true}, 0},
		{"utf-16le", "\xff\xfea\x00\r\x00\n\x00b\x00", op.TextFacts{Encoding: "utf-16le", EOL: "crlf", BOM: true}, 2},
		{"utf-16be", "\xfe\xff\x00a\x00\n", op.TextFacts{Encoding: "utf-16be", EOL: "lf", BOM: true, FinalNewline: true}, 1},
		{"utf-16 with an LF byte that is no line ending", "\xff\xfe\x0a\x01\x00\x0a", op.TextFacts{Encoding: "utf-16le", EOL: "none", BOM: true}, 1},
		{"utf-16 of odd length", "\xff\xfea\x00b", op.TextFacts{Encoding: "binary", EOL: "none"}, 1},
		{"utf-32", "\xff\xfe\x00\x00a\x00\x00\x00", op.TextFacts{Encoding: "binary", EOL: "none"}, 1},
		{"latin-1", "caf\xe9\n", op.TextFacts{Encoding: "latin-1", EOL: "lf", FinalNewline: true}, 1},
		{"gbk is not taken for latin-1", "\xd6\xd0\xce\xc4\n", op.TextFacts{Encoding: "unknown-8bit", EOL: "lf", FinalNewline: true}, 1},
		{"windows-1252 quotes", "\x93hi\x94\n", op.TextFacts{Encoding: "unknown-8bit", EOL: "lf", FinalNewline: true}, 1},
		{"zero bytes", "a\x00b\n", op.TextFacts{Encoding: "binary", EOL: "none"}, 1},
		{"controls", "\x01\x02\xff\n", op.TextFacts{Encoding: "binary", EOL: "none"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Describe([]byte(c.file)); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got := Lines([]byte(c.file)); got != c.lines {
				t.Errorf("%d lines, want %d", got, c.lines)
			}
		})
	}
	t.Run("a prefix that ends inside a character", func(t *testing.T) {
		for _, whole := range []string{"a😀", "é", "\xff\xfea\x00b\x00"} {
			want := Describe([]byte(whole)).Encoding
			for n := 2; n < len(whole); n++ {
				if got := DescribePrefix([]byte(whole[:n])).Encoding; got != want {
					t.Errorf("the first %d bytes of %q are %s", n, whole, got)
				}
			}
		}
		if got := DescribePrefix([]byte("caf\xe9x")).Encoding; got != "latin-1" {
			t.Error(got)
		}
	})
	t.Run("decoding stands for exactly the bytes", func(t *testing.T) {
		for file, want := range map[string]string{"\xff\xfe\x3d\xd8\x00\xde": "😀", "\xef\xbb\xbf\ufeffa": "\ufeffa", "a\x00b": "a\x00b", "": ""} {
			if got, ok := DecodeForView([]byte(file)); !ok || got != want {
				t.Errorf("%q gives %q, %v", file, got, ok)
			}
		}
		for _, file := range []string{"\xff\xfe\x3d\xd8", "\xff\xfe\x00\xde\x3d\xd8", "\xff\xfea", "caf\xe9", "\xff\xfe\x3d\xd8a\x00"} {
			if got, ok := DecodeForView([]byte(file)); ok {
				t.Errorf("%q gives %q", file, got)
			}
		}
	})
}

func TestWriteWarnings(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"text over text", "a\n", "b\n", nil},
		{"LF over CRLF", "a\r\n", "b\n", []string{"eol_change"}},
		{"mixed over LF", "a\nb\n", "a\r\nb\n", []string{"eol_change"}},
		{"no line ending on one side", "a\r\n", "b", nil},
		{"mark gone", "\xef\xbb\xbfa\n", "a\n", []string{"bom_change"}},
		{"mark added", "a\n", "\xef\xbb\xbfa\n", []string{"bom_change"}},
		{"warnings of D8: UTF-8 over GBK", "\xd6\xd0\xce\xc4\n", "\xe4\xb8\xad\xe6\x96\x87!\n", []string{"encoding_change"}},
		{"UTF-8 over UTF-16", "\xff\xfea\x00\r\x00\n\x00", "a\n", []string{"eol_change", "bom_change", "encoding_change"}},
		{"text over binary", "\x00\x01", "a\n", []string{"encoding_change"}},
		{"over an empty file", "", "\xef\xbb\xbfa\r\n", nil},
		{"empty over a file", "\xef\xbb\xbfa\r\n", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) { wantWarnings(t, WriteWarnings([]byte(c.old), []byte(c.new)), c.want...) })
	}
}

func TestAppend(t *testing.T) {
	for _, c := range []struct {
		name, old, add string
		want           []string
	}{
		{"after a newline", "a\n", "b\n", nil},
		{"after an unterminated line", "a", "b\n", []string{"no_final_newline"}},
		{"LF to CRLF", "a\r\n", "b\n", []string{"eol_change"}},
		{"CRLF to LF after an unterminated line", "a\nb", "c\r\n", []string{"no_final_newline", "eol_change"}},
		{"nothing", "a", "", nil},
		{"to an empty file", "", "\xef\xbb\xbfb", nil},
		{"a mark inside", "a\n", "\xef\xbb\xbfb\n", []string{"bom_change"}},
		{"UTF-8 to UTF-16", "\xff\xfea\x00\n\x00", "b\n", []string{"encoding_change"}},
		{"UTF-8 to Latin-1", "caf\xe9\n", "café\n", []string{"encoding_change"}},
		{"ASCII to Latin-1", "caf\xe9\n", "cafe\n", nil},
		{"to binary", "\x00", "\x00", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := make([]byte, len(c.old), len(c.old)+100)
			copy(old, c.old)
			got, w := Append(old, []byte(c.add))
			if string(got) != c.old+c.add || string(old) != c.old {
				t.Errorf("%q", got)
			}
			wantWarnings(t, w, c.want...)
			if len(got) > 0 && len(old) > 0 && &got[0] == &old[0] {
				t.Error("the result shares memory with the file")
			}
		})
	}
}
