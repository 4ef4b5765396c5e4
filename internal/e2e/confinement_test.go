//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// trusted policy, a program by a daemon that asks nobody, and one time in ten both wait for a
// person: it is the race that counts here, and a card costs three requests. For the same reason
// the daemon flushes nothing.
//
// HOLDPOINT_CONFINE_N sets the calls of each operation, HOLDPOINT_CONFINE_OF which of them
// (reads, changes or programs), HOLDPOINT_CONFINE_OP chooses calls by a regular expression,
// HOLDPOINT_CONFINE_FOR ends it after a while. A long run tells how far it is every half minute.
func TestConfinement(t *testing.T) {
	t.Parallel()
	if onItsOwn(t) { // no other namespace shall see the mounts come and go
		return
	}
	c := newConfinement(t)
	c.choose()
	t.Run("S11, S12, S13 no operation reads or writes outside while folders and files are swapped for links and mounts", func(t *testing.T) {
		c.t = t
		defer func() { t.Logf("confinement:\n%s", c.table()) }()
		defer c.telling()()
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
	asking       string // token whose programs wait for a person
	out, outside string
	kept         *http.Client // keeps its connections
	places       []string
	inside       []*os.Root // of each place, wherever the hands have put it
	want         int
	end          time.Time
	of           string
	only         *regexp.Regexp
	calls        []confinedCall
	stop         chan bool
	hands        sync.WaitGroup
	turns        [3]atomic.Int64
	failed       atomic.Bool

	mu                   sync.Mutex // guards the rest
	per                  map[string]*confined
	total, done, escapes int
	stayed               int // changes that were not taken back
}

// confinedPlaces are the folders that the hands play with, one for each kind of hand. A long
// run has each twice, so that the daemon is never without a call.
func confinedPlaces(want int) []string {
	if want < 10_000 {
		return []string{"d", "l", "m"}
	}
	return []string{"d", "l", "m", "d2", "l2", "m2"}
}

func newConfinement(t *testing.T) *confinement {
	c := &confinement{t: t, want: confinedLeast, of: os.Getenv("HOLDPOINT_CONFINE_OF"), only: regexp.MustCompile(os.Getenv("HOLDPOINT_CONFINE_OP")), stop: make(chan bool), per: map[string]*confined{}}
	if !slices.Contains([]string{"", "reads", "changes", "programs"}, c.of) {
		t.Fatalf("HOLDPOINT_CONFINE_OF is %q, and neither reads, changes nor programs", c.of)
	}
	fmt.Sscan(os.Getenv("HOLDPOINT_CONFINE_N"), &c.want)
	c.places = confinedPlaces(c.want)
	if s := os.Getenv("HOLDPOINT_CONFINE_FOR"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		c.end = time.Now().Add(d)
	}
	root, state := dirs(t)
	c.out = filepath.Join(filepath.Dir(root), "OUT")
	for _, p := range c.places {
		confinedTree(t, filepath.Join(root, p), "inside", "")
		write(t, filepath.Join(root, "src-"+p), "inside\n")
	}
	confinedTree(t, c.out, canary, canary)
	var err error
	if c.outside, err = sumOf(c.out); err != nil {
		t.Fatal(err)
	}
	policy := policyFile(t, filepath.Dir(root), M{"id": "race", "workflow_ids": []string{"race"}, "roots": []string{root},
		"operations": []string{"delete_file", "move_file", "rollback_file", "batch_file_ops"}})
	c.daemon = quickOn(t, root, state, "durability = \"relaxed\"\n"+botConf+"[profiles.asking]\nmode = \"prompt\"\n",
		[]string{"HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE=" + policy, "HOLDPOINT_PROCESS_APPROVAL_DISABLED=true"})
	c.Agent = c.token(M{"name": "bot", "role": "agent", "profile": "bot"})
	c.trusted = c.token(M{"name": "racer", "role": "agent", "profile": "bot", "workflow": "race"})
	c.asking = c.token(M{"name": "asker", "role": "agent", "profile": "asking"})
	c.kept = &http.Client{Timeout: 90 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Socket)
	}}}
	for _, p := range c.places { // something to roll back to
		must(t, c.call("backup_file", M{"path": p + "/k.md"}), "done")
		must(t, c.call("edit_file", M{"path": p + "/k.md", "old_string": "#", "new_string": "##"}), "done")
	}
	for _, p := range c.places {
		r, err := os.OpenRoot(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		c.inside = append(c.inside, r)
		c.lay(filepath.Join(root, p))
	}
	return c
}

