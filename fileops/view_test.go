package fileops

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdpoint/op"
)

func ptr(n int64) *int64 { return &n }

func window(t *testing.T, file string, a op.ViewArgs) View {
	t.Helper()
	v, err := Window(bytesSource(file), a)
	if err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	return v
}

// wantView asserts content, line numbers, end and way to go on.
func wantView(t *testing.T, v View, content string, start, end, total int64, eof bool, next int64, arg, truncated string) {
	t.Helper()
	if string(v.Content) != content {
		t.Errorf("content %.80q (%d bytes), want %.80q (%d bytes)", v.Content, len(v.Content), content, len(content))
	}
	if v.StartLine != start || v.EndLine != end || v.TotalLines != total {
		t.Errorf("lines %d to %d of %d, want %d to %d of %d", v.StartLine, v.EndLine, v.TotalLines, start, end, total)
	}
	if v.EOF != eof || v.Next != next || v.NextArg != arg || v.Truncated != truncated {
		t.Errorf("eof %v next %d %q truncated %q, want %v %d %q %q", v.EOF, v.Next, v.NextArg, v.Truncated, eof, next, arg, truncated)
	}
}

func TestWindowOfLines(t *testing.T) {
	t.Run("view of D13: only LF ends a line", func(t *testing.T) {
		file := "a\x0cb\nc\xe2\x80\xa8d\ne\xc2\x85f\n"
		v := window(t, file, op.ViewArgs{StartLine: ptr(2), EndLine: ptr(2)})
		wantView(t, v, "c\u2028d\n", 2, 2, 3, false, 3, "start_line", "")
	})
	t.Run("the whole file", func(t *testing.T) {
		v := window(t, "a\r\nb", op.ViewArgs{})
		wantView(t, v, "a\r\nb", 1, 2, 2, true, 0, "", "")
		if !v.Whole() || window(t, "a\nb\n", op.ViewArgs{EndLine: ptr(1)}).Whole() || window(t, "a\nb\n", op.ViewArgs{StartLine: ptr(2)}).Whole() {
			t.Error("Whole is wrong")
		}
	})
	t.Run("an empty file and one with a mark only", func(t *testing.T) {
		wantView(t, window(t, "", op.ViewArgs{}), "", 1, 0, 0, true, 0, "", "")
		wantView(t, window(t, "", op.ViewArgs{TailLines: ptr(3)}), "", 1, 0, 0, true, 0, "", "")
		wantView(t, window(t, "\xef\xbb\xbf", op.ViewArgs{}), "\xef\xbb\xbf", 1, 0, 0, true, 0, "", "")
	})
	t.Run("ranges at and behind the end", func(t *testing.T) {
		wantView(t, window(t, "a\nb\n", op.ViewArgs{StartLine: ptr(2), EndLine: ptr(9)}), "b\n", 2, 2, 2, true, 0, "", "")
		wantView(t, window(t, "a\nb\n", op.ViewArgs{StartLine: ptr(3)}), "", 3, 2, 2, true, 0, "", "")
		wantView(t, window(t, "a\nb\n", op.ViewArgs{EndLine: ptr(1)}), "a\n", 1, 1, 2, false, 2, "start_line", "")
	})
	t.Run("the tail", func(t *testing.T) {
		wantView(t, window(t, "a\nb\nc", op.ViewArgs{TailLines: ptr(2)}), "b\nc", 2, 3, 3, true, 0, "", "")
		wantView(t, window(t, "a\nb\n", op.ViewArgs{TailLines: ptr(1)}), "b\n", 2, 2, 2, true, 0, "", "")
		wantView(t, window(t, "a\nb\n", op.ViewArgs{TailLines: ptr(9)}), "a\nb\n", 1, 2, 2, true, 0, "", "")
	})
	t.Run("a large file without a range is a preview", func(t *testing.T) {
		many := strings.Repeat("x\n", 10_001)
		wantView(t, window(t, many, op.ViewArgs{}), many[:20_000], 1, 10_000, 10_001, false, 10_001, "start_line", "preview")
		wide := strings.Repeat(strings.Repeat("x", 1023)+"\n", 300)
		wantView(t, window(t, wide, op.ViewArgs{}), wide[:256<<10], 1, 256, 300, false, 257, "start_line", "preview")
		wantView(t, window(t, wide[:256<<10], op.ViewArgs{}), wide[:256<<10], 1, 256, 256, true, 0, "", "")
	})
	t.Run("a window of lines has limits", func(t *testing.T) {
		many := strings.Repeat("x\n", 20_001)
		wantView(t, window(t, many, op.ViewArgs{StartLine: ptr(1)}), many[:20_000], 1, 10_000, 20_001, false, 10_001, "start_line", "lines")
		wide := strings.Repeat(strings.Repeat("x", 32<<10-1)+"\n", 40)
		wantView(t, window(t, wide, op.ViewArgs{StartLine: ptr(2), EndLine: ptr(40)}), wide[32<<10:33*32<<10], 2, 33, 40, false, 34, "start_line", "bytes")
	})
	t.Run("view of D73: one very long line", func(t *testing.T) {
		file := "head\n" + strings.Repeat("é", 300_000) + "\ntail\n"
		v := window(t, file, op.ViewArgs{})
		wantView(t, v, file[:5+64<<10], 1, 2, 3, false, 5+64<<10, "offset", "line_too_long")
		joined, next := string(v.Content), v.Next
		for next != 0 {
			v = window(t, file, op.ViewArgs{Offset: ptr(next)})
			joined, next = joined+string(v.Content), v.Next
		}
		if joined != file || v.EndLine != 3 {
			t.Errorf("%d bytes of %d, last line %d", len(joined), len(file), v.EndLine)
		}
		// An even cut would part a character that begins at an odd offset.
		odd := "x" + file[5:]
		if v := window(t, odd, op.ViewArgs{}); len(v.Content) != 64<<10-1 {
			t.Errorf("cut after %d bytes", len(v.Content))
		}
		exact := strings.Repeat("x", 64<<10) + "\r\n"
		wantView(t, window(t, exact, op.ViewArgs{}), exact, 1, 1, 1, true, 0, "", "")
	})
	t.Run("UTF-16", func(t *testing.T) {
		file := "\xff\xfea\x00\n\x00\x0a\x01\n\x00"
		v := window(t, file, op.ViewArgs{StartLine: ptr(2)})
		wantView(t, v, "\x0a\x01\n\x00", 2, 2, 2, true, 0, "", "")
		if text, ok := v.Text(); !ok || text != "\u010a\n" || v.Encoding != "utf-16le" {
			t.Errorf("%q %v %s", text, ok, v.Encoding)
		}
		if text, ok := window(t, file, op.ViewArgs{EndLine: ptr(1)}).Text(); !ok || text != "a\n" {
			t.Errorf("%q %v", text, ok)
		}
	})
	t.Run("the modes exclude each other", func(t *testing.T) {
		for _, a := range []op.ViewArgs{
			{StartLine: ptr(1), Offset: ptr(0)}, {EndLine: ptr(1), Limit: ptr(1)}, {StartLine: ptr(1), TailLines: ptr(1)}, {Offset: ptr(0), TailLines: ptr(1)},
			{StartLine: ptr(2), EndLine: ptr(1)}, {StartLine: ptr(0)}, {Offset: ptr(-1)}, {Limit: ptr(0)}, {TailLines: ptr(0)},
		} {
			if _, err := Window(bytesSource("a\nb\n"), a); !errors.Is(err, op.BadRequest) {
				t.Errorf("%+v: %v", a, err)
			}
		}
	})
}

