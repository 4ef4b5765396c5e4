package e2e

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

// kindInputs is how many inputs each kind of the data cases gets beside the written ones.
const kindInputs = 3

// TestKindsOfData makes inputs of its own for each kind of the cases of data: what holds of
// the written case must hold of any.
func TestKindsOfData(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	d, inner := quick(t, ""), quick(t, "")
	for n, kind := range []struct {
		name string
		one  func(*made, *testing.T)
	}{
		{"ENC any text keeps its encoding, endings and mark around an edit", (*made).encoding},
		{"MATCH any text is matched literally, once, or the edit says where", (*made).matching},
		{"EOF any end of a file stays as a patch found it", (*made).ending},
		{"META any mode, owner and attribute outlives an edit and its undo", (*made).metadata},
		{"PATCH any patch of git gives what git makes of it", (*made).patched},
		{"RACE any foreign change after the look is stale, and stays", (*made).raced},
		{"UNDO any row of changes is taken back to the start", (*made).undone},
		{"FS any tree moves, is copied, deleted and comes back whole", (*made).trees},
		{"BIG any page joins the next, and any hit in a long line is found", (*made).pages},
	} {
		t.Run(kind.name, func(t *testing.T) {
			for i := range kindInputs {
				m := &made{daemon: d, inner: inner, r: rand.New(rand.NewPCG(seed, uint64(n*1000+i))), dir: fmt.Sprintf("k%d-%d", n, i)}
				if err := os.Mkdir(m.at(""), 0o755); err != nil {
					t.Fatal(err)
				}
				t.Run(fmt.Sprint(i), func(t *testing.T) { kind.one(m, t) })
			}
		})
	}
}

// made is one generated input in a directory of its own.
type made struct {
	*daemon
	inner *daemon // for what fills a whole root
	r     *rand.Rand
	dir   string
}

func (m *made) at(name string) string  { return filepath.Join(m.Root, m.dir, name) }
func (m *made) rel(name string) string { return m.dir + "/" + name }

func (m *made) word() string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 3+m.r.IntN(6))
	for i := range b {
		b[i] = letters[m.r.IntN(len(letters))]
	}
	return string(b)
}

func (m *made) lines(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s %s %d", m.word(), m.word(), i))
	}
	return out
}

