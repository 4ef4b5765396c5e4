package fileops

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"holdpoint/op"
)

// FuzzPatch holds whatever a patch says: no panic, an error of the known codes, or files
// whose hunks, where they fit, change exactly their lines: the same hunks the other way
// round bring the old bytes back.
func FuzzPatch(f *testing.F) {
	for _, s := range [][2]string{
		{"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\nb\n"},
		{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "a"},
		{"diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -2,3 +2,4 @@\n b\n+n\n c\n d\n", "a\nb\nc\nd\n"},
		{"diff --git a/b.bin b/b.bin\nnew file mode 100755\nindex 0000000..1111111\nGIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\nliteral 0\nHcmV?d00001\n\n", ""},
		{"*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+c\n*** End of File\n*** End Patch\n", "a\nb\n"},
		{"*** Begin Patch\n*** Add File: n\n+x\n*** Delete File: o\n*** Update File: p\n*** Move to: q\n@@\n-x\n+y\n*** End Patch\n", "x\n"},
		{"--- a/f\r\n+++ b/f\r\n@@ -1,1 +1,1 @@\r\n-a\r\n+b\r\n", "a\r\n"},
		{"--- \"a/\\303\\251\"\n+++ \"b/\\303\\251\"\n@@ -0,0 +1 @@\n+x\n", ""},
		{"diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "x"},
		{"--- /dev/null\n+++ b/f\n@@ -0,0 +1,2 @@\n+x\n+y\n", ""},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	f.Fuzz(func(t *testing.T, patch, file []byte) {
		text := string(patch)
		files, err := filesOf(&op.PatchArgs{Patch: &text})
		if err != nil {
			fuzzCode(t, err)
			return
		}
		for _, p := range files {
			if p.noData || p.binary != nil {
				continue
			}
			got, _, err := applyHunks(file, p)
			if err != nil {
				fuzzCode(t, err)
				continue
			}
			if p.anywhere { // an envelope forgives a missing last newline, so it has no other way round
				continue
			}
			back := p
			back.hunks, back.anchored = nil, false
			for _, h := range p.hunks {
				r := h
				r.oldStart, r.oldLines, r.newStart, r.newLines, r.lines = h.newStart, h.newLines, h.oldStart, h.oldLines, nil
				for _, l := range h.lines {
					switch l.mark {
					case '-':
						l.mark = '+'
					case '+':
						l.mark = '-'
					}
					r.lines = append(r.lines, l)
				}
				back.hunks = append(back.hunks, r)
			}
			again, _, err := applyHunks(got, back)
			if err == nil && !bytes.Equal(again, file) && unmoved(p, file) && wholeLines(p) {
				t.Fatalf("%q patched by %q gives %q, and back %q", file, patch, got, again)
			}
		}
	})
}

// unmoved reports whether each hunk stands where its heading says; another place may
// be a different one on the way back.
func unmoved(p filePatch, file []byte) bool {
	lines, from := splitLines(file), 0
	for _, h := range p.hunks {
		if want := h.side('-'); len(want) == 0 || h.stated() < from || !fits(lines, want, h.stated(), false) || len(h.side('+')) == 0 {
			return false
		}
		from = h.stated() + len(h.side('-'))
	}
	return shiftsRight(p)
}

// shiftsRight reports whether the new numbers of the headings follow from the old ones.
func shiftsRight(p filePatch) bool {
	shift := int64(0)
	for _, h := range p.hunks {
		if h.newStart != h.oldStart+shift {
			return false
		}
		shift += h.newLines - h.oldLines
	}
	return true
}

// wholeLines reports whether only a last line lacks its newline.
func wholeLines(p filePatch) bool {
	for i, h := range p.hunks {
		for _, mark := range []byte{'-', '+'} {
			side := h.side(mark)
			for k, l := range side {
				if !bytes.HasSuffix(l, []byte("\n")) && (i < len(p.hunks)-1 || k < len(side)-1) {
					return false
				}
			}
		}
	}
	return true
}

func fuzzCode(t *testing.T, err error) {
	t.Helper()
	if e := op.AsError(err); !slices.Contains([]op.Code{op.BadRequest, op.PatchParse, op.PatchMismatch, op.TooLarge, op.NotAvailable, op.InvalidPath, op.AmbiguousMatch, op.PointerError, op.InvalidDocument, op.OutsideWorkspace}, e.Code) {
		t.Fatalf("%s: %s", e.Code, e.Message)
	}
}

// FuzzDiff: what a diff says of two texts, applied as a patch to the one, gives the other.
func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nx\nc\n"))
	f.Add([]byte("a"), []byte("a\n"))
	f.Add([]byte("a\r\nb"), []byte("b\r\na\r\n"))
	f.Add([]byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"), []byte("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n12\n13"))
	f.Fuzz(func(t *testing.T, old, new []byte) {
		d := Unified("f", old, new, true, true)
		if bytes.Equal(old, new) || d.Text == "" || Describe(old).Encoding == encBinary || Describe(new).Encoding == encBinary {
			return
		}
		files, err := parsePatch([]byte(d.Text))
		if err != nil || len(files) != 1 {
			if bytes.ContainsAny(append(bytes.Clone(old), new...), "\r\x00") || !bytes.Equal(bytes.ToValidUTF8(old, nil), old) || !bytes.Equal(bytes.ToValidUTF8(new, nil), new) {
				return // a diff is for reading: what does not show is written so that it does
			}
			t.Fatalf("%q: %v", d.Text, err)
		}
		got, _, err := applyHunks(old, files[0])
		if err == nil && !bytes.Equal(got, new) && asciiText(old) && asciiText(new) {
			t.Fatalf("%q and %q: the diff\n%s\ngives %q", old, new, d.Text, got)
		}
		if err != nil && asciiText(old) && asciiText(new) {
			t.Fatalf("%q and %q: the diff\n%s\ndoes not apply: %v", old, new, d.Text, err)
		}
	})
}

// asciiText holds for what a diff shows as it is.
func asciiText(b []byte) bool {
	for _, c := range b {
		if c != '\n' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// FuzzPointer: an operation on a document is refused, or gives a document that says what
// it should, and can still be read.
func FuzzPointer(f *testing.F) {
	for _, s := range [][4]string{{"json", "{\"a\": [1, 2], // x\n}", "set", "/a/0"}, {"yaml", "a:\n  - b # c\n  - d: |\n      e\n", "append", "/a"}, {"toml", "a = 1\n[b]\nc.d = [1,\n2]\n", "remove", "/b/c/d/0"},
		{"yaml", "{a: &x [1], b: *x}\n", "replace", "/b"}, {"json", "[]", "insert", "/-"}, {"toml", "[[a]]\nb='''\nx'''\n", "test", "/a/0/b"}} {
		f.Add(s[0], []byte(s[1]), s[2], s[3], `{"k":[1,"v"]}`)
	}
	f.Fuzz(func(t *testing.T, format string, text []byte, do, path, value string) {
		if len(text) > 2000 || len(value) > 500 {
			return
		}
		a := &op.PatchArgs{Path: "f", Format: format, Operations: []op.PointerOp{{Op: do, Path: path, Value: op.Raw(value)}}}
		if o, err := op.ParseJSON([]byte(`{"v":` + value + `}`)); value != "" && (err != nil || len(o) != 1) {
			return // the call would not have been read
		}
		if checkPointers(a) != nil {
			return
		}
		d, err := docFormatOf(a, "f")
		if err != nil {
			fuzzCode(t, err)
			return
		}
		was := bytes.Clone(text)
		got, err := applyPointers(d, text, a.Operations)
		if !bytes.Equal(was, text) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			fuzzCode(t, err)
			return
		}
		before, _ := d.decode(text)
		after, err := d.decode(got)
		if err != nil {
			t.Fatalf("%q: cannot be read any more: %v", got, err)
		}
		if do == "test" && !reflect.DeepEqual(before, after) {
			t.Fatalf("a test changed %q to %q", text, got)
		}
	})
}