func TestWindowOfBytes(t *testing.T) {
	t.Run("D78 a limit does not cut a character", func(t *testing.T) {
		file := "aa\xf0\x9f\x98\x80bb"
		v := window(t, file, op.ViewArgs{Limit: ptr(3)})
		wantView(t, v, "aa", 1, 1, 1, false, 2, "offset", "bytes")
		joined := string(v.Content)
		v = window(t, file, op.ViewArgs{Offset: ptr(v.Next), Limit: ptr(3)})
		wantView(t, v, "😀", 1, 1, 1, false, 6, "offset", "bytes")
		joined += string(v.Content)
		v = window(t, file, op.ViewArgs{Offset: ptr(v.Next), Limit: ptr(3)})
		wantView(t, v, "bb", 1, 1, 1, true, 0, "", "")
		if joined += string(v.Content); joined != file {
			t.Errorf("pages joined give %q", joined)
		}
	})
	t.Run("an offset inside a character moves back", func(t *testing.T) {
		for off := int64(2); off < 6; off++ {
			v := window(t, "aa😀bb", op.ViewArgs{Offset: &off, Limit: ptr(5)})
			if v.Offset != 2 || string(v.Content) != "😀b" {
				t.Errorf("from %d: offset %d, %q", off, v.Offset, v.Content)
			}
		}
		v := window(t, "\xfe\xff\xd8\x3d\xde\x00\x00a", op.ViewArgs{Offset: ptr(5), Limit: ptr(1)})
		if text, ok := v.Text(); v.Offset != 2 || !ok || text != "😀" || v.Next != 6 {
			t.Errorf("offset %d, next %d, %q", v.Offset, v.Next, text)
		}
	})
	t.Run("bytes that are no characters are cut anywhere", func(t *testing.T) {
		v := window(t, "\x80\x81\x82\x83\xf0\x9f\xff", op.ViewArgs{Offset: ptr(1), Limit: ptr(5)})
		if string(v.Content) != "\x81\x82\x83\xf0\x9f" || v.Offset != 1 {
			t.Errorf("%q from %d", v.Content, v.Offset)
		}
		if _, ok := v.Text(); ok {
			t.Error("these bytes are no text")
		}
	})
	t.Run("behind the end, and lines of a window", func(t *testing.T) {
		wantView(t, window(t, "a\nb\nc\n", op.ViewArgs{Offset: ptr(99)}), "", 4, 3, 3, true, 0, "", "")
		wantView(t, window(t, "a\nb\nc\n", op.ViewArgs{Offset: ptr(2), Limit: ptr(3)}), "b\nc", 2, 3, 3, false, 5, "offset", "bytes")
		wantView(t, window(t, "a\nb\nc\n", op.ViewArgs{Offset: ptr(2), Limit: ptr(2)}), "b\n", 2, 2, 3, false, 4, "offset", "bytes")
	})
	t.Run("pages joined equal the file", func(t *testing.T) {
		seed := uint64(7)
		t.Log("seed", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		pieces := []string{"a", "é", "€", "😀", "\n", "\r\n", "\xff", "\x80", "\xf0\x9f"}
		for range 300 {
			var b strings.Builder
			if r.IntN(4) == 0 {
				b.WriteString("\xff\xfe")
			}
			for range r.IntN(30) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			file, limit := b.String(), 1+r.Int64N(6)
			joined, next := "", int64(0)
			for {
				v := window(t, file, op.ViewArgs{Offset: ptr(next), Limit: &limit})
				if joined += string(v.Content); v.EOF {
					break
				}
				if v.Next <= next {
					t.Fatalf("%q limit %d: next %d after %d", file, limit, v.Next, next)
				}
				next = v.Next
			}
			if joined != file {
				t.Fatalf("%q limit %d: %q", file, limit, joined)
			}
		}
	})
}

// hugeSource is 3 GiB of numbered lines of 16 bytes that are never held in memory.
type hugeSource struct{ read *int64 }

const hugeLines = 3 << 30 / 16

func (hugeSource) Size() int64 { return hugeLines * 16 }
func (h hugeSource) ReadAt(off int64, n int) ([]byte, error) {
	*h.read += int64(n)
	if n > 2<<20 {
		return nil, errors.New("asked for too much at once")
	}
	b := make([]byte, 0, n+32)
	for line := off / 16; len(b) < n+16; line++ {
		b = fmt.Appendf(b, "%015d\n", line+1)
	}
	return b[off%16:][:n], nil
}

func TestWindowOfLargeFiles(t *testing.T) {
	t.Run("a huge file in bytes is not read through", func(t *testing.T) {
		var read int64
		v, err := Window(hugeSource{&read}, op.ViewArgs{Offset: ptr(2 << 30), Limit: ptr(16)})
		if err != nil || v.TotalLines != -1 || v.StartLine != 0 || string(v.Content) != fmt.Sprintf("%015d\n", 2<<30/16+1) {
			t.Errorf("%q, %d lines, %v", v.Content, v.TotalLines, err)
		}
		if read > 4<<20 {
			t.Errorf("%d bytes read", read)
		}
	})
	t.Run("lines across blocks", func(t *testing.T) {
		var b strings.Builder
		for i := range 300_000 {
			fmt.Fprintf(&b, "line %d\n", i+1)
		}
		file := b.String()
		for _, n := range []int64{1, 2, 99_999, 150_000, 300_000} {
			v := window(t, file, op.ViewArgs{StartLine: &n, EndLine: &n})
			if string(v.Content) != fmt.Sprintf("line %d\n", n) || v.TotalLines != 300_000 {
				t.Errorf("line %d is %q of %d", n, v.Content, v.TotalLines)
			}
			w := window(t, file, op.ViewArgs{Offset: &v.Offset, Limit: ptr(3)})
			if w.StartLine != n || w.EndLine != n {
				t.Errorf("offset %d is in lines %d to %d, want %d", v.Offset, w.StartLine, w.EndLine, n)
			}
		}
	})
	t.Run("lines at the border of a block", func(t *testing.T) {
		seed := uint64(11)
		t.Log("seed", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		for range 20 {
			file := strings.Repeat("x", block-r.IntN(3)) + strings.Repeat("\n", r.IntN(4)) + strings.Repeat("yy\n", r.IntN(3)) + strings.Repeat("z", r.IntN(2))
			lines := strings.SplitAfter(file, "\n")
			if lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			for i, want := range lines[1:] {
				n := int64(i + 2)
				if v := window(t, file, op.ViewArgs{StartLine: &n, EndLine: &n}); string(v.Content) != want || v.TotalLines != int64(len(lines)) {
					t.Fatalf("line %d of %d: %q, want %q", n, v.TotalLines, v.Content, want)
				}
			}
		}
	})
	t.Run("a file that shrinks meanwhile is stale", func(t *testing.T) {
		if _, err := Window(shrunk{}, op.ViewArgs{}); !errors.Is(err, op.Stale) {
			t.Error(err)
		}
		if _, err := Window(broken{}, op.ViewArgs{}); !errors.Is(err, op.IOError) {
			t.Error(err)
		}
	})
}

type shrunk struct{}

func (shrunk) Size() int64                             { return 100 }
func (shrunk) ReadAt(off int64, n int) ([]byte, error) { return []byte("short"), nil }

type broken struct{}

func (broken) Size() int64                             { return 100 }
func (broken) ReadAt(off int64, n int) ([]byte, error) { return nil, op.Fail(op.IOError, "broken") }
