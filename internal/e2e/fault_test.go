package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
)

// plain is the product without the race detector, which makes calls of its own.
var plain = sync.OnceValues(func() (string, error) {
	if !raceEnabled {
		return binary, nil
	}
	bin := filepath.Join(filepath.Dir(binary), "plain")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "../../cmd/holdpoint").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %v\n%s", err, out)
	}
	return bin, nil
})

// faultScenes are the requests that TestFaults lets fail.
func faultScenes() []scene {
	edit := M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}
	batch := M{"operations": []any{item("edit_file", edit), item("write_file", M{"path": "new/a.txt", "content": "made\n"}), item("move_file", M{"source": "sub/g.txt", "destination": "new/g.txt"}), item("delete_file", M{"path": "sub/h.txt"})}}
	more := map[string]string{"sub/g.txt": "moves\n", "sub/h.txt": "goes\n", "dir/in/deep.txt": "deep\n"}
	return []scene{
		{name: "a new file", short: "create", op: "write_file", args: M{"path": "new/a/b.txt", "content": "made\n"}},
		{name: "an edit", short: "edit", op: "edit_file", args: edit},
		{name: "a directory", short: "mkdir", op: "create_directory", args: M{"path": "new/d/e"}},
		{name: "a copy of a directory", short: "copy", op: "copy_file", args: M{"source": "dir", "destination": "new/dir", "recursive": true}, held: true, files: more},
		{name: "a move", short: "move", op: "move_file", args: M{"source": "sub/g.txt", "destination": "new/g.txt"}, held: true, files: more},
		{name: "an approved delete of a directory", short: "delete", op: "delete_file", args: M{"path": "dir", "recursive": true}, held: true, files: more},
		{name: "an approved batch", short: "batch", op: "batch_file_ops", args: batch, held: true, files: more},
		{name: "an undo", short: "undo", op: "edit_file", args: edit, undo: true},
		{name: "the undo of a delete", short: "undelete", op: "delete_file", args: M{"path": "dir", "recursive": true}, undo: true, files: more},
	}
}

