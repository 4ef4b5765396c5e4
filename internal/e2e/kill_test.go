package e2e

import (
	"context"
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

	"holdpoint/internal/journal"
)

// TestKill ends the daemon with SIGKILL as it enters each call to the system that it makes
// for a request, starts it again, and looks at what is there. HOLDPOINT_KILL=all takes
// every call; else the last and a random one of each name.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	bin := filepath.Join(t.TempDir(), "holdpoint") // the race detector makes calls of its own
	if out, err := exec.Command("go", "build", "-o", bin, "../../cmd/holdpoint").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	table := &strings.Builder{}
	tab := tabwriter.NewWriter(table, 0, 0, 2, ' ', 0)
	mended := 0
	fmt.Fprintln(tab, "request\tcall\tmade\tstrace\tkilled\tmended\twhole\tabsent")
	for i, s := range []scene{
		{name: "I62, I74 a new file with its directories is whole or absent after a kill at any call", short: "create", op: "write_file",
			args: M{"path": "new/a/b.txt", "content": "made\n"}},
		{name: "D34 an edit is whole or absent after a kill at any call", short: "edit", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, kept: 1},
		{name: "S60 (part) an approved delete is whole or absent after a kill at any call, and never runs twice", short: "delete", op: "delete_file",
			args: M{"path": "sub/f.txt"}, held: true, kept: 1},
		{name: "D56 (part) an undo is whole or absent after a kill at any call", short: "undo", op: "edit_file",
			args: M{"path": "sub/f.txt", "old_string": "old", "new_string": "new"}, undo: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			k := newKills(t, bin, s, rand.New(rand.NewPCG(seed, uint64(i))))
			mended += k.all(tab)
			k.inOrder()
		})
	}
	tab.Flush()
	if mended == 0 {
		t.Error("no kill left anything for a restart to mend, so these kills show nothing")
	}
	t.Logf("kills:\n%s", table)
}

