package flow_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"holdpoint/op"
)

// TestFactsByPage: the pages of an answer are what the whole answer holds, with one digest,
// which moves with each fact that is pinned, also of a path that stands on another page.
func TestFactsByPage(t *testing.T) {
	e, by, root := engine(t)
	var paths []string
	for i := range 25 {
		p := fmt.Sprintf("d%d/f%02d.txt", i%3, i)
		if err := errors.Join(os.MkdirAll(filepath.Join(root, filepath.Dir(p)), 0o755), os.WriteFile(filepath.Join(root, p), fmt.Appendf(nil, "text %03d\n", i), 0o644)); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	paths = append(paths, "d0", "none.txt", "d1/../d1/f01.txt")
	if err := os.Symlink("f00.txt", filepath.Join(root, "d0/link")); err != nil {
		t.Fatal(err)
	}
	paths = append(paths, "d0/link")
	time.Sleep(100 * time.Millisecond) // so that what is read is remembered
	read := func() (all []op.Target, digest op.Digest) {
		t.Helper()
		for page := (op.Page{Size: 10}); ; {
			p := e.Facts(t.Context(), by, "", paths, page)
			if p.Error != nil || p.Total != len(paths) || p.Pins != "" || digest != "" && p.Digest != digest {
				t.Fatalf("%+v", p)
			}
			all, digest = append(all, p.Facts.Targets...), p.Digest
			if page.After = p.Next; p.Next == "" {
				return all, digest
			}
		}
	}
	whole := e.Facts(t.Context(), by, "", paths, op.Page{})
	if whole.Error != nil || whole.Pins == "" || whole.Next != "" {
		t.Fatalf("%+v", whole)
	}
	all, digest := read()
	if !reflect.DeepEqual(all, whole.Facts.Targets) {
		t.Errorf("the pages hold\n%+v\nthe whole\n%+v", all, whole.Facts.Targets)
	}
	at := filepath.Join(root, paths[24])
	was, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(at, []byte("text xyz\n"), 0o644), os.Chtimes(at, was.ModTime(), was.ModTime())); err != nil {
		t.Fatal(err)
	}
	if _, now := read(); now == digest || now == "" {
		t.Errorf("a file changed and the digest stayed %s", now)
	}
	for _, cursor := range []string{"x", "-1", "30"} {
		if p := e.Facts(t.Context(), by, "", paths, op.Page{Size: 10, After: cursor}); !errors.Is(p.Error, op.BadRequest) || p.Facts != nil {
			t.Errorf("%q: %+v", cursor, p)
		}
	}
}

// TestBelowIsJudgedAnew: the names below a directory are judged once for a manifest, and
// again when the lists of protected names change.
func TestBelowIsJudgedAnew(t *testing.T) {
	e, by, root := engine(t)
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "d/s"), 0o755), os.WriteFile(filepath.Join(root, "d/s/ledger.txt"), []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	contains := func() bool {
		t.Helper()
		p := e.Preflight(t.Context(), by, op.Request{Op: op.DeleteFile, Args: op.Object{"path": "d", "recursive": true}}, nil)
		if p.Error != nil {
			t.Fatal(p.Error)
		}
		return p.Facts.Targets[0].ContainsProtected
	}
	if contains() || contains() {
		t.Error("nothing below is protected yet")
	}
	if err := os.WriteFile(filepath.Join(root, ".holdpoint-protect"), []byte("ledger.txt\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !contains() || !contains() {
		t.Error("a name that the workspace protects since is not")
	}
	if err := errors.Join(os.Remove(filepath.Join(root, ".holdpoint-protect")), os.WriteFile(filepath.Join(root, "d/s/.env"), []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if !contains() {
		t.Error("a protected name that came since is not seen")
	}
}