// TestFaults lets one call to the system fail, or write half, while the daemon carries a
// request out. HOLDPOINT_FAULTS=all takes every call with every failure that fits it, a
// number so many of each request, chosen by the seed.
func TestFaults(t *testing.T) {
	t.Parallel()
	if !faultsHere {
		t.Skip("the tracer can let calls fail on amd64 only")
	}
	seed := seedOf(t)
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{most: 2, codes: map[string]int{}, of: map[[2]string]*faultCount{}}
	switch s := os.Getenv("HOLDPOINT_FAULTS"); s {
	case "":
	case "all":
		f.most = 0
	default:
		if f.most, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range faultScenes() {
		if only := os.Getenv("HOLDPOINT_SCENE"); only != "" && only != s.short {
			continue
		}
		t.Run("S100 (part) "+s.name+" is whole or absent, and says which, when a call to the system fails", func(t *testing.T) {
			f.kills = newKills(t, bin, s, rand.New(rand.NewPCG(seed, uint64(i))))
			f.kills.s.kept = f.keeps()
			f.all()
			f.inOrder()
		})
	}
	t.Logf("faults:\n%s", f.table())
}

// faults lets calls fail and counts what came of it.
type faults struct {
	*kills
	most  int // of each scene, 0 for all
	codes map[string]int
	of    map[[2]string]*faultCount // scene and fault
	row   *tried                    // of the scene
}

type faultCount struct{ tried, done, refused, held, whole, poisoned int }

// fault is one call that fails.
type fault struct {
	kind string
	n    int
	as   string
}

// all counts what the request calls, and lets it fail.
func (f *faults) all() {
	f.t.Helper()
	made := f.made()
	var todo []fault
	for _, kind := range faultKinds {
		for n := 1; n <= made[kind]; n++ {
			for _, as := range faultsOf[kind] {
				todo = append(todo, fault{kind, n, as})
			}
		}
	}
	if f.most > 0 && f.most < len(todo) {
		f.rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		// One of the flushes is always among them.
		flush := slices.IndexFunc(todo, func(x fault) bool { return x.kind == "fdatasync" })
		if flush >= f.most {
			todo[0], todo[flush] = todo[flush], todo[0]
		}
		todo = todo[:f.most]
	}
	scene := f.t
	f.row = &tried{What: "failing system call", On: filesystemOf(scene, f.d.Root), Of: f.s.short}
	defer f.row.tell(scene)
	for i, x := range todo {
		if i%150 == 149 { // the log is read as one page, which holds no more
			f.anew(scene)
		}
		ok := scene.Run(fmt.Sprintf("%s %d %s", x.kind, x.n, x.as), func(t *testing.T) {
			f.t, f.d.t = t, t
			f.row.looking(t, func() { f.one(x) })
		})
		if f.t, f.d.t = scene, scene; !ok { // its remains are no place to go on from
			f.anew(scene)
		}
	}
}

// anew goes on with a daemon of another state.
func (f *faults) anew(t *testing.T) {
	f.d.stop(syscall.SIGKILL)
	f.kills = newKills(t, f.d.bin, f.s, f.rng)
}

// one lets a call fail, and looks at the reply, the tree, the daemon as it goes on, and
// what a restart makes of it.
func (f *faults) one(x fault) {
	f.t.Helper()
	a := f.prepare()
	tr := startTracer(f.t, fmt.Sprintf("%d %s %d %s", f.d.cmd.Process.Pid, x.kind, x.n, x.as))
	_, r, err := f.d.tryHTTP(a.method, a.path, a.token, a.body)
	when := fmt.Sprintf("%s %d %s", x.kind, x.n, x.as)
	c := f.of[[2]string{f.s.short, x.as}]
	if c == nil {
		c = &faultCount{}
		f.of[[2]string{f.s.short, x.as}] = c
	}
	if reply, ok := r["reply"].(M); ok {
		r = reply
	}
	word := code(r)
	was, is := f.before, f.after
	if f.s.undo {
		was, is = is, was
	}
	now := digest(f.t, f.d.Root)
	switch {
	case err != nil:
		f.t.Errorf("%s %s: no reply: %v", f.s.short, when, err)
	case text(r, "status") == "done":
		c.done++
		if now != is {
			f.t.Errorf("%s %s: the reply says done, and the tree is another", f.s.short, when)
		}
	case text(r, "status") == "review" && !f.s.held && now == was:
		c.held++ // what could not be looked at waits for a person
	case word == "":
		f.t.Errorf("%s %s: neither done nor an error: %v", f.s.short, when, r)
	default:
		c.refused++
		f.row.Refused++
		f.codes[x.as+" "+word]++
		if !slices.Contains([]string{"io_error", "no_space", "read_only_filesystem", "unknown_outcome"}, word) {
			f.codes["(looking) "+word]++
		}
		if now != was && word != "unknown_outcome" {
			f.t.Errorf("%s %s: refused as %s, and the tree is not as before: %v", f.s.short, when, word, r["error"])
		}
		if !fits(x.kind, x.as, word) {
			f.t.Errorf("%s %s: refused as %s: %v", f.s.short, when, word, r["error"])
		}
	}
	acked := text(r, "status") == "done"
	f.row.Acknowledged += int(b2i(acked))
	// The daemon goes on, or refuses every change by name since its journal is not known.
	_, next := f.d.http("POST", "/v1/call", f.d.Agent, M{"op": "create_directory", "args": M{"path": "probe"}})
	unmade := false // the fault met the undo of the probe
	if text(next, "status") == "done" {
		a.beside = []string{text(next, "operation_id")}
		back := f.d.undo(next)
		if unmade = text(back, "status") != "done"; !unmade {
			a.beside = append(a.beside, text(back, "operation_id"))
		} else if !fits(x.kind, x.as, code(back)) {
			f.t.Errorf("%s %s: the undo of the next change: %v %v", f.s.short, when, back["status"], back["error"])
		}
	} else if code(next) == "io_error" && strings.Contains(text(next, "error", "message"), "opened anew") {
		c.poisoned++
	} else if text(next, "status") == "review" && slices.Contains(looking, x.kind) { // the fault met the probe: what could not be looked at waits
		f.d.cancel(next)
	} else if !fits(x.kind, x.as, code(next)) { // else the fault met the probe
		f.t.Errorf("%s %s: the next change: %v %v", f.s.short, when, next["status"], next["error"])
	}
	if _, look := f.d.http("POST", "/v1/call", f.d.Agent, M{"op": "list_directory", "args": M{"path": "."}}); text(look, "status") != "done" {
		f.t.Errorf("%s %s: reading afterwards: %v", f.s.short, when, look["error"])
	}
	syscall.Kill(f.d.cmd.Process.Pid, syscall.SIGKILL)
	seen := tr.wait(f.t)
	f.d.cmd.Wait()
	if seen.Failed == "" {
		when += " (which this request did not come to)"
	} else {
		c.tried++
		f.row.Tried++
		when += " (" + seen.Failed + ")"
	}
	if x.kind == "fdatasync" && strings.HasSuffix(seen.Failed, walName) && code(next) != "io_error" {
		f.t.Errorf("%s %s: a failing flush of the journal, and changes go on: %v", f.s.short, when, next["status"])
	}
	if !acked {
		a.body["request_id"] = a.id + "-again" // under the same one the same reply would come
		if f.s.held {
			delete(a.body, "request_id")
		}
	}
	f.start()
	if unmade {
		f.d.undo(next) // which says so where the one that failed stands
		for _, o := range f.since(text(next, "operation_id")) {
			a.beside = append(a.beside, text(o, "id"))
		}
	}
	if text(r, "status") == "review" {
		f.d.http("POST", "/v1/approvals/"+text(r, "approval", "id")+"/answer", f.d.reviewerToken, M{"answer": "reject"})
		f.same(was, when+", held")
		f.settled(when)
		if f.s.undo {
			must(f.t, f.d.undo(a.undoes), "done")
		}
		return
	}
	if f.probeStands() {
		f.t.Errorf("%s %s: the refused probe stands", f.s.short, when)
	}
	if f.t.Failed() {
		f.t.Fatalf("%s: %s, reply %v", f.s.short, when, r)
	}
	stands := f.check(a, "after "+when)
	if stands {
		c.whole++
	}
	if acked && !stands {
		f.row.Lost++
		f.t.Fatalf("%s %s: acknowledged, and lost", f.s.short, when)
	}
}

func (f *faults) probeStands() bool {
	_, err := os.Lstat(filepath.Join(f.d.Root, "probe"))
	return err == nil
}

// looking are the calls by which the daemon looks at something. Where one fails it is as
// if the thing were not there or were another, and the change is refused as that: by a
// code that is not the disk's, and with nothing changed.
var looking = []string{"openat", "openat2", "stat*", "getdents64", "pread64", "read"}

// fits says whether a code is one that a failure may come back as.
func fits(kind, as, word string) bool {
	switch word {
	case "io_error", "unknown_outcome":
		return as != short
	case "no_space":
		return as == "ENOSPC" || as == "EDQUOT"
	case "read_only_filesystem":
		return as == "EROFS"
	case "state_corrupt": // the database could not be read
		return as == "EIO" && (kind == "pread64" || kind == "stat*")
	case "metadata_loss":
		return kind == "setxattr*" || kind == "fchown*" || kind == "fchmod*"
	case "stale_precondition", "undo_conflict", "not_ready", "forbidden":
		return slices.Contains(looking, kind)
	}
	return false
}

func (f *faults) table() string {
	out := &strings.Builder{}
	tab := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "request\tfault\ttried\tdone\trefused\theld\tstands after a restart\tjournal closed")
	var keys [][2]string
	for k := range f.of {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	var sum faultCount
	for _, k := range keys {
		c := f.of[k]
		fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", k[0], k[1], c.tried, c.done, c.refused, c.held, c.whole, c.poisoned)
		sum = faultCount{sum.tried + c.tried, sum.done + c.done, sum.refused + c.refused, sum.held + c.held, sum.whole + c.whole, sum.poisoned + c.poisoned}
	}
	fmt.Fprintf(tab, "all\t\t%d\t%d\t%d\t%d\t%d\t%d\n", sum.tried, sum.done, sum.refused, sum.held, sum.whole, sum.poisoned)
	tab.Flush()
	var codes []string
	for k, n := range f.codes {
		codes = append(codes, fmt.Sprintf("%s %d", k, n))
	}
	sort.Strings(codes)
	return out.String() + strings.Join(codes, ", ")
}
