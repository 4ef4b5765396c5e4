package fileops

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1" // what git names objects by; nothing here rests on its strength
	"fmt"
	"slices"
	"unicode/utf8"

	"holdpoint/op"
)

// FileChange is one file in two versions. A mode is git's: 100644, 100755, or 120000 for a
// link, whose bytes are its text; empty where there is no file.
type FileChange struct {
	Path             op.Path
	OldMode, NewMode string
	Old, New         []byte
}

// GitPatch writes changes as a patch that git apply takes, ordered by path. What is not
// UTF-8 goes in as binary, with both versions, so that the patch can be taken back too.
// Directories are not in it: git knows none.
func GitPatch(list []FileChange) []byte {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b FileChange) int { return cmp.Compare(a.Path, b.Path) })
	var out bytes.Buffer
	for _, c := range list {
		if c.OldMode[:min(3, len(c.OldMode))] != c.NewMode[:min(3, len(c.NewMode))] && c.OldMode != "" && c.NewMode != "" {
			// A link that becomes a file, or a file that becomes one, goes and comes.
			writeChange(&out, FileChange{Path: c.Path, OldMode: c.OldMode, Old: c.Old})
			writeChange(&out, FileChange{Path: c.Path, NewMode: c.NewMode, New: c.New})
			continue
		}
		writeChange(&out, c)
	}
	return out.Bytes()
}

func writeChange(out *bytes.Buffer, c FileChange) {
	same := bytes.Equal(c.Old, c.New)
	if c.OldMode == c.NewMode && (same || c.OldMode == "") {
		return
	}
	fmt.Fprintf(out, "diff --git %s %s\n", gitName("a/", c.Path), gitName("b/", c.Path))
	switch {
	case c.OldMode == "":
		fmt.Fprintf(out, "new file mode %s\n", c.NewMode)
	case c.NewMode == "":
		fmt.Fprintf(out, "deleted file mode %s\n", c.OldMode)
	case c.OldMode != c.NewMode:
		fmt.Fprintf(out, "old mode %s\nnew mode %s\n", c.OldMode, c.NewMode)
	}
	binary := !patchText(c.Old) || !patchText(c.New)
	switch {
	case same && !(binary && (c.OldMode == "" || c.NewMode == "")):
	case binary:
		fmt.Fprintf(out, "index %s..%s\nGIT binary patch\n", blobID(c.OldMode, c.Old), blobID(c.NewMode, c.New))
		literal(out, c.New)
		literal(out, c.Old)
	default:
		raw, _ := hunks(c.Old, c.New, contextLines)
		fmt.Fprintf(out, "--- %s\n+++ %s\n", heading("a/", Side{Path: c.Path, Exists: c.OldMode != ""}), heading("b/", Side{Path: c.Path, Exists: c.NewMode != ""}))
		out.Write(raw)
	}
}

func patchText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// gitName is a name for the first line of a section, where a space needs no tab.
func gitName(prefix string, p op.Path) string {
	return string(bytes.TrimSuffix([]byte(heading(prefix, Side{Path: p, Exists: true})), []byte("\t")))
}

func blobID(mode string, b []byte) string {
	if mode == "" {
		return fmt.Sprintf("%040d", 0)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(b))
	h.Write(b)
	return fmt.Sprintf("%x", h.Sum(nil))
}

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// literal writes a whole version, deflated, in lines of 52 bytes with their length ahead.
func literal(out *bytes.Buffer, b []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(b) // to memory, which does not fail
	z.Close()
	fmt.Fprintf(out, "literal %d\n", len(b))
	for rest := packed.Bytes(); len(rest) > 0; {
		n := min(52, len(rest))
		if n <= 26 {
			out.WriteByte(byte('A' + n - 1))
		} else {
			out.WriteByte(byte('a' + n - 27))
		}
		for i := 0; i < n; i += 4 {
			var word [4]byte
			copy(word[:], rest[i:min(i+4, n)])
			v := uint32(word[0])<<24 | uint32(word[1])<<16 | uint32(word[2])<<8 | uint32(word[3])
			var five [5]byte
			for k := 4; k >= 0; k-- {
				five[k] = base85[v%85]
				v /= 85
			}
			out.Write(five[:])
		}
		out.WriteByte('\n')
		rest = rest[n:]
	}
	out.WriteByte('\n')
}
