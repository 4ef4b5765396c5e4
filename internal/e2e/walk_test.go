package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// walker does random operations on a repository.
type walker struct {
	*daemon
	t       *testing.T
	r       *rand.Rand
	n       int
	done    []M
	kinds   map[string]int
	markers []string
	seed    uint64
}

// walkLength is how many operations a walk has: a slice by default, more when asked for.
func walkLength(t *testing.T, slice int) int {
	if n, err := strconv.Atoi(os.Getenv("HOLDPOINT_WALK")); err == nil && n > 0 {
		return n
	}
	t.Logf("%d operations; HOLDPOINT_WALK=2000 does more", slice)
	return slice
}

func newWalker(t *testing.T, seed uint64) *walker {
	d := start(t)
	for _, dir := range []string{"op", "undo", "audit", "docs", "trusted"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil {
				write(t, filepath.Join(d.Root, dir, filepath.Base(f)), string(b))
			}
		}
	}
	git := exec.Command("git", "init", "-q", d.Root)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	t.Logf("seed %d", seed)
	return &walker{daemon: d, t: t, r: rand.New(rand.NewPCG(seed, 3)), kinds: map[string]int{}, seed: seed}
}

func (w *walker) list(dirs bool) (out []string) {
	filepath.WalkDir(w.Root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == w.Root {
			return nil
		}
		rel, _ := filepath.Rel(w.Root, p)
		if rel == ".git" {
			return fs.SkipDir
		}
		if e.IsDir() == dirs {
			out = append(out, rel)
		}
		return nil
	})
	return out
}

func (w *walker) pick(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return list[w.r.IntN(len(list))]
}

func (w *walker) name() string {
	w.n++
	return fmt.Sprintf("%s/n%d.txt", w.pick(append(w.list(true), fmt.Sprintf("made%d/in", w.n))), w.n)
}

// editOf gives the arguments of an edit that fits.
func (w *walker) editOf(path string) M {
	b, _ := os.ReadFile(filepath.Join(w.Root, path))
	lines := strings.Split(string(b), "\n")
	for range 20 {
		l := lines[w.r.IntN(len(lines))]
		if strings.TrimSpace(l) == "" || bytes.Count(b, []byte(l+"\n")) != 1 || !utf8.ValidString(l) {
			continue
		}
		w.n++
		to := []string{fmt.Sprintf("%s // edit %d", l, w.n), fmt.Sprintf("// instead %d", w.n), fmt.Sprintf("%s\n// after %d", l, w.n), l + "  "}[w.r.IntN(4)]
		return M{"path": path, "old_string": l + "\n", "new_string": to + "\n"}
	}
	return nil
}

func (w *walker) operation() (string, M) {
	file, dir := w.pick(w.list(false)), w.pick(w.list(true))
	switch w.r.IntN(20) {
	case 0:
		return "write_file", M{"path": w.name(), "content": fmt.Sprintf("new %d\nsecond\nthird\n", w.n)}
	case 1:
		return "write_file", M{"path": file, "content": fmt.Sprintf("overwritten %d\nrest\n", w.n)}
	case 2:
		return "write_file", M{"path": file, "content": fmt.Sprintf("appended %d\n", w.n), "append": true}
	case 3:
		return "create_directory", M{"path": filepath.Dir(w.name()) + fmt.Sprintf("/d%d/e", w.n)}
	case 4:
		return "copy_file", M{"source": file, "destination": w.name()}
	case 5:
		return "copy_file", M{"source": dir, "destination": fmt.Sprintf("copy%d", w.r.IntN(1000)), "recursive": true}
	case 6:
		return "move_file", M{"source": file, "destination": w.name()}
	case 7:
		return "move_file", M{"source": dir, "destination": fmt.Sprintf("moved%d/here", w.r.IntN(1000))}
	case 8:
		return "delete_file", M{"path": file}
	case 9:
		if w.r.IntN(3) == 0 {
			return "delete_file", M{"path": dir, "recursive": true}
		}
		return "backup_file", M{"path": file}
	case 10:
		return "rollback_file", M{"path": file, "last": true}
	case 11:
		items := []any{}
		for range 2 + w.r.IntN(3) {
			if e := w.editOf(w.pick(w.list(false))); e != nil {
				items = append(items, M{"op": "edit_file", "args": e})
			}
		}
		items = append(items, M{"op": "write_file", "args": M{"path": w.name(), "content": "of a batch\n"}})
		return "batch_file_ops", M{"operations": items}
	}
	if e := w.editOf(file); e != nil {
		return "edit_file", e
	}
	return "backup_file", M{"path": file}
}

