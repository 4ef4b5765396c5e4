//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"holdpoint/op"

	"golang.org/x/sys/unix"
)

// TestConfinement has three hands at work all the time, beside every operation: one
// exchanges a folder with a link to the outside, one a file with a link to a file outside,
// one binds the outside over a folder and takes it off again. Nothing outside may be
// read, in an answer, a file or the store, and nothing there may change.
//
// One client works in each place, all at once. What is destructive is mostly let through by a
// trusted policy, and by a person one time in ten: it is the race that counts here, and a card
// costs three requests. For the same reason the daemon flushes nothing.
//
// HOLDPOINT_CONFINE_N sets the calls of each operation, HOLDPOINT_CONFINE_OP chooses
// operations by a regular expression, HOLDPOINT_CONFINE_FOR ends it after a while.
func TestConfinement(t *testing.T) {
	t.Parallel()
	if onItsOwn(t) { // no other namespace shall see the mounts come and go
		return
	}
	c := newConfinement(t)
	c.calls = c.chosen()
	t.Run("S11, S12, S13 no operation reads or writes outside while folders and files are swapped for links and mounts", func(t *testing.T) {
		c.t = t
		defer func() { t.Logf("confinement:\n%s", c.table()) }()
		c.all()
		for name, n := range c.per {
			if name != "undo" && n.total >= 100 && n.done*10 < n.total {
				t.Errorf("%s: only %d of %d came through", name, n.done, n.total)
			}
		}
		if c.done*10 < c.total {
			t.Errorf("only %d of %d came through", c.done, c.total)
		}
		if c.escapes > 0 {
			t.Errorf("%d escapes", c.escapes)
		}
		for i := range c.turns {
			if n := c.turns[i].Load(); n < 10 {
				t.Errorf("hand %d made only %d turns: this was no race", i, n)
			}
		}
	})
	close(c.stop)
	c.hands.Wait()
	t.Run("S13 (part) links are taken as links, and neither workspace nor store holds anything of the outside", c.nothingLeaked)
	t.Run("S11 (part) nothing half-made is left on either side", func(t *testing.T) {
		filepath.Walk(filepath.Dir(c.Root), func(p string, _ os.FileInfo, err error) error {
			if p == c.State || filepath.Base(p) == ".git" {
				return filepath.SkipDir
			}
			if base := filepath.Base(p); err == nil && (strings.HasPrefix(base, ".") || strings.Contains(base, "tmp") || strings.HasPrefix(base, "op_")) {
				t.Errorf("left over: %s", p)
			}
			return err
		})
	})
	t.Run("the same race with plain calls in our place goes wrong", func(t *testing.T) {
		c.naive(t)
	})
}

// canary is what only the outside holds, in names, contents and commits.
const canary = "Kanarienvogel"

type confinement struct {
	*daemon
	t            *testing.T
	trusted      string // token of a workflow that may delete, move, roll back and batch
	out, outside string
	kept         *http.Client // keeps its connections
	want         int
	end          time.Time
	only         *regexp.Regexp
	calls        []string // names of confinedCalls
	stop         chan bool
	hands        sync.WaitGroup
	turns        [3]atomic.Int64
	failed       atomic.Bool

	mu                   sync.Mutex // guards the rest
	per                  map[string]*confined
	total, done, escapes int
}

// confined counts what came of one operation.
type confined struct{ total, done, refused, held int }

// places are the folders that the hands play with, by the hand.
var confinedPlaces = []string{"d", "l", "m"}

