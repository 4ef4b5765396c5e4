package journal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"holdpoint/internal/apart"
	"holdpoint/op"

	"golang.org/x/sys/unix"
)

// TestPowerLoss takes the file system away from under a working journal without letting it
// write back what it had not flushed, mounts it again and looks for what was acknowledged
// as durable. JOURNAL_TEST_CRASHES sets how often (2).
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting a file system of its own needs root")
	}
	if apart.Run(t) {
		return
	}
	crashes := 2
	if n, err := strconv.Atoi(os.Getenv("JOURNAL_TEST_CRASHES")); err == nil {
		crashes = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	base := t.TempDir()
	image, mount := filepath.Join(base, "image"), filepath.Join(base, "mount")
	run := func(words ...string) {
		t.Helper()
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v %s", words, err, out)
		}
	}
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	acked, lazyKept, lazyAll := 0, 0, 0
	for i := range crashes {
		run("truncate", "-s", "0", image)
		run("truncate", "-s", "48M", image)
		run("mkfs.ext4", "-q", "-F", image)
		if out, err := exec.Command("mount", "-o", "loop", image, mount).CombinedOutput(); err != nil && i == 0 {
			t.Skipf("SKIPPED: this machine cannot mount a file as a file system: %v %s", err, out)
		} else if err != nil {
			t.Fatalf("mount: %v %s", err, out)
		}
		mounted := true
		t.Cleanup(func() {
			if mounted {
				exec.Command("umount", "-l", mount).Run()
			}
		})
		dir := filepath.Join(mount, "state")
		c, out := start(t, []string{"work", "edits"}[i%2], dir)
		told := map[string][]op.ID{}
		stop := 20 + random.IntN(200)
		lost := int64(math.MaxInt64)
		for n := 0; out.Scan(); n++ {
			var word, id string
			var at int64
			fmt.Sscan(out.Text(), &word, &id, &at)
			if at < lost { // a flush that the shutdown itself overtakes may wrongly succeed, also for a bare fdatasync
				told[word] = append(told[word], op.ID(id))
			}
			if n == stop {
				lost = time.Now().UnixNano()
				shutdown(t, mount)
			}
		}
		c.Wait()
		run("umount", mount)
		run("mount", "-o", "loop", image, mount)
		j := open(t, dir)
		if notes := j.Notes(); len(notes) > 0 {
			t.Errorf("crash %d: %v", i, notes)
		}
		commits := told["commit"]
		delete(told, "commit") // lazy: may be gone
		holds(t, j, told)
		for _, id := range commits {
			if o, err := j.Operation(t.Context(), id); err == nil && o.State == Committed {
				lazyKept++
			}
		}
		lazyAll += len(commits)
		acked += len(told["begin"]) + len(told["held"]) + len(told["answered"])
		j.Close()
		run("umount", mount)
		mounted = false
	}
	t.Log(fmt.Sprintf("%d crashes, %d durable steps acknowledged; of %d lazy commits %d were kept", crashes, acked, lazyAll, lazyKept))
}

// shutdown makes the file system stop at once and drop what it has not written
// (FS_IOC_SHUTDOWN without a flush of its log).
func shutdown(t *testing.T, mount string) {
	t.Helper()
	f, err := os.Open(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const request, noLogFlush = 0x8004587d, 2
	if err := unix.IoctlSetPointerInt(int(f.Fd()), request, noLogFlush); err != nil {
		t.Fatalf("shutdown of the file system: %v", err)
	}
}
