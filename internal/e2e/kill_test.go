package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// TestKill ends the daemon with SIGKILL as it enters each call to the system that it makes
// for a request, starts it again, and looks at what is there. HOLDPOINT_KILL=all takes
// every call; else the last and a random one of each name.
func TestKill(t *testing.T) {
	t.Parallel()
	table := newKillTable(t)
	for i, s := range []scene{
		{name: "I62, I74 a new file with its directories is whole or absent after a kill at any call", short: "create", op: "write_file",
			args: M{"path": "new/a/b.txt", "content": "made\n"}},
		{name: "D34 an edit is whole or absent after a kill at any call", short: "edit", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, kept: 1},
		{name: "D34 an edit whose intent goes ahead of the database is whole or absent after a kill at any call", short: "edit ahead", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, kept: 1, unnamed: true},
		{name: "S60 (part) an approved delete is whole or absent after a kill at any call, and never runs twice", short: "delete", op: "delete_file",
			args: M{"path": "sub/f.txt"}, held: true, kept: 1},
		{name: "D56 (part) an undo is whole or absent after a kill at any call", short: "undo", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, undo: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			table.row(t, i, s)
		})
	}
	table.end(t)
}

// killTable has a row for each request that is interrupted and each kind of call it makes.
type killTable struct {
	seed   uint64
	bin    string // built without the race detector: a restart is quick
	text   strings.Builder
	tab    *tabwriter.Writer
	mended int // kills whose remains a restart had to mend
}

