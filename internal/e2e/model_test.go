package e2e

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestModel drives a daemon by random steps beside a model that is a map of files, and
// compares after each. HOLDPOINT_MODEL sets how many sequences of 250 steps there are;
// a failing one is made shorter by rapid, which prints its seed.
func TestModel(t *testing.T) {
	t.Parallel()
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	checks := 2
	if n, err := strconv.Atoi(os.Getenv("HOLDPOINT_MODEL")); err == nil {
		checks = n
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(checks), "rapid.shrinktime": "20s", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	total := map[string]int{}
	on := filesystemOf(t, t.TempDir())
	defer func() { modelRow(on, total).tell(t) }()
	t.Run("S100 (part) after any sequence the tree is the model's, and each credential reverts or refuses rightly", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) { modelRun(t, rt, bin, "", 200, total) })
	})
	var out []string
	for _, k := range slices.Sorted(maps.Keys(total)) {
		out = append(out, fmt.Sprintf("%s %d", k, total[k]))
	}
	t.Logf("model: %d sequences: %s; 0 differ", checks, strings.Join(out, ", "))
}

// modelRow is what sequences on one filesystem did.
func modelRow(on string, total map[string]int) *tried {
	return &tried{What: "sequence with kills", On: on, Of: "all, undo", Tried: total["kills between calls"] + total["kills within a call"] + total["restarts"],
		Acknowledged: total["changes"] + total["undos"], Lost: total["lost"], Half: total["differences"], Refused: total["calls refused rightly"] + total["undos refused rightly"]}
}

// files is the model: what stands at each path.
type files map[string]string

// standing is a change that stands, or stood: what it found and left at the paths it touched.
type standing struct {
	reply     M
	pre, post map[string]*string
	used      bool
}

type model struct {
	rt    *rapid.T
	d     *daemon
	files files
	made  []*standing
	n     int
	total map[string]int
}

var modelPaths = []string{"a/0", "a/1", "a/2", "b/0", "b/1", "c/0"}

// modelRun is one sequence, in a directory below in.
func modelRun(t *testing.T, rt *rapid.T, bin, in string, steps int, total map[string]int) {
	base, err := os.MkdirTemp(in, "hp")
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(base)
	d := &daemon{t: t, Root: filepath.Join(base, "ws"), State: filepath.Join(base, "state"), args: []string{"--review-auth=token"}, bin: bin}
	at, err := os.MkdirTemp("", "hp") // short, wherever the rest is: a socket's path holds 107 bytes
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(at)
	d.Socket = filepath.Join(at, "s")
	m := &model{rt: rt, d: d, files: files{}, total: total}
	for _, dir := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(d.Root, dir), 0o755); err != nil {
			rt.Fatal(err)
		}
	}
	defer func() { d.stop(syscall.SIGKILL) }()
	d.run()
	d.operator()
	for range rapid.IntRange(steps, steps+steps/4).Draw(rt, "steps") {
		m.step()
		m.compare("after a step")
	}
	// Every credential that is left, newest first or in any order.
	order := m.made
	if rapid.Bool().Draw(rt, "newest first") {
		order = slices.Clone(m.made)
		slices.Reverse(order)
	}
	for _, x := range order {
		m.undo(x)
		m.compare("after the last undos")
	}
	if code, out, errs := d.cli("verify"); code != 0 {
		rt.Fatalf("verify: %d %s%s", code, out, errs)
	}
	if _, out := d.http("GET", "/v1/operations?state=intent", d.reviewerToken, nil); len(out["operations"].([]any)) != 0 {
		rt.Fatalf("unsettled: %v", out)
	}
}

func (m *model) count(word string) { m.total[word]++ }

// compare holds the tree to the model.
func (m *model) compare(when string) {
	m.rt.Helper()
	if got := m.read(); !maps.Equal(got, m.files) {
		m.count("differences")
		m.rt.Fatalf("%s: the tree has %v, the model %v", when, got, m.files)
	}
}

