package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The state that the first released version wrote, with its workspace, as it lay on the
// disk of a machine that had this id. It is never written anew: what a later version cannot
// open any more is that version's fault. HOLDPOINT_STATE_V1=write made it.
const (
	stateV1      = top + "testdata/state-v1.tar.gz"
	stateV1At    = "/tmp/holdpoint-state-v1" // roots are known by machine and directory
	machineOfOld = "0123456789abcdef0123456789abcdef\n"
)

// stateV1Conf keeps what time would end.
const stateV1Conf = "keep = \"36500d\"\n[deadlines]\nT4 = \"0s\"\n"

// ofOld runs a daemon on that machine: a mount namespace with another machine id.
func ofOld(t *testing.T) *daemon {
	t.Helper()
	id := filepath.Join(t.TempDir(), "machine-id")
	write(t, id, machineOfOld)
	conf := filepath.Join(t.TempDir(), "holdpoint.toml")
	write(t, conf, stateV1Conf)
	d := &daemon{t: t, Root: stateV1At + "/ws", State: stateV1At + "/state", Socket: stateV1At + "/state/holdpoint.sock", args: []string{"--config", conf}}
	t.Cleanup(func() { d.stop(syscall.SIGTERM) })
	d.run("unshare", "-m", "--propagation", "private", "sh", "-c", `mount --bind "$0" /etc/machine-id && exec "$@"`, id)
	return d
}

func tarOld(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
}

func TestStateV1(t *testing.T) {
	if os.Getenv("HOLDPOINT_STATE_V1") == "write" {
		writeStateV1(t)
	}
	for end := time.Now().Add(time.Minute); os.Mkdir(stateV1At, 0o700) != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) { // another run on this machine was waited for
			t.Fatalf("%s is there: a run of this test left it", stateV1At)
		}
	}
	t.Cleanup(func() { os.RemoveAll(stateV1At) })
	tarOld(t, "-xpzf", stateV1, "-C", stateV1At)
	d := ofOld(t)
	t.Run("what waited still waits, and can be answered", func(t *testing.T) {
		_, got := d.http("GET", "/v1/approvals?state=pending", d.reviewer(), nil)
		cards := objects(got["approvals"])
		if len(cards) != 1 {
			t.Fatalf("got %v", got)
		}
		must(t, d.approve(M{"approval": M{"id": cards[0]["id"]}}), "done")
		if exists(stateV1At + "/ws/waits") {
			t.Error("it was not done")
		}
	})
	t.Run("answers, rules and tokens are what they were", func(t *testing.T) {
		_, got := d.http("GET", "/v1/approvals?state=rejected", d.reviewer(), nil)
		if cards := objects(got["approvals"]); len(cards) != 1 || text(cards[0], "note") != "keep it" {
			t.Errorf("rejected: %v", got)
		}
		code, _, errs := d.cli("rules", "list")
		if _, out, _ := d.cli("rules", "list"); code != 0 || !strings.Contains(out, "grant") {
			t.Errorf("rules: %d %s %s", code, out, errs)
		}
		must(t, d.call("write_file", M{"path": "over", "content": "granted\n", "overwrite": true}), "done")
		if _, out, _ := d.cli("token", "list"); !strings.Contains(out, "  ci") {
			t.Errorf("tokens: %s", out)
		}
	})
	t.Run("what could be undone can be undone", func(t *testing.T) {
		for file, want := range map[string]string{"edited": "one\n", "deleted": "precious\n"} {
			_, log := d.http("GET", "/v1/operations?path="+file, d.reviewer(), nil)
			for _, o := range objects(log["operations"]) {
				if text(o, "state") == "committed" && text(o, "op") != "undo" {
					_, u := d.http("POST", "/v1/undo", d.reviewer(), M{"operation_id": o["id"]})
					must(t, u, "done")
				}
			}
			if got := read(t, filepath.Join(d.Root, file)); got != want {
				t.Errorf("%s is %q", file, got)
			}
		}
	})
	t.Run("journal, audit, store and every decision hold", func(t *testing.T) {
		for _, args := range [][]string{{"verify"}, {"audit", "verify"}, {"replay"}} {
			if code, out, errs := d.cli(args...); code != 0 {
				t.Errorf("%s: %d %s %s", args, code, out, errs)
			}
		}
	})
	t.Run("a newer state is refused by its number and left as it is", func(t *testing.T) {
		d.stop(syscall.SIGTERM)
		db := filepath.Join(d.State, "journal.db")
		f, err := os.OpenFile(db, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{0, 0, 3, 231}, 60) // user_version, sqlite.org/fileformat2
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		before := digest(t, d.State)
		exit, log := refuses(t, d.Root, d.State, nil)
		if exit == 0 || !strings.Contains(log, "state_unsafe") || !strings.Contains(log, "999") {
			t.Errorf("exit %d: %s", exit, log)
		}
		if digest(t, d.State) != before {
			t.Error("it was written to")
		}
	})
}

// writeStateV1 makes the state; only the version that is being released for the first time
// has a reason to.
func writeStateV1(t *testing.T) {
	if err := os.MkdirAll(stateV1At+"/ws", 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(stateV1At)
	for file, content := range map[string]string{"edited": "one\n", "deleted": "precious\n", "waits": "waits\n", "kept": "kept\n", "over": "old\n"} {
		write(t, filepath.Join(stateV1At, "ws", file), content)
	}
	d := ofOld(t)
	must(t, d.call("edit_file", M{"path": "edited", "old_string": "one", "new_string": "two"}), "done")
	must(t, d.approve(must(t, d.call("delete_file", M{"path": "deleted"}), "review")), "done")
	d.answer(must(t, d.call("delete_file", M{"path": "kept"}), "review"), "reject", "keep it")
	must(t, d.call("delete_file", M{"path": "waits"}), "review")
	for _, args := range [][]string{
		{"rules", "grant", "--scope", "project", "--root", "ws", "--agent", "agent", "--operation", "write_file"},
		{"token", "create", "--role", "agent", "--name", "ci"},
	} {
		if code, out, errs := d.cli(args...); code != 0 {
			t.Fatalf("%s: %d %s %s", args, code, out, errs)
		}
	}
	d.stop(syscall.SIGTERM)
	tarOld(t, "-czf", stateV1, "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-C", stateV1At, "state", "ws")
}