// scene is a request to be interrupted.
type scene struct {
	name, short string
	op          string
	args        M
	held        bool // the request that is interrupted is the answer that releases the call
	undo        bool // it is the undo of the call
	kept        int  // things that a whole call leaves in the store
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
	write(t, filepath.Join(root, "sub/f.txt"), "old\n")
	write(t, filepath.Join(root, "sub/.git/HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(root, "sub2/.git"), "gitdir: ../elsewhere\n")
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
	done := must(t, k.whole(), "done")
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
	log                 int    // operations in the log before
	slots               []string
	git                 string
	tree                string // digest before
	touched             bool   // the dead daemon left another tree
}

// prepare brings the daemon to where the next request is the one to interrupt.
func (k *kills) prepare() *try {
	k.t.Helper()
	k.tries++
	a := &try{id: fmt.Sprintf("try-%d", k.tries)}
	a.method, a.path, a.token, a.body = "POST", "/v1/call", k.d.Agent, M{"op": k.s.op, "args": k.s.args, "request_id": a.id}
	switch {
	case k.s.held:
		_, held := k.d.http(a.method, a.path, a.token, a.body)
		a.approval = text(must(k.t, held, "review"), "approval", "id")
		_, row := k.d.http("GET", "/v1/approvals/"+a.approval, k.d.reviewerToken, nil)
		a.path, a.token = "/v1/approvals/"+a.approval+"/answer", k.d.reviewerToken
		a.body = M{"answer": "approve", "shown_digest": text(row, "card", "shown_digest")}
	case k.s.undo:
		_, a.undoes = k.d.http(a.method, a.path, a.token, a.body)
		must(k.t, a.undoes, "done")
		a.path, a.body = "/v1/undo", M{"credential": a.undoes["undo_credential"], "request_id": a.id + "-undo"}
	}
	a.log, a.slots, a.git, a.tree = len(k.log()), k.slots(), k.git(), digest(k.t, k.d.Root)
	return a
}

// run sends the request under a tracer and gives what the tracer saw; the daemon is dead
// afterwards in any case.
func (k *kills) run(a *try, kind string, n int) counted {
	k.t.Helper()
	tr := trace(k.t, k.d.cmd.Process.Pid, kind, n)
	answered := make(chan struct{})
	go func() {
		k.d.tryHTTP(a.method, a.path, a.token, a.body)
		close(answered)
	}()
	<-answered
	time.Sleep(50 * time.Millisecond) // for what follows an answer
	syscall.Kill(k.d.cmd.Process.Pid, syscall.SIGKILL)
	c := tr.wait(k.t)
	k.d.cmd.Wait()
	a.touched = digest(k.t, k.d.Root) != a.tree
	return c
}

// all counts the calls, kills at each, and fills the table. It gives the number of kills
// whose remains the restart had to mend: a tree or a store that is not as it was found.
func (k *kills) all(tab *tabwriter.Writer) (mended int) {
	a := k.prepare()
	made := k.run(a, "", 0).Calls
	k.start()
	k.check(a, "after a kill behind the answer")
	strace := k.strace()
	for _, kind := range tracedKinds {
		killed, whole, torn := 0, 0, 0
		numbers := k.numbers(min(made[kind], strace[kind]))
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
				stands := k.check(a, fmt.Sprintf("after a kill at %s %d", kind, n))
				if n = min(n, c.Calls[kind]); !c.Killed {
					continue
				}
				killed++
				if stands {
					whole++
				}
				break
			}
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

// remains sums up tree and store.
func (k *kills) remains() string { return digest(k.t, k.d.Root) + fmt.Sprint(k.slots()) }

func (k *kills) numbers(made int) []int {
	var out []int
	for n := 1; n <= made; n++ {
		out = append(out, n)
	}
	if os.Getenv("HOLDPOINT_KILL") == "all" || made <= 2 {
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
	for end := time.Now().Add(10 * time.Second); !k.attached(cmd.Process.Pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatal("strace did not attach")
		}
	}
	k.d.http(a.method, a.path, a.token, a.body)
	time.Sleep(100 * time.Millisecond)
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

// log gives all operations, newest first.
func (k *kills) log() []any {
	k.t.Helper()
	_, out := k.d.http("GET", "/v1/operations?limit=1000", k.d.reviewerToken, nil)
	list, ok := out["operations"].([]any)
	if !ok {
		k.t.Fatalf("log: %v", out)
	}
	return list
}

// slots lists what lies in the store.
func (k *kills) slots() []string {
	k.t.Helper()
	list, err := filepath.Glob(filepath.Join(k.d.State, "store", "*", "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	return list
}

// git sums up the .git entries with inode and change time: nobody may even touch them.
func (k *kills) git() string {
	k.t.Helper()
	sum := ""
	for _, p := range []string{"sub/.git", "sub/.git/HEAD", "sub2/.git"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(k.d.Root, p), &st); err != nil {
			k.t.Fatal(err)
		}
		sum += fmt.Sprint(p, st.Ino, st.Size, st.Ctim)
	}
	return sum
}

// check looks at everything after a restart, says whether the change stands, and takes
// the tree back to where it was.
func (k *kills) check(a *try, when string) (stands bool) {
	k.t.Helper()
	when = k.s.short + " " + when
	was, is := k.before, k.after
	if k.s.undo {
		was, is = is, was
	}
	dg := digest(k.t, k.d.Root)
	if stands = dg == is; !stands {
		k.same(was, when)
	}
	if k.git() != a.git {
		k.t.Fatalf("%s: a .git entry was touched", when)
	}
	k.settled(when)
	if k.s.short == "edit" { // a second restart finds nothing more to do
		k.d.stop(syscall.SIGKILL)
		k.start()
		if digest(k.t, k.d.Root) != dg {
			k.t.Fatalf("%s: a second restart changed the tree", when)
		}
		k.settled(when)
	}
	if a.touched && len(k.log()) == a.log {
		k.t.Fatalf("%s: the tree was touched before there was a record of it", when)
	}
	var live []string
	for _, o := range k.log()[:len(k.log())-a.log] {
		if s := text(o.(M), "state"); s != "aborted" {
			live = append(live, text(o.(M), "id"))
		}
	}
	if len(live) != int(b2i(stands)) {
		k.t.Fatalf("%s: stands %v, and the log names %v", when, stands, live)
	}
	if want := len(a.slots) + k.s.kept*int(b2i(stands)); len(k.slots()) != want {
		k.t.Fatalf("%s: stands %v, and %d things lie in the store, want %d", when, stands, len(k.slots()), want)
	}
	switch {
	case k.s.held:
		k.afterAnswer(a, live, when)
	case k.s.undo:
		k.afterUndo(a, live, when)
	default:
		k.afterCall(a, live, when)
	}
	k.same(k.before, when+", taken back")
	return stands
}

// settled asserts that nothing is left half way in the records.
func (k *kills) settled(when string) {
	k.t.Helper()
	if _, out := k.d.http("GET", "/v1/operations?state=intent", k.d.reviewerToken, nil); len(out["operations"].([]any)) != 0 {
		k.t.Fatalf("%s: unsettled operations: %v", when, out)
	}
	for _, state := range []string{"approved", "executing"} {
		if _, out := k.d.http("GET", "/v1/approvals?state="+state, k.d.reviewerToken, nil); len(out["approvals"].([]any)) != 0 {
			k.t.Fatalf("%s: %s rows: %v", when, state, out)
		}
	}
	if status, out := k.d.http("POST", "/v1/audit/verify", k.d.reviewerToken, M{}); status != 200 || out["error"] != nil {
		k.t.Fatalf("%s: audit verify: %v", when, out)
	}
}

// undoOf takes an operation back by the credential that the log gives out.
func (k *kills) undoOf(id, when string) M {
	k.t.Helper()
	_, o := k.d.http("GET", "/v1/operations/"+id, k.d.Agent, nil)
	r := k.d.undo(o)
	if text(r, "status") != "done" {
		k.t.Fatalf("%s: the undo of %s: %v (%v)", when, id, r["error"], o["operation"])
	}
	return r
}

// afterCall sends the same request again: what stands is not done a second time, what is
// absent is done now.
func (k *kills) afterCall(a *try, live []string, when string) {
	k.t.Helper()
	_, r := k.d.http(a.method, a.path, a.token, a.body)
	if text(r, "status") != "done" || r["effects_executed"] != true {
		k.t.Fatalf("%s: the same request again: %v", when, r)
	}
	if len(live) == 1 && text(r, "operation_id") != live[0] {
		k.t.Fatalf("%s: the change stands as %s and was made again as %s", when, live[0], text(r, "operation_id"))
	}
	k.same(k.after, when+", asked again")
	k.undoOf(text(r, "operation_id"), when)
}

// afterAnswer asserts that an approved call is executed, failed with nothing changed, or
// was never answered, and that a second answer runs nothing.
func (k *kills) afterAnswer(a *try, live []string, when string) {
	k.t.Helper()
	_, row := k.d.http("GET", "/v1/approvals/"+a.approval, k.d.reviewerToken, nil)
	state := text(row, "state")
	if (state == "executed") != (len(live) == 1) || state != "executed" && state != "failed" && state != "pending" {
		k.t.Fatalf("%s: the row is %s, and the log names %v", when, state, live)
	}
	if state == "executed" && text(row, "reply", "operation_id") != live[0] {
		k.t.Fatalf("%s: the row's reply is %v, want operation %s", when, row["reply"], live[0])
	}
	_, out := k.d.http(a.method, a.path, a.token, a.body)
	if state == "pending" {
		k.undoOf(text(must(k.t, out["reply"].(M), "done"), "operation_id"), when)
		return
	}
	if code(out) != "already_answered" {
		k.t.Fatalf("%s: a second answer: %v", when, out)
	}
	if len(live) == 1 {
		k.undoOf(live[0], when)
	}
}

// afterUndo asserts that the undo can itself be undone where it stands, and that the
// first credential still works where it does not.
func (k *kills) afterUndo(a *try, live []string, when string) {
	k.t.Helper()
	_, r := k.d.http(a.method, a.path, a.token, a.body)
	if text(r, "status") != "done" {
		k.t.Fatalf("%s: the same undo again: %v", when, r)
	}
	if len(live) == 1 && text(r, "operation_id") != live[0] {
		k.t.Fatalf("%s: the undo stands as %s and was made again as %s", when, live[0], text(r, "operation_id"))
	}
	k.same(k.before, when+", asked again")
	redo := k.undoOf(text(r, "operation_id"), when)
	k.same(k.after, when+", done again")
	must(k.t, k.d.undo(redo), "done")
}

// inOrder stops the daemon and reads its state without it.
func (k *kills) inOrder() {
	k.t.Helper()
	k.d.stop(syscall.SIGTERM)
	ctx := context.Background()
	j, err := journal.Open(k.d.State, journal.Options{})
	if err != nil {
		k.t.Fatal(err)
	}
	defer j.Close()
	if open, err := j.Unsettled(ctx); err != nil || len(open) != 0 {
		k.t.Fatalf("unsettled: %v %v", open, err)
	}
	if bad, err := j.Check(ctx); err != nil || len(bad) != 0 {
		k.t.Fatalf("journal: %v %v", bad, err)
	}
	ops, err := j.Operations(ctx, journal.Filter{})
	if err != nil {
		k.t.Fatal(err)
	}
	named := map[string]bool{}
	for _, o := range ops {
		for _, s := range o.Steps {
			named[s.Slot], named[s.Copy] = true, true
		}
	}
	for _, p := range k.slots() {
		if !named[filepath.Base(p)] {
			k.t.Errorf("%s lies in the store and no operation names it", filepath.Base(p))
		}
	}
}
