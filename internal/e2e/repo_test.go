package e2e

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// changesInRepository is how many changes TestRepository makes and takes back.
const changesInRepository = 300

// TestRepository works in a copy of a real repository: random changes, of which deletes
// and moves wait for a person, and then all of them taken back, last first.
func TestRepository(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	root, state := dirs(t)
	files := copyModule(t, "golang.org/x/sys", root)
	if len(files) <= 500 {
		t.Fatalf("the module has only %d files", len(files))
	}
	dressUp(t, root, files)
	d := startOn(t, root, state, nil)
	w := &repository{t: t, d: d, rng: rand.New(rand.NewPCG(seed, 1)), files: files}

	t.Run("C88 (part) a real repository comes back byte for byte after 300 changes undone in reverse", func(t *testing.T) {
		before := digest(t, root)
		began := time.Now()
		marks := map[int]string{} // digests on the way there, to meet again on the way back
		for i := range changesInRepository {
			if i%50 == 0 {
				marks[i] = digest(t, root)
			}
			w.step(i)
		}
		if digest(t, root) == before {
			t.Fatal("300 changes left the tree as it was: the digest sees nothing")
		}
		there := time.Since(began)
		for i := changesInRepository - 1; i >= 0; i-- {
			w.back(i)
			if want, marked := marks[i]; marked && digest(t, root) != want {
				t.Fatalf("seed %d: after undoing change %d the tree is not what it was before it", seed, i)
			}
		}
		if got := digest(t, root); got != before {
			t.Fatalf("seed %d: digest %s after all undos, want %s", seed, got, before)
		}
		t.Logf("%d files, %d changes in %v (%v), undone in %v", len(files), changesInRepository, there.Round(time.Millisecond), w.counts, (time.Since(began) - there).Round(time.Millisecond))
		if w.counts["delete_file"] == 0 || w.counts["move_file"] == 0 || w.counts["copy_file"] == 0 || w.counts["create_directory"] == 0 {
			t.Fatalf("some kind of change never came up: %v", w.counts)
		}
	})
	t.Run("C98 (part) none of the 300 can be undone a second time", func(t *testing.T) {
		for _, i := range []int{0, changesInRepository / 2, changesInRepository - 1} {
			if got := d.undo(w.done[i]); code(got) != "undo_consumed" {
				t.Fatalf("change %d: got %v, want undo_consumed", i, got["error"])
			}
		}
	})
}

// seedOf gives the seed of a random test and prints it.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HOLDPOINT_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HOLDPOINT_SEED: %v", err)
		}
	}
	t.Logf("seed %d (HOLDPOINT_SEED repeats it)", seed)
	return seed
}

// copyModule copies a module out of the module cache, writable, and lists its files.
func copyModule(t *testing.T, module, to string) (files []string) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	from := strings.TrimSpace(string(out))
	if err != nil || from == "" {
		t.Fatalf("%s is not in the module cache: %v", module, err)
	}
	err = filepath.WalkDir(from, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, p)
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files = append(files, rel)
		return os.WriteFile(filepath.Join(to, rel), b, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// dressUp gives some files what a plain checkout has not and a change must carry along.
func dressUp(t *testing.T, root string, files []string) {
	t.Helper()
	for i, f := range files {
		p := filepath.Join(root, f)
		var err error
		switch i % 9 {
		case 1:
			err = os.Chmod(p, 0o755)
		case 2:
			err = os.Chmod(p, 0o640)
		case 3:
			err = syscall.Setxattr(p, "user.origin", []byte(f), 0)
		case 4:
			err = os.Lchown(p, 1234, 4321)
		case 5:
			err = os.Chmod(p, 0o755|os.ModeSetgid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// repository makes random changes and remembers what came of each.
type repository struct {
	t      *testing.T
	d      *daemon
	rng    *rand.Rand
	files  []string // those that are there now
	done   []M
	counts map[string]int
}

// step makes change i: about every twentieth deletes or moves, which a person releases.
func (w *repository) step(i int) {
	w.t.Helper()
	name := fmt.Sprintf("made/%c%c/f%03d.txt", 'a'+w.rng.IntN(4), 'a'+w.rng.IntN(4), i)
	switch {
	case i%40 == 19:
		k := w.pick()
		f := w.files[k]
		if dir := filepath.Dir(f); w.rng.IntN(2) == 0 && dir != "." && !strings.Contains(dir, "/") && dir != "unix" && dir != "windows" {
			w.land("delete_file", M{"path": dir, "recursive": true}, true)
			w.files = slices.DeleteFunc(w.files, func(g string) bool { return strings.HasPrefix(g, dir+"/") })
			return
		}
		w.land("delete_file", M{"path": f}, true)
		w.files = slices.Delete(w.files, k, k+1)
	case i%40 == 39:
		k := w.pick()
		w.land("move_file", M{"source": w.files[k], "destination": name}, true)
		w.files[k] = name
	case w.rng.IntN(3) == 0:
		w.land("write_file", M{"path": name, "content": w.text()}, false)
		w.files = append(w.files, name)
	case w.rng.IntN(6) == 0:
		w.land("copy_file", M{"source": w.files[w.pick()], "destination": name}, false)
		w.files = append(w.files, name)
	case w.rng.IntN(8) == 0:
		w.land("create_directory", M{"path": fmt.Sprintf("made/dir%03d/x/y", i)}, false)
	default:
		w.edit()
	}
}

// edit replaces one line that stands once in a file.
func (w *repository) edit() {
	w.t.Helper()
	for {
		f := w.files[w.pick()]
		lines := strings.Split(read(w.t, filepath.Join(w.d.Root, f)), "\n")
		line := lines[w.rng.IntN(len(lines))]
		if len(line) < 3 || !utf8.ValidString(line) || strings.Count(strings.Join(lines, "\n"), line) != 1 {
			continue
		}
		w.land("edit_file", M{"path": f, "old_string": line, "new_string": line + " " + w.text()}, false)
		return
	}
}

func (w *repository) pick() int { return w.rng.IntN(len(w.files)) }

func (w *repository) text() string {
	return strings.Repeat(fmt.Sprintf("word %x\n", w.rng.Uint32()), 1+w.rng.IntN(20))
}

// land makes a change, releasing it when it waits; a change that must wait and does not is
// a failure. Of those that need not, a few do: the file looks like a secret, or is large.
func (w *repository) land(op string, args M, waits bool) {
	w.t.Helper()
	r := w.d.call(op, args)
	if text(r, "status") == "review" {
		if !waits {
			w.count("waited")
		}
		r = w.d.approve(r)
	} else if waits {
		w.t.Fatalf("%s %v did not wait: %v", op, args, r)
	}
	if text(r, "status") != "done" || r["effects_executed"] != true {
		w.t.Fatalf("%s %v: %v", op, args, r)
	}
	w.count(op)
	w.done = append(w.done, r)
}

func (w *repository) count(what string) {
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[what]++
}

// back takes change i back, by credential and by operation id in turn.
func (w *repository) back(i int) {
	w.t.Helper()
	body := M{"credential": w.done[i]["undo_credential"]}
	if i%2 == 0 {
		body = M{"operation_id": w.done[i]["operation_id"]}
	}
	_, r := w.d.http("POST", "/v1/undo", w.d.Agent, body)
	if text(r, "status") == "review" { // of a protected name, by an agent
		r = w.d.approve(r)
	}
	if text(r, "status") != "done" {
		w.t.Fatalf("undo of change %d (%v): %v", i, w.done[i]["effects"], r["error"])
	}
}