func newKillTable(t *testing.T) *killTable {
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	k := &killTable{seed: seedOf(t), bin: bin}
	k.tab = tabwriter.NewWriter(&k.text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(k.tab, "request\tcall\tmade\tstrace\tkilled\tmended\twhole\tabsent")
	return k
}

// row interrupts the request of the i-th scene at its calls, and then at none.
func (table *killTable) row(t *testing.T, i int, s scene) {
	k := newKills(t, table.bin, s, rand.New(rand.NewPCG(table.seed, uint64(i))))
	if s.kept == asCounted {
		k.s.kept = k.keeps()
	}
	table.mended += k.all(table.tab)
	k.inOrder()
}

// end prints the table, which must show something.
func (table *killTable) end(t *testing.T) {
	table.tab.Flush()
	if table.mended == 0 {
		t.Error("no kill left anything for a restart to mend, so these kills show nothing")
	}
	t.Logf("kills:\n%s", &table.text)
}

// asCounted, in place of what a scene leaves in the store, says that it is to be counted first.
const asCounted = -1

// scene is a request to be interrupted.
type scene struct {
	name, short string
	op          string
	args        M
	held        bool                                             // the request that is interrupted is the answer that releases the call
	mount       bool                                             // the root is a mount of its own, so that the store holds copies
	undo        bool                                             // it is the undo of the call
	unnamed     bool                                             // it has no request id
	kept        int                                              // things that a whole call leaves in the store
	files       map[string]string                                // what is there besides, to begin with
	only        func(kind string, numbers []int, made int) []int // may be nil: chooses the kills
}

// kills interrupts one scene again and again, on one state.
type kills struct {
	t      *testing.T
	d      *daemon
	s      scene
	rng    *rand.Rand
	before string // digest of the tree without the change
	after  string // and with it
	tries  int
}

func newKills(t *testing.T, bin string, s scene, rng *rand.Rand) *kills {
	root, state := dirs(t)
	if s.mount {
		mountOn(t, root)
	}
	write(t, filepath.Join(root, "sub/f.txt"), "old\n")
	write(t, filepath.Join(root, "sub/.git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, "sub2/.git"), "gitdir: ../elsewhere\n")
	for name, content := range s.files {
		write(t, filepath.Join(root, name), content)
	}
	if err := os.Chmod(filepath.Join(root, "sub/f.txt"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setxattr(filepath.Join(root, "sub/f.txt"), "user.mark", []byte("kept"), 0); err != nil {
		t.Fatal(err)
	}
	// Without a passphrase no restart has to wait for Argon2.
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(state, "holdpoint.sock"), args: []string{"--review-auth=token"}, bin: bin}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	k := &kills{t: t, d: d, s: s, rng: rng, before: digest(t, root)}
	k.start()
	done := k.whole()
	if !s.held && text(done, "status") == "review" {
		done = d.approve(done)
	}
	must(t, done, "done")
	k.after = digest(t, root)
	must(t, d.undo(done), "done")
	k.same(k.before, "after the call and its undo")
	if k.before == k.after {
		t.Fatal("the call changes nothing that the digest sees")
	}
	return k
}

// start runs the daemon; its operator's token is the reviewer's.
func (k *kills) start() {
	k.t.Helper()
	k.d.run()
	k.d.reviewerToken = strings.TrimSpace(read(k.t, filepath.Join(k.d.State, "tokens", "operator")))
}

func (k *kills) same(want, when string) {
	k.t.Helper()
	if digest(k.t, k.d.Root) != want {
		out, _ := exec.Command("ls", "-laR", k.d.Root).Output()
		k.t.Fatalf("%s %s: the tree is not as it must be:\n%s", k.s.short, when, out)
	}
}

// whole makes the call without interruption.
func (k *kills) whole() M {
	k.t.Helper()
	r := k.d.call(k.s.op, k.s.args)
	if k.s.held {
		r = k.d.approve(must(k.t, r, "review"))
	}
	return r
}

// try is one interrupted request.
type try struct {
	method, path, token string
	body                M
	id                  string // of the request
	approval            string // of the held call
	undoes              M      // the reply of the call that is undone
	newest              string // operation in the log before
	slots               []string
	git                 string
	tree                string   // digest before
	touched             bool     // the dead daemon left another tree
	acked               bool     // the reply had come, and said done
	beside              []string // operations of others since then
}

// prepare brings the daemon to where the next request is the one to interrupt.
func (k *kills) prepare() *try {
	k.t.Helper()
	k.tries++
	a := &try{id: fmt.Sprintf("try-%d", k.tries)}
	a.method, a.path, a.token, a.body = "POST", "/v1/call", k.d.Agent, M{"op": k.s.op, "args": k.s.args}
	if !k.s.unnamed {
		a.body["request_id"] = a.id
	}
	switch {
	case k.s.held:
		_, held := k.d.http(a.method, a.path, a.token, a.body)
		a.approval = text(must(k.t, held, "review"), "approval", "id")
		_, row := k.d.http("GET", "/v1/approvals/"+a.approval, k.d.reviewerToken, nil)
		a.path, a.token = "/v1/approvals/"+a.approval+"/answer", k.d.reviewerToken
		a.body = M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}
	case k.s.undo:
		_, a.undoes = k.d.http(a.method, a.path, a.token, a.body)
		if text(a.undoes, "status") == "review" {
			a.undoes = k.d.approve(a.undoes)
		}
		must(k.t, a.undoes, "done")
		a.path, a.body = "/v1/undo", M{"credential": a.undoes["undo_credential"], "request_id": a.id + "-undo"}
	}
	if before := k.since(""); len(before) > 0 {
		a.newest = text(before[0], "id")
	}
	a.slots, a.git, a.tree = k.slots(), k.git(), digest(k.t, k.d.Root)
	return a
}

// run sends the request under a tracer and gives what the tracer saw; the daemon is dead
// afterwards in any case.
func (k *kills) run(a *try, kind string, n int) counted {
	k.t.Helper()
	tr := trace(k.t, k.d.cmd.Process.Pid, kind, n)
	answered := make(chan struct{})
	go func() {
		_, r, err := k.d.tryHTTP(a.method, a.path, a.token, a.body)
		if released, ok := r["reply"].(M); ok {
			r = released
		}
		a.acked = err == nil && text(r, "status") == "done"
		close(answered)
	}()
	<-answered
	if kind == "" { // for what follows an answer, all of which is to be counted
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	syscall.Kill(k.d.cmd.Process.Pid, syscall.SIGKILL)
	c := tr.wait(k.t)
	k.d.cmd.Wait()
	a.touched = digest(k.t, k.d.Root, ".holdpoint") != a.tree
	return c
}

// all counts the calls, kills at each, and fills the table. It gives the number of kills
// whose remains the restart had to mend: a tree or a store that is not as it was found.
func (k *kills) all(tab *tabwriter.Writer) (mended int) {
	row := &tried{What: "kill at a system call", On: filesystemOf(k.t, k.d.Root), Of: k.s.short}
	defer row.tell(k.t)
	made, strace := k.counts()
	for _, kind := range tracedKinds {
		killed, whole, torn := 0, 0, 0
		numbers := k.numbers(min(made[kind], strace[kind]))
		if k.s.only != nil {
			numbers = k.s.only(kind, numbers, min(made[kind], strace[kind]))
		}
		for _, n := range numbers {
			// The database writes a page more or less from run to run; where there is no Nth
			// call this time, the last one is taken.
			for range 5 {
				a := k.prepare()
				c := k.run(a, kind, n)
				found := k.remains()
				k.start()
				if c.Killed && k.remains() != found {
					torn++
				}
				when := fmt.Sprintf("after a kill at %s %d", kind, n)
				var stands bool
				row.looking(k.t, func() { stands = k.check(a, when) })
				if a.acked && !stands {
					row.Lost++
					k.t.Errorf("%s %s: acknowledged, and lost", k.s.short, when)
				}
				if n = min(n, c.Calls[kind]); !c.Killed {
					continue
				}
				killed++
				row.Tried++
				row.Acknowledged += int(b2i(a.acked))
				if stands {
					whole++
				}
				break
			}
		}
		if kind == "pwrite64" {
			fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t\t\t\t\n", k.s.short, walWrites, made[walWrites], strace[walWrites])
		}
		fmt.Fprintf(tab, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", k.s.short, kind, made[kind], strace[kind], killed, torn, whole, killed-whole)
		mended += torn
		if killed != len(numbers) {
			k.t.Errorf("%s %s: %d kills, want %d", k.s.short, kind, killed, len(numbers))
		}
	}
	for _, kind := range []string{"openat2", "write", "pwrite64", "fdatasync", "rename*"} {
		if made[kind] == 0 || strace[kind] == 0 {
			k.t.Errorf("%s: no %s was seen, which cannot be: counted %v, strace %v", k.s.short, kind, made, strace)
		}
	}
	return mended
}

// counts lets the tracer and strace count the calls of one request each, and compares.
// The daemon's clockwork may add a call of its own to either, so they get several tries to
// agree.
func (k *kills) counts() (made, strace map[string]int) {
	k.t.Helper()
	differ := ""
	for range 4 {
		a := k.prepare()
		made = k.run(a, "", 0).Calls
		k.start()
		k.check(a, "after a kill behind the answer")
		strace = k.strace()
		if differ = compare(made, strace); differ == "" {
			return made, strace
		}
	}
	k.t.Errorf("%s: the tracer and strace do not count the same calls: %s", k.s.short, differ)
	return made, strace
}

// blanks is how many empty files the store makes ready when a call has ended, each with a
// flush of its own, for as long as the daemon lives.
const blanks = 8

// compare names what two counts differ in. All that is not the database's log is the same
// from one request to the next; the log gets its pages in pairs of writes, and when it is
// full it is flushed and brought into the database, which is one more flush of each.
func compare(made, strace map[string]int) string {
	var out []string
	folded := made["fsync"] - strace["fsync"]
	if folded != made["fdatasync"]-strace["fdatasync"] || max(folded, -folded) > 1 {
		folded = 0
	}
	for _, kind := range tracedKinds {
		one, two := made[kind], strace[kind]
		if strings.HasSuffix(kind, "sync") {
			one -= folded
		}
		if kind == "pwrite64" {
			one, two = one-made[walWrites], two-strace[walWrites]
		}
		if (kind == "fsync" || kind == "openat2") && max(one-two, two-one) <= blanks {
			continue
		}
		// What nobody waits for is flushed a moment later, unless another flush comes before.
		if kind == "fdatasync" && max(one-two, two-one) <= 1 {
			continue
		}
		if one != two {
			out = append(out, fmt.Sprintf("%s %d and %d", kind, one, two))
		}
	}
	if made[walWrites] == 0 || made[walWrites]%2 != 0 || strace[walWrites] == 0 || strace[walWrites]%2 != 0 {
		out = append(out, fmt.Sprintf("%s %d and %d, which are no pairs", walWrites, made[walWrites], strace[walWrites]))
	}
	return strings.Join(out, ", ")
}

// remains sums up tree and store.
func (k *kills) remains() string { return digest(k.t, k.d.Root) + fmt.Sprint(k.slots()) }

func (k *kills) numbers(made int) []int {
	var out []int
	for n := 1; n <= made; n++ {
		out = append(out, n)
	}
	if everyCall() || made <= 2 {
		return out
	}
	return []int{1 + k.rng.IntN(made-1), made}
}

// strace counts the calls of one request by the tool that is meant for it, for comparison.
func (k *kills) strace() map[string]int {
	k.t.Helper()
	a := k.prepare()
	names := make([]string, 0, len(traced))
	for name := range traced {
		names = append(names, name)
	}
	out := filepath.Join(k.t.TempDir(), "strace")
	cmd := exec.Command("strace", "-f", "-y", "-o", out, "-e", "trace="+strings.Join(names, ","), "-p", fmt.Sprint(k.d.cmd.Process.Pid))
	if err := cmd.Start(); err != nil {
		k.t.Fatalf("strace: %v", err)
	}
	defer cmd.Wait()
	for end := time.Now().Add(time.Minute); !k.attached(cmd.Process.Pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatal("strace did not attach")
		}
	}
	k.d.http(a.method, a.path, a.token, a.body)
	time.Sleep(250 * time.Millisecond)
	k.d.stop(syscall.SIGKILL)
	cmd.Wait()
	counts := map[string]int{}
	for _, line := range strings.Split(read(k.t, out), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 || strings.Contains(line, "resumed>") || strings.Contains(line, "eventfd") {
			continue
		}
		name, _, _ := strings.Cut(f[1], "(")
		if kind := traced[name]; kind != "" {
			counts[kind]++
			if kind == "pwrite64" && strings.Contains(line, walName+">") {
				counts[walWrites]++
			}
		}
	}
	k.start()
	k.check(a, "under strace")
	return counts
}

// attached reports whether every thread of the daemon has this tracer.
func (k *kills) attached(tracer int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", k.d.cmd.Process.Pid))
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil || !strings.Contains(string(b), fmt.Sprintf("TracerPid:\t%d\n", tracer)) {
			return false
		}
	}
	return len(tasks) > 0
}