func newConfinement(t *testing.T) *confinement {
	c := &confinement{want: 12, only: regexp.MustCompile(os.Getenv("HOLDPOINT_CONFINE_OP")), stop: make(chan bool), per: map[string]*confined{}}
	fmt.Sscan(os.Getenv("HOLDPOINT_CONFINE_N"), &c.want)
	if s := os.Getenv("HOLDPOINT_CONFINE_FOR"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		c.end = time.Now().Add(d)
	}
	root, state := dirs(t)
	c.out = filepath.Join(filepath.Dir(root), "OUT")
	for _, p := range confinedPlaces {
		confinedTree(t, filepath.Join(root, p), "inside", "")
		write(t, filepath.Join(root, "src-"+p), "inside\n")
	}
	confinedTree(t, c.out, canary, canary)
	for link, to := range map[string]string{"d.other": "../OUT", "l/f.other": "../../OUT/f", "l/s/t/x.other": "../../../../OUT/f"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.outside, err = sumOf(c.out); err != nil {
		t.Fatal(err)
	}
	policy := policyFile(t, filepath.Dir(root), M{"id": "race", "workflow_ids": []string{"race"}, "roots": []string{root},
		"operations": []string{"delete_file", "move_file", "rollback_file", "batch_file_ops"}})
	c.daemon = quickOn(t, root, state, "durability = \"relaxed\"\n"+botConf, []string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + policy})
	c.Agent = c.token(M{"name": "bot", "role": "agent", "profile": "bot"})
	c.trusted = c.token(M{"name": "racer", "role": "agent", "profile": "bot", "workflow": "race"})
	c.kept = &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: len(confinedPlaces), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	}}}
	for _, p := range confinedPlaces { // something to roll back to
		must(t, c.call("backup_file", M{"path": p + "/k.md"}), "done")
		must(t, c.call("edit_file", M{"path": p + "/k.md", "old_string": "#", "new_string": "##"}), "done")
	}
	in := func(p string) string { return filepath.Join(root, p) }
	c.hand(0, func() { exchange(in("d"), in("d.other")) })
	c.hand(1, func() { exchange(in("l/f"), in("l/f.other")); exchange(in("l/s/t/x"), in("l/s/t/x.other")) })
	c.hand(2, func() {
		if unix.Mount(c.out, in("m"), "", unix.MS_BIND, "") == nil {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			unix.Unmount(in("m"), unix.MNT_DETACH)
		}
	})
	return c
}

// confinedTree makes the same names inside and outside, and a repository.
func confinedTree(t *testing.T, dir, word, name string) {
	for file, content := range map[string]string{"f": word + " 0\n", "v.json": `{"a": "` + word + `"}` + "\n", "r.md": "# " + word + "\n", "k.md": "# " + word + "\n", "package.json": `{"scripts": {"test": "` + word + `"}}` + "\n",
		"s/t/x": word + "\n", "mv": word + "\n", name + "y": word + "\n"} {
		write(t, filepath.Join(dir, file), content)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "f", "v.json"}, {"-c", "user.name=" + word, "-c", "user.email=a@b", "commit", "-q", "-m", word}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
}

// hand makes its turn over and over, with pauses of all lengths.
func (c *confinement) hand(i int, turn func()) {
	c.hands.Add(1)
	go func() {
		defer c.hands.Done()
		for {
			select {
			case <-c.stop:
				return
			default:
			}
			turn()
			c.turns[i].Add(1)
			time.Sleep(time.Duration(rand.IntN(400)) * time.Microsecond)
		}
	}()
}

// confinedCalls are the calls of each operation, for a place and a number. One whose
// name has a second word is another call of the same operation.
var confinedCalls = map[string]func(p string, i int) M{
	"view_file":        func(p string, i int) M { return M{"path": p + "/f"} },
	"list_directory":   func(p string, i int) M { return M{"path": p, "depth": 3} },
	"file_tree":        func(p string, i int) M { return M{"path": p, "stats": true} },
	"search_files":     func(p string, i int) M { return M{"path": p, "pattern": "[a-zA-Z]+", "regex": true} },
	"search_files all": func(p string, i int) M { return M{"path": ".", "pattern": canary[:5]} },
	"file_info":        func(p string, i int) M { return M{"path": p + "/f"} },
	"diff_file":        func(p string, i int) M { return M{"path": p + "/f", "content": "x\n"} },
	"diff_file two":    func(p string, i int) M { return M{"path": "src-" + p, "compare_path": p + "/s/t/x"} },
	"validate_file":    func(p string, i int) M { return M{"path": p + "/v.json"} },
	"preview_markdown": func(p string, i int) M { return M{"path": p + "/r.md"} },
	"detect_tests":     func(p string, i int) M { return M{"path": p} },
	"list_backups":     func(p string, i int) M { return M{"path": p + "/r.md"} },
	"git_status":       func(p string, i int) M { return M{"path": p} },
	"git_diff":         func(p string, i int) M { return M{"path": p} },
	"git_log":          func(p string, i int) M { return M{"path": p} },
	"git_show":         func(p string, i int) M { return M{"path": p} },
	"git_blame":        func(p string, i int) M { return M{"path": p + "/v.json"} },
	"write_file":       func(p string, i int) M { return M{"path": fmt.Sprintf("%s/new%d/w", p, i), "content": "x"} },
	"write_file over":  func(p string, i int) M { return M{"path": p + "/f", "content": fmt.Sprintf("inside %d\n", i)} },
	"edit_file": func(p string, i int) M {
		return M{"path": p + "/f", "old_string": " ", "new_string": fmt.Sprintf(" %d", i)}
	},
	"patch_file": func(p string, i int) M {
		return M{"path": p + "/v.json", "operations": []M{{"op": "set", "path": "/b", "value": i}}}
	},
	"copy_file":    func(p string, i int) M { return M{"source": p + "/f", "destination": fmt.Sprintf("copy%d", i)} },
	"copy_file to": func(p string, i int) M { return M{"source": "src-" + p, "destination": fmt.Sprintf("%s/copy%d", p, i)} },
	"copy_file recursive": func(p string, i int) M {
		return M{"source": p + "/s", "destination": fmt.Sprintf("copies%d", i), "recursive": true}
	},
	"create_directory":      func(p string, i int) M { return M{"path": fmt.Sprintf("%s/c%d/e", p, i)} },
	"backup_file":           func(p string, i int) M { return M{"path": p + "/r.md"} },
	"delete_file":           func(p string, i int) M { return M{"path": p + "/mv"} },
	"delete_file recursive": func(p string, i int) M { return M{"path": p + "/s", "recursive": true} },
	"move_file":             func(p string, i int) M { return M{"source": p + "/mv", "destination": fmt.Sprintf("moved%d", i)} },
	"move_file to": func(p string, i int) M {
		return M{"source": "src-" + p, "destination": fmt.Sprintf("%s/moved%d", p, i)}
	},
	"rollback_file": func(p string, i int) M { return M{"path": p + "/k.md", "last": true} },
	"batch_file_ops": func(p string, i int) M {
		return M{"operations": []M{{"op": "write_file", "args": M{"path": fmt.Sprintf("%s/b%d", p, i), "content": "x"}}, {"op": "delete_file", "args": M{"path": p + "/mv"}}}}
	},
	"workspace_shell": func(p string, i int) M { return M{"command": "cat", "args": []string{"f"}, "cwd": p} },
	"workspace_tests": func(p string, i int) M { return M{"command": "ls", "cwd": p} },
}