func (m *made) encoding(t *testing.T) {
	eol := []string{"\n", "\r\n"}[m.r.IntN(2)]
	lines := m.lines(3 + m.r.IntN(20))
	at := m.r.IntN(len(lines))
	lines[at] = "target " + m.word()
	to := "changed " + m.word()
	body := func(line string) string {
		all := append([]string{}, lines...)
		all[at] = line
		return strings.Join(all, eol) + []string{"", eol}[len(lines)%2]
	}
	wide := func(low int, mark string) func(string) string {
		return func(s string) string {
			out := []byte(mark)
			for _, u := range utf16.Encode([]rune("é" + s)) {
				two := [2]byte{byte(u >> 8), byte(u >> 8)}
				two[low] = byte(u)
				out = append(out, two[:]...)
			}
			return string(out)
		}
	}
	for name, enc := range map[string]func(string) string{
		"utf-8":          func(s string) string { return "é\u2028" + s },
		"utf-8 and mark": func(s string) string { return "\xef\xbb\xbf" + s },
		"latin-1":        func(s string) string { return "caf\xe9 \xff\x80" + s + "\xfe" },
		"gbk":            func(s string) string { return "\xd6\xd0\xce\xc4" + s },
		"utf-16le":       wide(0, "\xff\xfe"),
		"utf-16be":       wide(1, "\xfe\xff"),
	} {
		write(t, m.at("f"), enc(body(lines[at])))
		r := must(t, m.call("edit_file", M{"path": m.rel("f"), "old_string": lines[at], "new_string": to}), "done")
		if got, want := read(t, m.at("f")), enc(body(to)); got != want || text(r, "result", "hash") != hashOf(want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		must(t, m.undo(r), "done")
		if got := read(t, m.at("f")); got != enc(body(lines[at])) {
			t.Errorf("%s: after the undo %q", name, got)
		}
	}
}

func (m *made) matching(t *testing.T) {
	needle, times := "  "+m.word()+"("+m.word()+")", 2+m.r.IntN(5)
	lines := m.lines(times * 3)
	for i := range times {
		lines[i*3] = needle
	}
	was := strings.Join(lines, "\n") + "\n"
	write(t, m.at("f"), was)
	to := []string{"$1 ${n} $& \\1", "&amp; %s %d", "\\n\\t", "^.*$ (?i)", "[" + m.word() + "]"}[m.r.IntN(5)]
	args := M{"path": m.rel("f"), "old_string": needle, "new_string": to}
	r := m.call("edit_file", args)
	if code(r) != "ambiguous_match" || !strings.Contains(text(r, "error", "message"), fmt.Sprint(times)) || read(t, m.at("f")) != was {
		t.Errorf("%d places: %v", times, r["error"])
	}
	for _, near := range []string{"\t" + strings.TrimSpace(needle), strings.ToUpper(needle), needle + "\u00a0", lines[0] + "\n" + m.word() + "\n" + lines[1], lines[1] + m.word()} {
		if r := m.call("edit_file", M{"path": m.rel("f"), "old_string": near, "new_string": to}); code(r) != "no_match" || read(t, m.at("f")) != was {
			t.Errorf("%q is not there: %v", near, r["error"])
		}
	}
	args["replace_all"] = true
	r = must(t, m.call("edit_file", args), "done")
	if got := read(t, m.at("f")); got != strings.ReplaceAll(was, needle, to) || number(object(r["result"])["replacements"]) != int64(times) {
		t.Errorf("got %q, %v", got, r["result"])
	}
}

func (m *made) ending(t *testing.T) {
	lines := m.lines(2 + m.r.IntN(6))
	end := []string{"", "\n", "\n\n", "\n\n\n"}[m.r.IntN(4)]
	was := strings.Join(lines, "\n") + end
	write(t, m.at("f"), was)
	all := strings.SplitAfter(was, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	at := m.r.IntN(len(lines))
	to := "new " + m.word()
	var hunk, want strings.Builder
	fmt.Fprintf(&hunk, "--- a/%s\n+++ b/%[1]s\n@@ -1,%d +1,%[2]d @@\n", m.rel("f"), len(all))
	put := func(sign, line string) {
		hunk.WriteString(sign + strings.TrimSuffix(line, "\n") + "\n")
		if !strings.HasSuffix(line, "\n") {
			hunk.WriteString("\\ No newline at end of file\n")
		}
	}
	for i, line := range all {
		if i != at {
			put(" ", line)
			want.WriteString(line)
			continue
		}
		put("-", line)
		now := to + strings.TrimPrefix(line, lines[at])
		put("+", now)
		want.WriteString(now)
	}
	r := must(t, m.call("patch_file", M{"patch": hunk.String()}), "done")
	if got := read(t, m.at("f")); got != want.String() {
		t.Errorf("got %q, want %q", got, want.String())
	}
	must(t, m.undo(r), "done")
	if got := read(t, m.at("f")); got != was {
		t.Errorf("after the undo: %q", got)
	}
}

func (m *made) metadata(t *testing.T) {
	write(t, m.at("f"), "one\n")
	uid, gid := 1000+m.r.IntN(50), 2000+m.r.IntN(50)
	mode := uint32(0o600 | m.r.IntN(0o10000))
	// Modes after the owner: a change of owner takes special bits away.
	if err := os.Chown(m.at("f"), uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(m.at("f"), "user."+m.word(), []byte(m.word()), 0); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chmod(m.at("f"), mode); err != nil {
		t.Fatal(err)
	}
	facts := func() string {
		st := stat(t, m.at("f")).Sys().(*syscall.Stat_t)
		return fmt.Sprintf("%o %d:%d %q", st.Mode, st.Uid, st.Gid, xattrs(m.at("f")))
	}
	before := facts()
	var last M
	for _, c := range []struct {
		op   string
		args M
	}{
		{"edit_file", M{"path": m.rel("f"), "old_string": "one", "new_string": "two"}},
		{"write_file", M{"path": m.rel("f"), "content": "three\n"}},
		{"patch_file", M{"patch": fmt.Sprintf("--- a/%s\n+++ b/%[1]s\n@@ -1 +1 @@\n-three\n+four\n", m.rel("f"))}},
	} {
		last = must(t, m.yes(c.op, c.args), "done")
		if now := facts(); now != before {
			t.Errorf("after %s: %s, was %s", c.op, now, before)
		}
	}
	must(t, m.undo(last), "done")
	if now := facts(); now != before || read(t, m.at("f")) != "three\n" {
		t.Errorf("after the undo: %s %q, was %s", now, read(t, m.at("f")), before)
	}
}

func (m *made) patched(t *testing.T) {
	g := &gitPair{t: t, repo: t.TempDir(), rng: m.r}
	g.git("init", "-q")
	inner := m.inner
	for applied := 0; applied < 1; {
		g.pair()
		want, says := g.apply()
		if g.links || want == nil {
			continue
		}
		inner.fill(g.old)
		before := digest(t, inner.Root)
		r := inner.yes("patch_file", M{"patch_base64": base64.StdEncoding.EncodeToString(g.patch)})
		if r["status"] != "done" {
			if digest(t, inner.Root) != before {
				t.Fatalf("it failed and something changed\n%s", g.patch)
			}
			t.Fatalf("git %s, ours %v\n%s", says, r["error"], g.patch)
		}
		if got := g.tree(inner.Root); !maps.Equal(got, want) {
			t.Errorf("got %q\nwant %q\n%s", got, want, g.patch)
		}
		must(t, inner.undo(r), "done")
		if digest(t, inner.Root) != before {
			t.Error("the undo does not bring the start back")
		}
		applied++
	}
}

func (m *made) raced(t *testing.T) {
	was := strings.Join(m.lines(4), "\n") + "\nbeta\n"
	for name, foreign := range map[string]func(path string) string{
		"append": func(p string) string { s := was + m.word() + "\n"; write(t, p, s); return s },
		"same size, old time": func(p string) string {
			s := strings.Replace(was, "beta", "BETA", 1)
			write(t, p, s)
			past := time.Now().Add(-time.Duration(1+m.r.IntN(100)) * time.Hour)
			os.Chtimes(p, past, past)
			return s
		},
		"renamed over": func(p string) string {
			s := m.word() + "\nbeta\n"
			write(t, p+".new", s)
			os.Rename(p+".new", p)
			return s
		},
		"cut": func(p string) string { s := was[:m.r.IntN(len(was)-5)]; write(t, p, s); return s },
	} {
		p := m.at("f")
		write(t, p, was)
		h := text(must(t, m.call("view_file", M{"path": m.rel("f")}), "done"), "result", "hash")
		look := m.preflight("edit_file", M{"path": m.rel("f"), "old_string": "beta", "new_string": "gamma"})["pins"]
		held := must(t, m.call("write_file", M{"path": m.rel("f"), "content": "mine\n"}), "review")
		theirs := foreign(p)
		_, pinned := m.send(m.Agent, M{"op": "edit_file", "args": M{"path": m.rel("f"), "old_string": "beta", "new_string": "gamma"}, "pins": look})
		for how, r := range map[string]M{
			"edit":    m.call("edit_file", M{"path": m.rel("f"), "old_string": "beta", "new_string": "gamma", "expected_hash": h}),
			"write":   m.call("write_file", M{"path": m.rel("f"), "content": "mine\n", "expected_hash": h}),
			"pins":    pinned,
			"release": m.approve(held),
		} {
			if code(r) != "stale_precondition" || read(t, p) != theirs {
				t.Errorf("%s, %s: %v, the file %q", name, how, r["error"], read(t, p))
			}
		}
	}
}

func (m *made) undone(t *testing.T) {
	for i := range 3 {
		write(t, m.at(fmt.Sprintf("d%d/f", i)), strings.Join(m.lines(5), "\n")+"\nmark\n")
	}
	before := digest(t, m.at(""))
	var done []M
	for i := range 6 {
		f := m.rel(fmt.Sprintf("d%d/f", m.r.IntN(3)))
		if _, err := os.Lstat(filepath.Join(m.Root, f)); err != nil {
			continue
		}
		var r M
		switch m.r.IntN(6) {
		case 0:
			r = m.yes("edit_file", M{"path": f, "old_string": "mark", "new_string": "mark " + m.word()})
		case 1:
			r = m.yes("write_file", M{"path": m.rel(fmt.Sprintf("new%d/x", i)), "content": m.word()})
		case 2:
			r = m.yes("delete_file", M{"path": f})
		case 3:
			r = m.yes("move_file", M{"source": f, "destination": m.rel(fmt.Sprintf("moved%d/y", i))})
		case 4:
			r = m.yes("copy_file", M{"source": m.rel("d0"), "destination": m.rel(fmt.Sprintf("copy%d", i)), "recursive": true})
		default:
			r = m.yes("batch_file_ops", M{"operations": []any{item("edit_file", M{"path": f, "old_string": "mark", "new_string": "batch"}),
				item("move_file", M{"source": f, "destination": m.rel(fmt.Sprintf("b%d", i))})}})
		}
		if r["status"] == "done" {
			done = append(done, r)
		}
	}
	// What somebody else changed since is not taken away by any of them.
	theirs := m.at("theirs")
	for i := len(done) - 1; i >= 0; i-- {
		write(t, theirs, m.word())
		mine := read(t, theirs)
		must(t, m.undo(done[i]), "done")
		if read(t, theirs) != mine {
			t.Fatal("a file of somebody else changed")
		}
		if r := m.undo(done[i]); code(r) != "undo_consumed" {
			t.Errorf("twice: %v", r["error"])
		}
	}
	os.Remove(theirs)
	if digest(t, m.at("")) != before {
		t.Errorf("after %d undos: not as before", len(done))
	}
}

func (m *made) trees(t *testing.T) {
	odd := []string{"plain", "with space", "caf\u00e9", "-dash", "q\"uote", "\u202etxt", ".hidden", "line\nbreak", "bad\xff", strings.Repeat("n", 255)}
	for range 12 {
		dir := m.at("t")
		for range m.r.IntN(4) {
			dir = filepath.Join(dir, odd[m.r.IntN(4)])
		}
		os.MkdirAll(dir, os.FileMode(0o700|m.r.IntN(0o100)))
		p := filepath.Join(dir, odd[4+m.r.IntN(len(odd)-4)]) // files have other names than directories
		switch os.Remove(p); m.r.IntN(4) {
		case 0:
			os.Symlink([]string{".", "..", "nowhere", "/etc"}[m.r.IntN(4)], p)
		default:
			os.WriteFile(p, []byte(m.word()), os.FileMode(0o400|m.r.IntN(0o400)))
		}
	}
	os.MkdirAll(m.at("t/empty"), 0o711)
	write(t, m.at("taken/x"), "x")
	before, tree := digest(t, m.at("")), digest(t, m.at("t"))
	for _, to := range []string{"taken", "taken/x"} {
		if r := m.call("move_file", M{"source": m.rel("t"), "destination": m.rel(to)}); code(r) != "exists" {
			t.Errorf("onto %s: %v", to, r["error"])
		}
	}
	for _, o := range []string{"copy_file", "move_file"} {
		if r := m.call(o, M{"source": m.rel("t"), "destination": m.rel("t/empty/in"), "recursive": true}); code(r) != "into_itself" && code(r) != "bad_request" {
			t.Errorf("%s into itself: %v", o, r["error"])
		}
	}
	copied := must(t, m.yes("copy_file", M{"source": m.rel("t"), "destination": m.rel("u/v"), "recursive": true}), "done")
	if digest(t, m.at("u/v")) != tree {
		t.Error("the copy is another tree")
	}
	moved := must(t, m.yes("move_file", M{"source": m.rel("t"), "destination": m.rel("w")}), "done")
	if digest(t, m.at("w")) != tree {
		t.Error("what moved is another tree")
	}
	gone := must(t, m.yes("delete_file", M{"path": m.rel("w"), "recursive": true}), "done")
	for _, r := range []M{gone, moved, copied} {
		must(t, m.undo(r), "done")
	}
	if digest(t, m.at("")) != before {
		t.Error("not as before")
	}
}

func (m *made) pages(t *testing.T) {
	var b strings.Builder
	pool := []string{"a", "é", "中", "\U0001f600", "\n", "\r\n", " "}
	for b.Len() < 3000+m.r.IntN(3000) {
		b.WriteString(pool[m.r.IntN(len(pool))])
	}
	write(t, m.at("p"), b.String())
	var got strings.Builder
	limit := 1 + m.r.IntN(700)
	for off, n := int64(0), 0; ; n++ {
		v := object(must(t, m.call("view_file", M{"path": m.rel("p"), "offset": off, "limit": limit + 4}), "done")["result"])
		got.WriteString(bytesOf(t, v))
		if v["eof"] == true {
			break
		}
		if next := number(v["next"]); next <= off || n > 20000 {
			t.Fatalf("no way on from %d: %v", off, v)
		} else {
			off = next
		}
	}
	if got.String() != b.String() {
		t.Error("the pages do not join")
	}
	needle, line := "zq"+m.word(), strings.Repeat("x", 200_000+m.r.IntN(200_000))
	at := m.r.IntN(len(line))
	write(t, m.at("min.js"), line[:at]+needle+line[at:])
	write(t, m.at("z.txt"), "before\n"+needle+"\n")
	s := object(must(t, m.call("search_files", M{"path": m.dir, "pattern": needle}), "done")["result"])
	found := map[string]int64{}
	for _, h := range objects(s["matches"]) {
		found[text(h, "path")] = number(h["column"])
	}
	if found[m.rel("min.js")] != int64(at)+1 || found[m.rel("z.txt")] != 1 || len(found) != 2 {
		t.Errorf("hit at %d of %d: %v", at+1, len(line), s["matches"])
	}
}

// TestKindDurability kills the daemon at a random call of an edit.
func TestKindDurability(t *testing.T) {
	t.Parallel()
	seed := seedOf(t)
	d := quick(t, "")
	for i := range 3 {
		t.Run(fmt.Sprintf("DUR a kill at any call leaves the old file or the new one, %d", i), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, uint64(9000+i)))
			name := fmt.Sprintf("f%d", i)
			old := strings.Repeat(fmt.Sprintf("line %d\n", r.IntN(1000)), 1+r.IntN(3000)) + "target\n"
			now := strings.Replace(old, "target", "changed", 1)
			write(t, filepath.Join(d.Root, name), old)
			kind := []string{"write", "pwrite64", "fdatasync", "rename*", "openat2"}[r.IntN(5)]
			at := 1 + r.IntN(3)
			tracer := trace(t, d.cmd.Process.Pid, kind, at)
			d.tryHTTP("POST", "/v1/call", d.Agent, M{"op": "edit_file", "args": M{"path": name, "old_string": "target", "new_string": "changed"}, "request_id": name})
			syscall.Kill(d.cmd.Process.Pid, syscall.SIGKILL)
			c := tracer.wait(t)
			d.cmd.Wait()
			for range 2 { // a second start changes nothing
				d.run()
				d.operator()
				got := read(t, filepath.Join(d.Root, name))
				if got != old && got != now {
					t.Fatalf("%s %d: neither old nor new: %d bytes", kind, at, len(got))
				}
				_, page := d.http("GET", "/v1/operations?limit=5", d.Agent, nil)
				var live M
				for _, o := range objects(page["operations"]) {
					if slices.Contains(words(o["paths"]), name) && text(o, "state") == "committed" {
						live = o
					}
				}
				if (got == now) != (live != nil) {
					t.Fatalf("%s %d: the file is new %v, the journal says %v", kind, at, got == now, live)
				}
				d.stop(syscall.SIGKILL)
				if got2 := read(t, filepath.Join(d.Root, name)); got2 != got {
					t.Fatal("it changed once more")
				}
			}
			d.run()
			d.operator()
			t.Logf("%s %d, killed by the tracer: %v", kind, at, c.Killed)
			if exit, out, errs := d.cli("verify"); exit != 0 {
				t.Errorf("verify: %s%s", out, errs)
			}
		})
	}
}