// lay puts a hand to work at a place, which its first letter names: a directory, links or a
// mount.
func (c *confinement) lay(at string) {
	link := func(to, name string) {
		if err := os.Symlink(to, name); err != nil {
			c.t.Fatal(err)
		}
	}
	switch filepath.Base(at)[0] {
	case 'd':
		link("../OUT", at+".other")
		c.hand(0, func() { exchange(at, at+".other") })
	case 'l':
		link("../../OUT/f", at+"/f.other")
		link("../../../../OUT/f", at+"/s/t/x.other")
		c.hand(1, func() { exchange(at+"/f", at+"/f.other"); exchange(at+"/s/t/x", at+"/s/t/x.other") })
	case 'm':
		c.hand(2, func() {
			if unix.Mount(c.out, at, "", unix.MS_BIND, "") == nil {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
				unix.Unmount(at, unix.MNT_DETACH)
			}
		})
	}
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

// confinedCall is one of confinedCalls, and how often it is made.
type confinedCall struct {
	name  string
	class op.Class
	want  int
}

// confinedLeast is how often each call is made at least, also of an operation that has
// several; unless fewer are wanted.
const confinedLeast = 12

// choose lists the calls to make, of each operation that names a path.
func (c *confinement) choose() {
	for _, spec := range op.Operations() {
		if !spec.Built || spec.Class == op.Reverting || spec.Class == op.Switching || spec.Name == op.ListProfiles {
			continue // an undo is made after each change; the others name no path
		}
		var names []string
		for name := range confinedCalls {
			if operationOf(name) == string(spec.Name) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			c.t.Errorf("%s has no call here: say how it would be led outside", spec.Name)
		}
		if c.of != "" && c.of != confinedKind(spec.Class) {
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !c.only.MatchString(name) })
		for _, name := range names {
			share := (c.want + len(names) - 1) / len(names)
			c.calls = append(c.calls, confinedCall{name, spec.Class, max(share, min(c.want, confinedLeast))})
		}
	}
	slices.SortFunc(c.calls, func(a, b confinedCall) int { return strings.Compare(a.name, b.name) })
	if len(c.calls) == 0 {
		c.t.Fatal("nothing is chosen")
	}
}

func confinedKind(c op.Class) string {
	switch c {
	case op.Read:
		return "reads"
	case op.Process:
		return "programs"
	}
	return "changes"
}

func operationOf(call string) string {
	name, _, _ := strings.Cut(call, " ")
	return name
}

// all lets clients work in each place until all calls were made as often as wanted.
func (c *confinement) all() {
	var clients sync.WaitGroup
	n := len(c.places) * c.crew()
	for k := range n {
		clients.Go(func() { c.client(k, n) })
	}
	clients.Wait()
}

// crew is how many clients work in each place. Where programs alone run, which change nothing,
// they are not in each other's way, and each waits most of the time.
func (c *confinement) crew() int {
	if c.of == "programs" {
		return 4
	}
	return 1
}

// confinedStretch is how many calls in a row a client makes before the outside is looked at.
const confinedStretch = 100

// client takes turns over the calls, with every n-th number, all of one place.
func (c *confinement) client(k, n int) {
	at := make([]int, len(c.calls)) // how many of each were made
	for more := true; more && !c.over(); {
		more = false
		for j, call := range c.calls {
			before := at[j]
			if at[j] = c.stretch(call, k, n, before); at[j] > before {
				more = true
			}
		}
	}
}

// stretch makes some calls of one kind in a row, the k-th and each n-th after it, upon which the
// outside is looked at, and tells how many were made in all.
func (c *confinement) stretch(call confinedCall, k, n, made int) int {
	first, end := made, made+confinedStretch
	if call.class == op.Process {
		end = made + 4 // a program costs a hundred times as much
	}
	for i := made*n + k; i < call.want && made < end && !c.over(); i += n {
		if err := c.one(call, i); err != nil {
			c.failed.Store(true)
			c.t.Errorf("%s: %v\n%s", call.name, err, c.Log)
			return made
		}
		made++
	}
	if made > first {
		if now, err := sumOf(c.out); now != c.outside {
			c.failed.Store(true)
			c.escaped()
			c.t.Errorf("%s: the outside changed, %v", call.name, err)
		}
	}
	return made
}

func (c *confinement) over() bool {
	return c.failed.Load() || !c.end.IsZero() && time.Now().After(c.end)
}

// ask is one request on a connection that is kept.
func (c *confinement) ask(method, path, token string, body M) (M, error) {
	return askWeb(c.kept, method, path, token, body)
}