// chosen lists the calls to make, of each operation that names a path.
func (c *confinement) chosen() (names []string) {
	for _, spec := range op.Operations() {
		if !spec.Built || spec.Class == op.Reverting || spec.Class == op.Switching || spec.Name == op.ListProfiles {
			continue // an undo is made after each change; the others name no path
		}
		found := false
		for name := range confinedCalls {
			if operationOf(name) == string(spec.Name) {
				found = true
				if c.only.MatchString(name) {
					names = append(names, name)
				}
			}
		}
		if !found {
			c.t.Errorf("%s has no call here: say how it would be led outside", spec.Name)
		}
	}
	slices.Sort(names)
	return names
}

func operationOf(call string) string {
	name, _, _ := strings.Cut(call, " ")
	return name
}

// all lets a client work in each place until all calls were made as often as wanted.
func (c *confinement) all() {
	var clients sync.WaitGroup
	for k := range confinedPlaces {
		clients.Go(func() { c.client(k) })
	}
	clients.Wait()
}

// confinedStretch is how many calls in a row a client makes before the outside is looked at.
const confinedStretch = 100

// client takes turns over the calls, with the numbers of one place.
func (c *confinement) client(k int) {
	places := len(confinedPlaces)
	for first := k; first < c.want; first += places * confinedStretch {
		for _, name := range c.calls {
			n := confinedStretch
			if spec, _ := op.Lookup(op.Name(operationOf(name))); spec.Class == op.Process {
				n = 4 // a program costs a hundred times as much
			}
			for i := first; i < c.want && n > 0 && !c.over(); i, n = i+places, n-1 {
				if err := c.one(name, i); err != nil {
					c.failed.Store(true)
					c.t.Errorf("%s: %v\n%s", name, err, c.Log)
					return
				}
			}
			if now, err := sumOf(c.out); now != c.outside {
				c.failed.Store(true)
				c.t.Errorf("%s: the outside changed, %v", name, err)
			}
		}
	}
}

func (c *confinement) over() bool {
	return c.failed.Load() || !c.end.IsZero() && time.Now().After(c.end)
}

// ask is one request on a connection that is kept.
func (c *confinement) ask(method, path, token string, body M) (M, error) {
	return askWeb(c.kept, method, path, token, body)
}