func (m *model) read() files {
	got := files{}
	for _, dir := range []string{"a", "b", "c"} {
		list, err := os.ReadDir(filepath.Join(m.d.Root, dir))
		if err != nil {
			m.rt.Fatal(err)
		}
		for _, e := range list {
			b, err := os.ReadFile(filepath.Join(m.d.Root, dir, e.Name()))
			if err != nil {
				m.rt.Fatal(err)
			}
			got[dir+"/"+e.Name()] = string(b)
		}
	}
	return got
}

func (m *model) path() string { return rapid.SampledFrom(modelPaths).Draw(m.rt, "path") }

func (m *model) fresh() string {
	m.n++
	return fmt.Sprintf("%d\n", m.n)
}

// one draws an operation and says what it makes of the files; nil: it must fail.
func (m *model) one(on files) (op string, args M, after files) {
	p, q := m.path(), m.path()
	old, there := on[p]
	after = maps.Clone(on)
	switch op = rapid.SampledFrom([]string{"write_file", "edit_file", "delete_file", "move_file", "copy_file"}).Draw(m.rt, "op"); op {
	case "write_file":
		c := m.fresh()
		args, after[p] = M{"path": p, "content": c}, c
	case "edit_file":
		c := m.fresh()
		args, after[p] = M{"path": p, "old_string": old, "new_string": c}, c
		if !there {
			args["old_string"], after = "none", nil
		}
	case "delete_file":
		args = M{"path": p}
		if delete(after, p); !there {
			after = nil
		}
	default:
		args = M{"source": p, "destination": q}
		_, taken := on[q]
		if after[q] = old; op == "move_file" {
			delete(after, p)
		}
		if !there || taken || p == q {
			after = nil
		}
	}
	return op, args, after
}

func (m *model) step() {
	switch n := rapid.IntRange(0, 99).Draw(m.rt, "what"); {
	case n < 50:
		op, args, after := m.one(m.files)
		m.call(op, args, after)
	case n < 56:
		var items []any
		on := m.files
		for range rapid.IntRange(2, 4).Draw(m.rt, "items") {
			op, args, after := m.one(on)
			if after != nil {
				items, on = append(items, item(op, args)), after
			}
		}
		if len(items) > 1 {
			m.call("batch_file_ops", M{"operations": items}, on)
		}
	case n < 80:
		if len(m.made) > 0 {
			m.undo(rapid.SampledFrom(m.made).Draw(m.rt, "undone"))
		}
	case n < 90: // somebody else writes, or removes
		p := m.path()
		at := filepath.Join(m.d.Root, p)
		m.count("foreign edits")
		if _, there := m.files[p]; there && rapid.Bool().Draw(m.rt, "removes") {
			os.Remove(at)
			delete(m.files, p)
			return
		}
		m.files[p] = m.fresh()
		os.WriteFile(at+"~", []byte(m.files[p]), 0o644)
		if err := os.Rename(at+"~", at); err != nil {
			m.rt.Fatal(err)
		}
	case n < 92:
		m.count("restarts")
		m.d.stop(syscall.SIGTERM)
		m.start()
	case n < 94:
		m.count("kills between calls")
		m.d.stop(syscall.SIGKILL)
		m.start()
	case n < 97:
		m.killed()
	}
}

func (m *model) start() {
	m.d.run()
	m.d.operator()
}