// step does one operation that succeeds; what is refused with a good reason is no step.
func (w *walker) step() {
	for range 50 {
		op, args := w.operation()
		r := w.call(op, args)
		if text(r, "status") == "review" {
			r = w.approve(r)
		}
		if text(r, "status") != "done" {
			switch code(r) {
			case "exists", "not_found", "into_itself", "no_match", "not_available", "not_a_file", "stale_precondition", "name_collision", "ambiguous_match", "invalid_path":
				continue
			}
			w.t.Fatalf("seed %d: %s %v: %v", w.seed, op, args, r["error"])
		}
		if r["operation_id"] == nil {
			continue // it was so already
		}
		w.kinds[op]++
		w.done = append(w.done, r)
		return
	}
	w.t.Fatalf("seed %d: nothing could be done any more", w.seed)
}

// others is a person, or a formatter, at work in between.
func (w *walker) others() {
	file := filepath.Join(w.Root, w.pick(w.list(false)))
	b, err := os.ReadFile(file)
	if err != nil || !utf8.Valid(b) {
		return
	}
	if strings.HasSuffix(file, ".go") && w.r.IntN(2) == 0 {
		exec.Command("gofmt", "-w", file).Run() // code that an edit broke is left alone
		return
	}
	w.n++
	marker := fmt.Sprintf("// person %d was here", w.n)
	lines := strings.SplitAfter(string(b), "\n")
	i := w.r.IntN(len(lines))
	if i == len(lines)-1 && lines[i] == "" || !strings.HasSuffix(lines[i], "\n") {
		i = max(i-1, 0)
	}
	lines[i] += marker + "\n"
	if err := os.WriteFile(file, []byte(strings.Join(lines, "")), 0o644); err != nil {
		w.t.Fatal(err)
	}
	w.markers = append(w.markers, marker)
}

// undoNewest takes the newest k operations back as one, and sometimes back and forth.
func (w *walker) undoNewest(k int, merge bool) M {
	k = min(k, len(w.done))
	list := w.done[len(w.done)-k:]
	w.done = w.done[:len(w.done)-k]
	r := w.undoAll(M{"operations": ids(list...), "merge": merge, "keep_going": merge})
	if text(r, "status") == "review" {
		r = w.approve(r)
	}
	return r
}

func TestWalk(t *testing.T) {
	t.Parallel()
	t.Run("a walk of operations of all kinds, undone in random groups, ends where it began", func(t *testing.T) {
		w := newWalker(t, 20261129)
		before := digest(t, w.Root)
		n := walkLength(t, 120)
		for range n {
			w.step()
		}
		groups := 0
		for len(w.done) > 0 {
			at := digest(t, w.Root)
			r := must(t, w.undoNewest(1+w.r.IntN(n/4+1), false), "done")
			groups++
			if r["operation_id"] != nil && w.r.IntN(4) == 0 { // and forth, and back again
				redo := w.undo(r)
				if text(redo, "status") == "review" {
					redo = w.approve(redo)
				}
				must(t, redo, "done")
				if digest(t, w.Root) != at {
					t.Fatalf("seed %d: a redo is not what was there", w.seed)
				}
				again := w.undo(redo)
				if text(again, "status") == "review" {
					again = w.approve(again)
				}
				must(t, again, "done")
			}
		}
		if digest(t, w.Root) != before {
			t.Fatalf("seed %d: not where it began: %v", w.seed, w.list(false))
		}
		t.Logf("%d operations %v in %d groups", n, w.kinds, groups)
		if exit, out, errs := w.cli("verify"); exit != 0 {
			t.Errorf("verify: %s%s", out, errs)
		}
	})

	t.Run("with a person and a formatter at work in between, nothing of theirs is lost", func(t *testing.T) {
		w := newWalker(t, 7)
		n := walkLength(t, 100)
		for i := range n {
			w.step()
			if i%3 == 0 {
				w.others()
			}
		}
		text := func() (all []byte) {
			for _, f := range w.list(false) {
				b, _ := os.ReadFile(filepath.Join(w.Root, f))
				all = append(all, b...)
			}
			return all
		}
		// What an operation took away, and that is not taken back, is not the undo's to lose.
		there := map[string]bool{}
		for _, m := range w.markers {
			there[m] = bytes.Contains(text(), []byte(m+"\n"))
		}
		refused, merged, undone := 0.0, 0.0, 0.0
		for len(w.done) > 0 {
			r := w.undoNewest(1+w.r.IntN(n/3+1), true)
			if code(r) == "undo_conflict" {
				refused++
				continue
			}
			plan, _ := must(t, r, "done")["result"].(M)["plan"].(M)
			if plan != nil {
				refused, merged, undone = refused+plan["refused"].(float64), merged+plan["merge"].(float64), undone+plan["undo"].(float64)
			}
		}
		t.Logf("%d operations %v: %v parts undone, %v merged, %v refused, %d lines of a person", n, w.kinds, undone, merged, refused, len(w.markers))
		all := text()
		for _, m := range w.markers {
			if there[m] && !bytes.Contains(all, []byte(m+"\n")) {
				t.Errorf("seed %d: %q is lost", w.seed, m)
			}
		}
	})
}
