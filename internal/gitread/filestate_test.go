package gitread

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"holdpoint/op"
)

// TestFileState tells each file's state as git's status and check-ignore do.
func TestFileState(t *testing.T) {
	w := newWork(t)
	history(w)
	w.write(".gitignore", "*.log\n")
	w.write("tracked.log", "x")
	w.git("add", "-f", "tracked.log", ".gitignore")
	w.git("commit", "-q", "-m", "more")
	w.write("noeol", "other")
	w.write("new", "x")
	w.write("a.log", "x")
	w.write("deep/er/new", "x")
	w.write("staged", "x")
	w.git("add", "staged")
	w.write("f.txt", "x")
	w.git("add", "f.txt")
	w.git("commit", "-q", "-m", "f")
	w.write(".gitattributes", "f.txt filter=f\n")
	w.write("f.txt", "y")
	for path, want := range map[string]string{"noeol": "changed  M", "new": "untracked", "deep/er/new": "untracked", "a.log": "ignored", "tracked.log": "unchanged",
		"f.txt": "undecided", ".git/config": "", ".gitignore": "unchanged"} {
		s, err := FileState(context.Background(), Options{Root: w.root, Rules: rules{}}, op.Path(path))
		got := ""
		if s != nil {
			got = s["state"].(string)
			if l, ok := s["status"]; ok {
				got += " " + l.(string)
			}
		}
		if err != nil || got != want {
			t.Errorf("%s: got %q %v, want %q", path, got, err, want)
		}
	}
	bare := newWork(t)
	if err := os.WriteFile(filepath.Join(bare.dir, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := FileState(context.Background(), Options{Root: bare.root, Rules: rules{}}, "x"); s != nil || err != nil {
		t.Errorf("without a repository: %v %v", s, err)
	}
}