// one makes one call in one place, lets it go on if it is held, and takes it back.
func (c *confinement) one(name string, i int) error {
	places := len(confinedPlaces)
	token := c.trusted
	if i/places%10 == 0 {
		token = c.Agent
	}
	r, err := c.ask("POST", "/v1/call", token, M{"op": operationOf(name), "args": confinedCalls[name](confinedPlaces[i%places], i)})
	if err != nil {
		return err
	}
	c.clean(name, r)
	held := r["status"] == "review"
	if held {
		if r, err = c.release(name, text(r, "approval", "id"), token); err != nil {
			return err
		}
	}
	c.count(name, r["status"] == "done", held)
	tries := 500
	if spec, _ := op.Lookup(op.Name(operationOf(name))); spec.Class == op.Process {
		tries = 1 // what it changed, if anything, is the hands' work
	}
	for k := 0; r["status"] == "done" && r["undo_credential"] != nil && k < tries; k++ {
		back, err := c.ask("POST", "/v1/undo", token, M{"credential": r["undo_credential"]})
		if err != nil {
			return err
		}
		c.clean("undo of "+name, back)
		held := back["status"] == "review" // what cannot be looked at now
		if held {
			if _, err := c.ask("POST", "/v1/approvals/"+text(back, "approval", "id")+"/cancel", token, M{}); err != nil {
				return err
			}
		}
		if c.count("undo", back["status"] == "done", held); back["status"] == "done" {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}

// release answers as the person and gives the reply of the call, if it ran.
func (c *confinement) release(name, id, token string) (M, error) {
	row, err := c.ask("GET", "/v1/approvals/"+id, c.reviewerToken, nil)
	if err != nil {
		return nil, err
	}
	c.clean(name+" card", row)
	answer, err := c.ask("POST", "/v1/approvals/"+id+"/answer", c.reviewerToken, M{"answer": "approve", "note": "", "shown_digest": text(row, "card", "shown_digest")})
	if err != nil {
		return nil, err
	}
	c.clean(name+" answer", answer)
	if r := object(answer["reply"]); r != nil {
		return r, nil
	}
	_, err = c.ask("POST", "/v1/approvals/"+id+"/cancel", token, M{})
	return M{}, err
}

func (c *confinement) count(name string, done, held bool) {
	name = operationOf(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.per[name] == nil {
		c.per[name] = &confined{}
	}
	n := c.per[name]
	c.total++
	n.total++
	n.held += int(b2i(held))
	if done {
		c.done++
		n.done++
	} else {
		n.refused++
	}
}

var canaryHash = hashOf(canary + " 0\n")

// clean looks whether an answer tells anything of the outside.
func (c *confinement) clean(name string, answer M) {
	b, err := json.Marshal(answer)
	if err != nil {
		c.t.Error(err)
	}
	b = bytes.ReplaceAll(b, []byte(canary[:5]+`"`), nil) // the pattern of a search comes back with it
	if bytes.Contains(b, []byte(canary)) || bytes.Contains(b, []byte(canaryHash)) {
		c.mu.Lock()
		c.escapes++
		c.mu.Unlock()
		c.t.Errorf("%s tells of the outside: %.600s", name, b)
	}
}

func (c *confinement) table() string {
	var out strings.Builder
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "operation\tcalls\tdone\trefused\theld for a person first")
	var names []string
	for name := range c.per {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := c.per[name]
		fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%d\n", name, n.total, n.done, n.refused, n.held)
	}
	tab.Flush()
	fmt.Fprintf(&out, "confinement: %d attempts, %d done, %d escapes; turns: %d folder and link, %d file and link, %d mounts",
		c.total, c.done, c.escapes, c.turns[0].Load(), c.turns[1].Load(), c.turns[2].Load())
	return out.String()
}

// nothingLeaked searches all that the daemon wrote.
func (c *confinement) nothingLeaked(t *testing.T) {
	c.stopped()
	if now, err := sumOf(c.out); now != c.outside {
		t.Error("the outside changed", err)
	}
	for _, dir := range []string{c.Root, c.State} {
		err := filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
			if err != nil || !info.Mode().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			if err == nil && bytes.Contains(b, []byte(canary)) {
				t.Errorf("%s holds something of the outside", p)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// stopped ends the daemon and lays the mount and the links where they were.
func (c *confinement) stopped() {
	c.daemon.stop(15)
	unix.Unmount(filepath.Join(c.Root, "m"), unix.MNT_DETACH)
}

// naive does what a server would that checks a name and then uses it.
func (c *confinement) naive(t *testing.T) {
	in := filepath.Join(c.Root, "d")
	stop, stopped := make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				exchange(in, in+".other")
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for i := range 200_000 {
		real, err := filepath.EvalSymlinks(filepath.Join(in, "f"))
		if err != nil || !strings.HasPrefix(real, c.Root+"/") {
			continue
		}
		if b, _ := os.ReadFile(filepath.Join(in, "f")); bytes.Contains(b, []byte(canary)) {
			t.Logf("read from outside after %d attempts", i+1)
			return
		}
	}
	t.Error("no escape: the race shows nothing")
}
