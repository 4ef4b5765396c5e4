package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdpoint/audit"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TestAuditHead keeps a head outside and then does to the log what the head must find:
// the machine's own key is in the hands of whoever does it.
func TestAuditHead(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	write(t, filepath.Join(d.Root, "f"), "x\n")
	for range 5 {
		d.call("view_file", M{"path": "f"})
	}
	head := filepath.Join(filepath.Dir(d.State), "head.json")
	exit, out, errs := d.cli("audit", "head", "--json")
	if exit != 0 {
		t.Fatalf("head: %s%s", out, errs)
	}
	write(t, head, out)
	d.call("view_file", M{"path": "f"})
	verify := func(t *testing.T, args ...string) (int, string) {
		t.Helper()
		exit, out, errs := d.cli(append([]string{"audit", "verify"}, args...)...)
		return exit, out + errs
	}
	if exit, out := verify(t, "--head", head); exit != 0 {
		t.Fatalf("an honest log: %s", out)
	}
	d.stop(syscall.SIGTERM)
	logs := auditLogs(t, d.State)
	whole := map[string][]byte{}
	for _, f := range logs {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		whole[f] = b
	}
	put := func(t *testing.T, files map[string][]byte) {
		t.Helper()
		for f, b := range files {
			if err := os.WriteFile(f, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := logs[len(logs)-1]
	t.Run("X59 the end that was cut off is missed by who kept the head", func(t *testing.T) {
		lines := bytes.SplitAfter(whole[last], []byte("\n"))
		short := map[string][]byte{last: bytes.Join(lines[:len(lines)-4], nil)}
		put(t, short)
		d.run()
		d.operator()
		exit, out := verify(t, "--head", head)
		if exit == 0 {
			t.Errorf("nothing is found: %s", out)
		}
		t.Logf("exit %d: %s", exit, strings.TrimSpace(out))
		d.stop(syscall.SIGTERM)
	})
	t.Run("X59 (part) a log made anew with the daemon's own key is missed by who kept the head", func(t *testing.T) {
		j, err := journal.Open(d.State, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		key := j.Key()
		j.Close()
		for _, f := range auditLogs(t, d.State) {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
		l, err := audit.Open(filepath.Join(d.State, "audit"), key, audit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := l.Append(audit.Record{Kind: "call", Tool: op.ViewFile, Decision: "auto_execute", Reason: op.ReasonReadOnly, Agent: "somebody else", Outcome: "done"}); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		d.run()
		d.operator()
		plain, said := verify(t)
		exit, out := verify(t, "--head", head)
		if exit == 0 {
			t.Errorf("nothing is found: %s", out)
		}
		t.Logf("without a head: exit %d %s; with it: exit %d %s", plain, strings.TrimSpace(said), exit, strings.TrimSpace(out))
	})
}

// auditLogs lists the files of the audit log, oldest first.
func auditLogs(t *testing.T, state string) []string {
	t.Helper()
	all, _ := filepath.Glob(filepath.Join(state, "audit", "*"))
	var out []string
	for _, f := range all {
		if i, err := os.Stat(f); err == nil && i.Mode().IsRegular() && i.Size() > 0 && !strings.HasSuffix(f, "lock") {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		t.Fatal("no audit log")
	}
	return out
}
