package gitread

import (
	"context"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdpoint/op"
)

// TestDamage: whatever a repository's files hold, a reading answers or refuses by name; it
// neither hangs nor falls over. (In git's terms: no answer of ours rests on unchecked data
// alone, since objects are named by their digest.)
func TestDamage(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewSource(seed))
	w := newWork(t)
	kinds[4].make(w) // loose and packed, with a merge and a tag
	w.write("src/util.go", "changed\n")
	var files []string
	err := filepath.WalkDir(filepath.Join(w.dir, ".git"), func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Ext(p) != ".sample" && filepath.Base(filepath.Dir(p)) != "hooks" {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	calls := []any{&op.GitStatusArgs{}, &op.GitDiffArgs{From: "HEAD~1"}, &op.GitLogArgs{Paths: []string{"src"}}, &op.GitShowArgs{Rev: "v1"}, &op.GitBlameArgs{Path: "src/util.go"}}
	refused := 0
	for range 150 {
		name := files[rnd.Intn(len(files))]
		good, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), good...)
		switch rnd.Intn(3) {
		case 0:
			for range 1 + rnd.Intn(4) {
				if len(bad) > 0 {
					bad[rnd.Intn(len(bad))] ^= byte(1 << rnd.Intn(8))
				}
			}
		case 1:
			bad = bad[:rnd.Intn(len(bad)+1)]
		default:
			rnd.Read(bad[rnd.Intn(len(bad)+1):])
		}
		// Some files of git are read-only, and objects may be linked: a new one each time.
		put := func(b []byte) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		put(bad)
		for _, args := range calls {
			path := op.Path(".")
			if a, ok := args.(*op.GitBlameArgs); ok {
				path = op.Path(a.Path)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			_, err := Read(ctx, Options{Root: w.root, Path: path, Rules: rules{}}, args)
			if ctx.Err() != nil {
				t.Errorf("%s: %T did not end", name, args)
			}
			cancel()
			if err != nil {
				refused++
				if c := op.AsError(err).Code; c == op.Internal || c == op.Cancelled {
					t.Errorf("%s: %T: %v", name, args, err)
				}
			}
		}
		put(good)
	}
	t.Logf("%d of %d readings refused", refused, 150*len(calls))
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}
