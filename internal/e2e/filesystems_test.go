package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"holdpoint/op"

	"pgregory.net/rapid"
)

// smallDisk is what those in memory hold.
var smallDisk = "64m"

// filesystem makes one kind and gives a directory on it.
var filesystems = []struct {
	kind string
	no   op.Code // how an edit is refused there; may be empty
	make func(t *testing.T) string
}{
	{"ext4", "", func(t *testing.T) string { return newDisk(t, "ext4").mount }},
	{"xfs", "", func(t *testing.T) string { return newDisk(t, "xfs").mount }},
	{"btrfs", "", func(t *testing.T) string { return newDisk(t, "btrfs").mount }},
	{"tmpfs", "", func(t *testing.T) string { return small(t, smallDisk) }},
	{"overlay", "", func(t *testing.T) string {
		dir := small(t, smallDisk) // no overlay over an overlay, which a container's own root may be
		for _, d := range []string{"lower", "upper", "work", "mnt"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		mnt := filepath.Join(dir, "mnt")
		if err := syscall.Mount("none", mnt, "overlay", 0, fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir, dir, dir)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Unmount(mnt, syscall.MNT_DETACH) })
		return mnt
	}},
	{"fuse", op.NotAvailable, func(t *testing.T) string {
		below, mnt := shortDir(t), shortDir(t)
		if out, err := exec.Command("bindfs", below, mnt).CombinedOutput(); err != nil {
			t.Fatalf("bindfs: %v %s", err, out)
		}
		t.Cleanup(func() { syscall.Unmount(mnt, syscall.MNT_DETACH) })
		return mnt
	}},
}

// TestFilesystems runs a sequence of the model test, with its kills, on each filesystem.
// HOLDPOINT_FILESYSTEMS sets the sequences on each.
func TestFilesystems(t *testing.T) {
	t.Parallel()
	bin, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	n := 1
	if more, err := strconv.Atoi(os.Getenv("HOLDPOINT_FILESYSTEMS")); err == nil {
		n = more
	}
	for _, f := range filesystems {
		t.Run("S100 (part) on "+f.kind+" the tree stays the model's, and what is weaker is said", func(t *testing.T) {
			asRootOnly(t, "a file system of its own is mounted")
			dir := f.make(t)
			weaker := weakerOn(t, bin, dir, f.no)
			if strings.Contains(weaker, "weak") != (f.no != "") {
				t.Errorf("on %s status and warnings do not say what was measured: %s", f.kind, weaker)
			}
			if f.no != "" {
				t.Logf("filesystem %s: every change is refused as %s and nothing is changed; %s", f.kind, f.no, weaker)
				return
			}
			total := map[string]int{}
			defer func() { modelRow(f.kind, total).tell(t) }()
			for i := range n {
				// The same sequence each time, so that a filesystem is what differs.
				rapid.Custom(func(rt *rapid.T) int { modelRun(t, rt, bin, dir, 90, total); return 0 }).Example(i + 1)
			}
			var out []string
			for _, k := range slices.Sorted(maps.Keys(total)) {
				out = append(out, fmt.Sprintf("%s %d", k, total[k]))
			}
			t.Logf("filesystem %s: %s; 0 differ; %s", f.kind, strings.Join(out, ", "), weaker)
		})
	}
}

// weakerOn gives the warnings of an edit there, and what status says of the root.
func weakerOn(t *testing.T, bin, dir string, no op.Code) string {
	t.Helper()
	root, state := filepath.Join(dir, "ws"), filepath.Join(dir, "state")
	write(t, filepath.Join(root, "f.txt"), "old\n")
	d := &daemon{t: t, Root: root, State: state, Socket: filepath.Join(shortDir(t), "s"), args: []string{"--review-auth=token"}, bin: bin}
	d.run()
	defer d.stop(syscall.SIGTERM)
	e := d.call("edit_file", M{"path": "f.txt", "old_string": "old", "new_string": "new"})
	if no == "" {
		must(t, d.undo(must(t, e, "done")), "done")
	} else if code(e) != string(no) {
		t.Errorf("the edit: %v %v, want %s", e["status"], e["error"], no)
	}
	if got := read(t, filepath.Join(root, "f.txt")); got != "old\n" {
		t.Errorf("the file is %q", got)
	}
	_, s := d.http("GET", "/v1/status", d.Agent, nil)
	b, _ := json.Marshal(s["roots"])
	return fmt.Sprintf("warnings %v, status %s", warned(e["warnings"]), b)
}
