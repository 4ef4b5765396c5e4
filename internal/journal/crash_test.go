//go:build unix

package journal

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// acknowledged runs the working child until it has told enough lines, kills it, and
// returns what it had told.
func acknowledged(t *testing.T, dir string, lines int) map[string][]op.ID {
	t.Helper()
	c, out := start(t, "work", dir)
	told := map[string][]op.ID{}
	for n := 0; out.Scan(); n++ {
		words := append(strings.Fields(out.Text()), "")
		told[words[0]] = append(told[words[0]], op.ID(words[1]))
		if words[0] == "error" {
			t.Fatal(out.Text())
		}
		if n == lines {
			c.Process.Kill()
		}
	}
	c.Wait()
	return told
}

// holds compares a journal with what was acknowledged.
func holds(t *testing.T, j *Journal, told map[string][]op.ID) {
	t.Helper()
	for _, id := range told["begin"] {
		if _, err := j.Operation(t.Context(), id); err != nil {
			t.Errorf("begun: %v", err)
		}
	}
	for _, id := range told["commit"] { // lazy: the page cache outlives a killed process
		if o, err := j.Operation(t.Context(), id); err != nil || o.State != Committed || string(o.Reply) != "reply" {
			t.Errorf("committed: %v %v", o.State, err)
		}
	}
	for _, id := range told["held"] {
		if _, err := j.Approval(t.Context(), id); err != nil {
			t.Errorf("held: %v", err)
		}
	}
	for _, id := range told["answered"] {
		if a, err := j.Approval(t.Context(), id); err != nil || a.State != Approved {
			t.Errorf("answered: %v %v", a.State, err)
		}
	}
	if bad, err := j.Check(t.Context()); err != nil || len(bad) > 0 {
		t.Errorf("check: %v %v", bad, err)
	}
}