// one makes one call in one place, lets it go on if it is held, and takes it back.
func (c *confinement) one(call confinedCall, i int) error {
	began, token := time.Now(), c.tokenFor(call, i/len(c.places))
	r, err := c.ask("POST", "/v1/call", token, M{"op": operationOf(call.name), "args": confinedCalls[call.name](c.places[i%len(c.places)], i)})
	if err != nil {
		return err
	}
	c.clean(call.name, r)
	held := r["status"] == "review"
	if held {
		if r, err = c.release(call.name, text(r, "approval", "id"), token); err != nil {
			return err
		}
	}
	c.count(call.name, r["status"] == "done", held, began)
	tries := 500
	if call.class == op.Process {
		tries = 1 // what it changed, if anything, is the hands' work
	}
	if r["status"] != "done" || r["undo_credential"] == nil {
		return nil
	}
	back, err := c.takeBack(call.name, token, r["undo_credential"], tries)
	if err != nil || back || call.class == op.Process {
		return err
	}
	return c.mend(i % len(c.places))
}

// tokenFor is whose call the n-th in a place is: of ten one waits for a person, where it is
// one that can.
func (c *confinement) tokenFor(call confinedCall, n int) string {
	switch {
	case n%10 != 0:
		return c.trusted
	case call.class == op.Process:
		return c.asking
	}
	return c.Agent
}

// takeBack undoes a call, which the hands may hinder, and tells whether that went through.
func (c *confinement) takeBack(name, token string, credential any, tries int) (bool, error) {
	for range tries {
		began := time.Now()
		back, err := c.ask("POST", "/v1/undo", token, M{"credential": credential})
		if err != nil {
			return false, err
		}
		c.clean("undo of "+name, back)
		held := back["status"] == "review" // what cannot be looked at now
		if held {
			if _, err := c.ask("POST", "/v1/approvals/"+text(back, "approval", "id")+"/cancel", token, M{}); err != nil {
				return false, err
			}
		}
		done := back["status"] == "done"
		if c.count("undo", done, held, began); done || code(back) == "undo_consumed" {
			return done, nil
		}
		time.Sleep(100 * time.Microsecond)
	}
	return false, nil
}

// mend puts back what the calls of a place need, after a change that could not be taken back:
// a hand that reached into what was put away changed it there. It goes by a handle on the
// inside, not by names.
func (c *confinement) mend(k int) error {
	c.mu.Lock()
	c.stayed++
	c.mu.Unlock()
	in, src := c.inside[k], filepath.Join(c.Root, "src-"+c.places[k])
	err := in.MkdirAll("s/t", 0o755)
	for _, name := range []string{"mv", "s/t/x"} {
		if f, made := in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); made == nil {
			_, bad := f.WriteString("inside\n")
			err = errors.Join(err, bad, f.Close())
		}
	}
	if c.places[k][0] == 'l' {
		in.Symlink("../../../../OUT/f", "s/t/x.other") // it may be there
	}
	if b, bad := in.ReadFile("k.md"); bad != nil || string(b) != "## inside\n" {
		err = errors.Join(err, in.WriteFile("k.md", []byte("## inside\n"), 0o644))
	}
	if _, gone := os.Lstat(src); gone != nil {
		err = errors.Join(err, os.WriteFile(src, []byte("inside\n"), 0o644))
	}
	return err
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

var canaryHash = hashOf(canary + " 0\n")

// clean looks whether an answer tells anything of the outside.
func (c *confinement) clean(name string, answer M) {
	b, err := json.Marshal(answer)
	if err != nil {
		c.t.Error(err)
	}
	b = bytes.ReplaceAll(b, []byte(canary[:5]+`"`), nil) // the pattern of a search comes back with it
	if bytes.Contains(b, []byte(canary)) || bytes.Contains(b, []byte(canaryHash)) {
		c.escaped()
		c.t.Errorf("%s tells of the outside: %.600s", name, b)
	}
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
			found, err := fileHas(p, canary)
			if found {
				t.Errorf("%s holds something of the outside", p)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// fileHas looks for a word in a file, a piece at a time: the journal of a long run is larger than
// what one wants to have in memory.
func fileHas(file, word string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf, kept := make([]byte, 1<<16), 0
	for {
		n, err := f.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], []byte(word)) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		tail := min(kept+n, len(word)-1) // it may stand across two pieces
		copy(buf, buf[kept+n-tail:kept+n])
		kept = tail
	}
}

// stopped ends the daemon and takes off what is mounted still.
func (c *confinement) stopped() {
	c.daemon.stop(15)
	for _, p := range c.places {
		unix.Unmount(filepath.Join(c.Root, p), unix.MNT_DETACH) // of a hand that was stopped in its turn
	}
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
