package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Files and rounds of TestWatchers: together 100 edits. Watchers put events of one path
// within some 100 ms together, so that a file is edited once in a round.
const (
	watchedFiles = 10
	watchRounds  = 10
)

// TestWatchers edits beside the watchers that editors, bundlers and test runners use: an
// exchange of names must look to them like any save, and the store must not show.
func TestWatchers(t *testing.T) {
	t.Parallel() // it mostly waits
	d := start(t)
	var files []string
	for i := range watchedFiles {
		files = append(files, filepath.Join(d.Root, fmt.Sprintf("src%d/f%d.txt", i%2, i)))
		write(t, files[i], "round 0\n")
	}
	before := digest(t, d.Root)
	w := &watched{seen: map[string]map[string]int{}}
	w.fsnotify(t, d.Root, filepath.Join(d.Root, "src0"), filepath.Join(d.Root, "src1"))
	w.node(t, d.Root)
	write(t, filepath.Join(d.Root, "src0", "sign"), "of life\n")
	w.await(t, "a file made by hand", filepath.Join(d.Root, "src0", "sign"))

	t.Run("each of 100 edits is reported by fsnotify, chokidar and @parcel/watcher, and nothing else is", func(t *testing.T) {
		var done []M
		w.rounds(t, "edit", files, func(round, i int) {
			done = append(done, must(t, d.call("edit_file", M{"path": strings.TrimPrefix(files[i], d.Root+"/"),
				"old_string": fmt.Sprintf("round %d", round), "new_string": fmt.Sprintf("round %d", round+1)}), "done"))
		})
		slices.Reverse(done)
		slices.Reverse(files)
		k := 0
		w.rounds(t, "undo", files, func(int, int) {
			must(t, d.undo(done[k]), "done")
			k++
		})
		if err := os.Remove(filepath.Join(d.Root, "src0", "sign")); err != nil {
			t.Fatal(err)
		}
		if digest(t, d.Root) != before {
			t.Error("the undos did not bring the tree back")
		}
	})
}

// watchers are those that must see everything.
var watchers = []string{"fsnotify", "chokidar", "parcel"}

// watched collects what watchers report.
type watched struct {
	mu   sync.Mutex                // guards seen
	seen map[string]map[string]int // by watcher: events of each path since the last take
}

func (w *watched) saw(by, path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[by] == nil {
		w.seen[by] = map[string]int{}
	}
	w.seen[by][path]++
}

// take gives what was seen and forgets it.
func (w *watched) take() map[string]map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.seen
	w.seen = map[string]map[string]int{}
	return out
}

// missing names what some watcher has not reported yet.
func (w *watched) missing(paths []string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, by := range watchers {
		for _, p := range paths {
			if w.seen[by][p] == 0 {
				out = append(out, by+" "+filepath.Base(p))
			}
		}
	}
	return out
}

// await waits until every watcher has reported every path, and a little longer for what
// else they have to say; then it looks at that.
func (w *watched) await(t *testing.T, what string, paths ...string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(w.missing(paths)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s was not seen: %v", what, w.missing(paths))
		}
	}
	time.Sleep(150 * time.Millisecond)
	for by, events := range w.take() {
		for p := range events {
			if !slices.Contains(paths, p) && !isDir(p) {
				t.Errorf("%s: %s reports %s", what, by, p)
			}
		}
	}
}

// isDir: a watcher may report that a directory changed, as any save does it.
func isDir(p string) bool {
	i, err := os.Lstat(p)
	return err == nil && i.IsDir()
}

// rounds changes each file once in a round.
func (w *watched) rounds(t *testing.T, what string, files []string, change func(round, i int)) {
	t.Helper()
	for round := range watchRounds {
		for i := range files {
			change(round, i)
		}
		w.await(t, fmt.Sprintf("%s, round %d", what, round), files...)
	}
	t.Logf("%s: %d of %d changes seen by each of %v", what, watchRounds*len(files), watchRounds*len(files), watchers)
}

// fsnotify watches from within this process.
func (w *watched) fsnotify(t *testing.T, dirs ...string) {
	t.Helper()
	n, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	for _, dir := range dirs {
		if err := n.Add(dir); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for e := range n.Events {
			w.saw("fsnotify", e.Name)
		}
	}()
}

// node runs the watchers of the JavaScript world and returns when they are ready.
func (w *watched) node(t *testing.T, dir string) {
	t.Helper()
	at := t.TempDir()
	for _, f := range []string{"package.json", "package-lock.json", "watch.js"} {
		write(t, filepath.Join(at, f), read(t, filepath.Join("testdata", "watchers", f)))
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = at
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci (this test needs node and npm): %v\n%s", err, out)
	}
	cmd := exec.Command("node", "watch.js", dir)
	cmd.Dir, cmd.Stderr = at, os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 2)
	read := make(chan struct{})
	// One that died before would have missed a change; how it ends is of no matter, and
	// native code that is let go in the middle of its work now and then crashes.
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
		stdin.Close()
	})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var e struct{ By, Event, Path string }
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("watch.js: %q", lines.Text())
			} else if e.Event == "ready" {
				ready <- e.By
			} else {
				w.saw(e.By, e.Path)
			}
		}
	}()
	for range 2 {
		select {
		case <-ready:
		case <-time.After(time.Minute):
			t.Fatal("the watchers did not get ready")
		}
	}
}
