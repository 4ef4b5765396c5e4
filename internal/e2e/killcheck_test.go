package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"holdpoint/internal/journal"
)

// What must hold after each kill of TestKill.

// since gives the operations that came after one, newest first; all if it is "".
func (k *kills) since(newest string) (out []M) {
	k.t.Helper()
	_, page := k.d.http("GET", "/v1/operations?limit=20", k.d.reviewerToken, nil)
	list, ok := page["operations"].([]any)
	if !ok {
		k.t.Fatalf("log: %v", page)
	}
	for _, each := range list {
		o := object(each)
		if text(o, "id") == newest {
			return out
		}
		out = append(out, o)
	}
	if newest != "" {
		k.t.Fatalf("%s is not among the last %d of the log", newest, len(list))
	}
	return out
}

// slots lists what lies in the store, but for the empty files that are kept ready.
func (k *kills) slots() []string {
	k.t.Helper()
	list, err := filepath.Glob(filepath.Join(k.d.State, "store", "*", "*"))
	if err != nil {
		k.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(p string) bool {
		i, err := os.Lstat(p)
		return err == nil && i.Size() == 0 && blankName.MatchString(p)
	})
}

var blankName = regexp.MustCompile(`-[0-7]$`)

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
	if strings.HasPrefix(k.s.short, "edit") { // a second restart finds nothing more to do
		k.d.stop(syscall.SIGKILL)
		k.start()
		if digest(k.t, k.d.Root) != dg {
			k.t.Fatalf("%s: a second restart changed the tree", when)
		}
		k.settled(when)
	}
	made := k.since(a.newest)
	if a.touched && len(made) == 0 {
		k.t.Fatalf("%s: the tree was touched before there was a record of it", when)
	}
	var live []string
	for _, o := range made {
		if s := text(o, "state"); s != "aborted" && !slices.Contains(a.beside, text(o, "id")) {
			live = append(live, text(o, "id"))
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
	if k.s.unnamed && len(live) == 1 { // nobody can tell that it is the same request
		k.undoOf(live[0], when)
		return
	}
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
