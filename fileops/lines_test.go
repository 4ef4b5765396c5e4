package fileops

import (
	"bytes"
	"strings"
	"testing"

	"holdpoint/op"
)

// Before there were bounds a file of a hundred megabytes of newlines took gigabytes.
func TestManyLines(t *testing.T) {
	many := bytes.Repeat([]byte{'\n'}, maxDiffLines+1)
	t.Run("S78 (part) of very many lines a diff tells sizes and hashes", func(t *testing.T) {
		d := Unified("f", many, []byte("x"), true, true)
		if !d.Binary || d.Bytes < maxDiffLines || !strings.Contains(d.Text, "-too many lines, 1000001 bytes, blake3:") || strings.Count(d.Text, "\n") != 4 {
			t.Errorf("%d bytes: %.300s", d.Bytes, d.Text)
		}
	})
	t.Run("S78 (part) only those between the first and the last change count", func(t *testing.T) {
		d := Unified("f", append(many, "a\n"...), append(bytes.Clone(many), "b\n"...), true, true)
		if d.Binary || d.Added != 1 || d.Removed != 1 {
			t.Errorf("%+v", d)
		}
	})
	t.Run("S78 (part) a patch of very many lines, and one of a file of such, are too large", func(t *testing.T) {
		if _, err := parsePatch(many); op.AsError(err).Code != op.TooLarge {
			t.Error(err)
		}
		if _, _, err := applyHunks(bytes.Repeat([]byte{'\n'}, maxPatchedLines+1), filePatch{}); op.AsError(err).Code != op.TooLarge {
			t.Error(err)
		}
	})
}