// killed sends a change and kills the daemon at some moment meanwhile: it is whole or absent.
func (m *model) killed() {
	m.count("kills within a call")
	c, p := m.fresh(), m.path()
	after := maps.Clone(m.files)
	after[p] = c
	id := fmt.Sprintf("kill-%d", m.n)
	done := make(chan M, 1)
	go func() {
		_, r, err := m.d.tryHTTP("POST", "/v1/call", m.d.Agent, M{"op": "write_file", "args": M{"path": p, "content": c}, "request_id": id})
		if err != nil {
			r = nil
		}
		done <- r
	}()
	time.Sleep(time.Duration(rapid.IntRange(0, 12000).Draw(m.rt, "microseconds")) * time.Microsecond)
	m.d.stop(syscall.SIGKILL)
	r := <-done
	m.start()
	got := m.read()
	switch {
	case maps.Equal(got, after):
		m.count("kills within a call, whole")
		// The same request again tells of it and does nothing twice.
		_, again := m.d.http("POST", "/v1/call", m.d.Agent, M{"op": "write_file", "args": M{"path": p, "content": c}, "request_id": id})
		if text(again, "status") != "done" {
			m.rt.Fatalf("a change that stands is answered as %v %v", again["status"], again["error"])
		}
		m.keep(again, after)
	case text(r, "status") == "done":
		m.count("lost")
		m.rt.Fatalf("acknowledged and lost: %s of %v, found %v", p, m.files, got)
	}
}

// keep takes a change over into the model.
func (m *model) keep(r M, after files) {
	x := &standing{reply: r, pre: map[string]*string{}, post: map[string]*string{}}
	// A batch may delete a file and copy one of the same bytes to its name: that is touched too.
	touched := map[string]bool{}
	effects, _ := r["effects"].([]any)
	for _, e := range effects {
		touched[text(object(e), "path")] = true
	}
	for _, p := range modelPaths {
		a, was := m.files[p]
		b, is := after[p]
		if was == is && a == b && !touched[p] {
			continue
		}
		x.pre[p], x.post[p] = nil, nil
		if was {
			x.pre[p] = &a
		}
		if is {
			x.post[p] = &b
		}
	}
	if m.files = maps.Clone(after); len(x.pre) > 0 {
		m.made = append(m.made, x)
	}
}

func (m *model) call(op string, args M, after files) {
	m.rt.Helper()
	m.count("calls")
	r := m.d.call(op, args)
	if text(r, "status") == "review" {
		word := "approve"
		if rapid.IntRange(0, 5).Draw(m.rt, "answer") == 0 {
			word = "reject"
		}
		m.count("answers: " + word)
		r = m.d.answer(r, word, "")
		if word == "reject" {
			if text(r, "status") == "done" {
				m.rt.Fatalf("rejected and done: %v", r)
			}
			return
		}
	}
	switch done := text(r, "status") == "done"; {
	case done && after == nil:
		m.rt.Fatalf("%s %v on %v: done, want an error", op, args, m.files)
	case !done && after != nil:
		m.rt.Fatalf("%s %v on %v: %v %v", op, args, m.files, r["status"], r["error"])
	case !done:
		m.count("calls refused rightly")
	default:
		m.count("changes")
		m.keep(r, after)
	}
}

// undo takes a change back, which the model says can be done or cannot.
func (m *model) undo(x *standing) {
	m.rt.Helper()
	can := !x.used
	after := maps.Clone(m.files)
	for p, left := range x.post {
		if is, there := m.files[p]; there != (left != nil) || there && is != *left {
			can = false
		}
		if delete(after, p); x.pre[p] != nil {
			after[p] = *x.pre[p]
		}
	}
	r := m.d.undo(x.reply)
	switch done := text(r, "status") == "done"; {
	case done != can:
		m.rt.Fatalf("undo of what found %v and left %v, used %v, on %v: %v %v by %v", show(x.pre), show(x.post), x.used, m.files, r["status"], r["error"], x.reply)
	case !done:
		m.count("undos refused rightly")
		if c := code(r); c != "undo_conflict" && c != "undo_consumed" {
			m.rt.Fatalf("undo: %v", r["error"])
		}
	default:
		m.count("undos")
		x.used = true
		m.keep(r, after)
	}
}

func show(s map[string]*string) string {
	out := []string{}
	for _, p := range slices.Sorted(maps.Keys(s)) {
		if s[p] == nil {
			out = append(out, p+" absent")
		} else {
			out = append(out, p+" "+strings.TrimSpace(*s[p]))
		}
	}
	return strings.Join(out, ", ")
}