func TestKilledAtAnyStep(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "state")
	told := map[string][]op.ID{}
	for range 5 {
		for word, ids := range acknowledged(t, dir, 1+random.IntN(60)) {
			told[word] = append(told[word], ids...)
		}
		j := open(t, dir)
		holds(t, j, told)
		if err := j.Abort(t.Context(), lastIntent(t, j), "recovered"); err != nil && op.AsError(err).Code != op.NotFound {
			t.Fatal(err)
		}
		// The child begins its request ids anew, so free them.
		raw(t, j, "DELETE FROM ledger")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func lastIntent(t *testing.T, j *Journal) op.ID {
	t.Helper()
	list, err := j.Unsettled(t.Context())
	if err != nil || len(list) > 1 {
		t.Fatalf("%d unsettled, %v", len(list), err)
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].ID
}

// TestLogCut cuts the write-ahead log of a killed daemon at many places: an earlier record
// is never harmed, and lost acknowledged ones are told by number.
func TestLogCut(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	told := acknowledged(t, dir, 40)
	wal, err := os.ReadFile(filepath.Join(dir, dataName+"-wal"))
	if err != nil || len(wal) < 20000 {
		t.Fatalf("a log of %d bytes, %v", len(wal), err)
	}
	cuts := []int{0, 1, 31, 32, len(wal) - 1, len(wal) - 4120}
	for range 6 {
		cuts = append(cuts, random.IntN(len(wal)))
	}
	for i, cut := range append(cuts, -1) {
		copied := filepath.Join(base, fmt.Sprint("copy", i))
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		log := append([]byte(nil), wal...)
		if cut >= 0 {
			log = log[:cut]
		} else {
			clear(log[len(log)-9000:]) // a tail of zeros
		}
		err := os.WriteFile(filepath.Join(copied, dataName+"-wal"), log, 0o600)
		for _, name := range []string{".", "blobs", "lock", "key", "mark", "head", dataName, dataName + "-shm", dataName + "-wal", aheadName} {
			mode := os.FileMode(0o600)
			if name == "." || name == "blobs" {
				mode = 0o700
			}
			if e := os.Chmod(filepath.Join(copied, name), mode); e != nil {
				err = e
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		j := open(t, copied)
		list, err := j.Operations(t.Context(), Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for k, o := range list { // newest first, without a hole
			if want := told["begin"][len(list)-1-k]; o.ID != want {
				t.Errorf("cut at %d: row %d is %s, want %s", cut, o.Seq, o.ID, want)
			}
		}
		lost := len(told["begin"]) - len(list)
		notes := strings.Join(j.Notes(), "\n")
		if named := fmt.Sprintf("%d acknowledged and now gone", len(told["begin"])); lost > 0 && !strings.Contains(notes, named) {
			t.Errorf("cut at %d: %d operations lost, notes %q", cut, lost, notes)
		}
		next := sample(j, "")
		if err := j.Begin(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		if o, err := j.Operation(t.Context(), next.ID); err != nil || o.Seq <= int64(len(told["begin"])) && lost > 0 {
			t.Errorf("cut at %d: the number %d was given again, %v", cut, o.Seq, err)
		}
		j.Close()
		j = open(t, copied)
		if bad, err := j.Check(t.Context()); err != nil || lost > 0 && len(bad) == 0 {
			t.Errorf("cut at %d: once more opened, the gap is not told: %v %v", cut, bad, err)
		}
		j.Close()
	}
}

// TestFullLimit lets the system refuse a write in the middle of a commit: nothing more is
// acknowledged, reads go on, and all that was acknowledged is there after reopening.
func TestFullLimit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	_, out := start(t, "limit", dir)
	told := map[string][]op.ID{}
	for out.Scan() {
		word, rest, _ := strings.Cut(out.Text(), " ")
		told[word] = append(told[word], op.ID(rest))
	}
	if len(told["begin"]) < 2 || len(told["refused"]) != 1 || told["refused"][0] != op.ID(op.IOError) {
		t.Fatalf("%v", told)
	}
	if again := told["again"]; len(again) != 3 || again[0] != op.ID(op.IOError) || again[2] != again[0] {
		t.Fatalf("after the first failure: %v", again)
	}
	if len(told["read"]) != 1 || told["read"][0] != "<nil>" {
		t.Fatalf("reading failed: %v", told["read"])
	}
	j := open(t, dir)
	defer j.Close()
	holds(t, j, map[string][]op.ID{"begin": told["begin"]})
	if err := j.Begin(t.Context(), sample(j, "")); err != nil {
		t.Fatal(err)
	}
}

// TestFlippedBits changes one bit of the database at a time: whoever reads afterwards sees
// either the old rows or a failure that the check explains, never other rows.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "state")
	j := open(t, dir)
	ctx := t.Context()
	var ids []op.ID
	for i := range 20 {
		ids = append(ids, done(t, j, sample(j, fmt.Sprint("r", i))))
		added(t, j, held(j, fmt.Sprint("a", i)))
	}
	read := func(j *Journal) (string, error) {
		var b strings.Builder
		for _, id := range ids {
			o, err := j.Operation(ctx, id)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%+v\n", o)
		}
		rows, err := j.Approvals(ctx, ApprovalFilter{})
		if err != nil {
			return "", err
		}
		for _, a := range rows {
			fmt.Fprintf(&b, "%+v %+v\n", a, a.Answer)
		}
		return b.String(), nil
	}
	wanted, err := read(j)
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	path := filepath.Join(dir, dataName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const flips = 30
	found, harmless := 0, 0
	for range flips {
		bad := append([]byte(nil), good...)
		at, bit := random.IntN(len(bad)), byte(1)<<random.IntN(8)
		bad[at] ^= bit
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, Options{})
		if err != nil {
			if code := op.AsError(err).Code; code != op.StateCorrupt && code != op.StateUnsafe { // unsafe: the schema's own number
				t.Errorf("bit %d of byte %d: %v (%v)", bit, at, err, op.AsError(err).Err)
			}
			found++
			continue
		}
		switch got, err := read(j); {
		case err != nil:
			if code := op.AsError(err).Code; code != op.StateCorrupt && code != op.NotFound {
				t.Errorf("bit %d of byte %d: %v (%v)", bit, at, err, op.AsError(err).Err)
			}
			found++
			if lines, err := j.Check(ctx); err != nil || len(lines) == 0 {
				t.Errorf("bit %d of byte %d: the check is content: %v", bit, at, err)
			}
		case got != wanted:
			t.Errorf("bit %d of byte %d gave other rows", bit, at)
		default:
			harmless++
		}
		j.Close()
	}
	t.Logf("%d of %d flips found, %d in space that nothing reads", found, flips, harmless)
	if found == 0 {
		t.Error("no flip was found at all")
	}
}

// TestFolding writes more than the log may hold, from several callers, while others read.
func TestFolding(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	codes := tally(6, func(i int) error {
		for n := range 30 {
			if i < 4 {
				o := sample(j, "")
				o.Diff = make([]byte, 60<<10)
				if err := j.Begin(t.Context(), o); err != nil {
					return err
				}
			} else if _, err := j.Operations(t.Context(), Filter{Limit: n}); err != nil {
				return err
			}
		}
		return nil
	})
	if codes[""] != 6 {
		t.Fatal(codes)
	}
	j.w.folds.Wait()
	log, err := os.Stat(filepath.Join(j.Dir(), dataName+"-wal"))
	data, err2 := os.Stat(filepath.Join(j.Dir(), dataName))
	if err != nil || err2 != nil || data.Size() < 1<<20 || log.Size() > 16<<20 {
		t.Errorf("database %d bytes, log %d bytes, %v %v", data.Size(), log.Size(), err, err2)
	}
	if bad, err := j.Check(t.Context()); err != nil || len(bad) > 0 {
		t.Error(bad, err)
	}
}

// TestWhatIsFlushed tells durable from lazy by what the log was flushed up to.
func TestWhatIsFlushed(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	ctx := t.Context()
	flushed := func() bool { return j.w.flushed.version == j.w.newest.Load().version }
	o, a := sample(j, "r"), held(j, "a")
	for i, c := range []struct {
		durable bool
		do      func() error
	}{
		{true, func() error { return j.Begin(ctx, o) }},
		{false, func() error { return j.Commit(ctx, o.ID, nil, "") }},
		{true, func() error { return j.AddApproval(ctx, a) }},
		{false, func() error { return j.PutReceipt(ctx, Receipt{Token: "t", RequestID: "x"}) }},
		{true, func() error { _, err := j.Answer(ctx, a.ID, Answer{Answer: "approve"}, time.Now()); return err }},
		{false, func() error { return j.Dropped(ctx, o.ID) }},
		{true, func() error { return j.Claim(ctx, a.ID) }},
		{false, func() error { return j.ClearAudit(ctx, "x") }},
		{true, func() error { return j.Finish(ctx, a.ID, Executed, o.ID, nil) }},
		{true, func() error { return j.SetMeta(ctx, "k", "v") }},
	} {
		if err := c.do(); err != nil || flushed() != c.durable {
			t.Errorf("step %d: flushed %v, want %v, %v", i, flushed(), c.durable, err)
		}
	}
}

// TestFailedFlush makes the flush itself fail: the caller is not told that it is kept, and
// no later call is either.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	j.w.log.Close() // fdatasync of a closed file fails, as one of a failing disk does
	for range 3 {
		if err := want(j.Begin(t.Context(), sample(j, "")), op.IOError); err != nil {
			t.Fatal(err)
		}
	}
	if err := want(j.Commit(t.Context(), "op_x", nil, ""), op.IOError); err != nil {
		t.Fatal(err)
	}
}

// TestLockedByAShell holds the database's own lock as an operator's shell could.
func TestLockedByAShell(t *testing.T) {
	t.Parallel()
	j := fresh(t)
	raw(t, j, "PRAGMA busy_timeout = 20")
	db, err := sql.Open("sqlite", dataSource(j.Dir()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := want(j.Begin(t.Context(), sample(j, "")), op.NotReady); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	begun(t, j, sample(j, ""))
}
