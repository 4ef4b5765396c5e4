package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// shutdownNow is FS_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH (2): the filesystem
// stops at once, and what was only in the page cache or in an uncommitted transaction is
// gone, as at a power cut.
func shutdownNow(mount string) error {
	f, err := os.Open(mount)
	if err != nil {
		return err
	}
	defer f.Close()
	const fsIocShutdown = 0x8004587d // _IOR('X', 125, __u32)
	flag := uint32(2)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), fsIocShutdown, uintptr(unsafe.Pointer(&flag))); e != 0 {
		return e
	}
	return nil
}

// disk is one loop-mounted filesystem.
type disk struct {
	t            *testing.T
	kind         string
	image, mount string
	loop         string
}

// diskSize is what a loop-mounted one holds; its image is sparse. mkfs.xfs makes none under 300 MiB.
var diskSize int64 = 512 << 20

func newDisk(t *testing.T, kind string) *disk {
	asRootOnly(t, "a disk of its own is mounted")
	base := t.TempDir()
	d := &disk{t: t, kind: kind, image: filepath.Join(base, "img"), mount: filepath.Join(base, "mnt")}
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(diskSize)
		f.Close()
	}
	if err == nil {
		err = os.Mkdir(d.mount, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.sh("mkfs."+kind, "-q", d.image)
	d.attach()
	t.Cleanup(func() {
		exec.Command("umount", "-l", d.mount).Run()
		exec.Command("losetup", "-d", d.loop).Run()
	})
	return d
}

// attach mounts the image over a loop device of its own: should anything still hold the
// filesystem that was stopped, a device used twice would bring that one back.
func (d *disk) attach() {
	d.t.Helper()
	out, err := exec.Command("losetup", "-f", "--show", d.image).CombinedOutput()
	if err != nil {
		d.t.Fatalf("losetup: %v\n%s", err, out)
	}
	d.loop = strings.TrimSpace(string(out))
	options := "rw"
	if d.kind == "xfs" {
		options = "nouuid"
	}
	d.sh("mount", "-o", options, d.loop, d.mount)
}

func (d *disk) sh(argv ...string) {
	d.t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %v\n%s", argv, err, out)
	}
}

// cut stops the filesystem without flushing and mounts it again.
func (d *disk) remount() {
	d.t.Helper()
	d.sh("umount", d.mount)
	exec.Command("losetup", "-d", d.loop).Run()
	d.attach()
}

// slot is one file whose last acknowledged value is known to the test.
type slot struct {
	mu            sync.Mutex
	acked, flying int
}

// TestPowerCut: whatever was acknowledged before the cut is there after it, with a
// credential that works; whatever was in flight is wholly there or wholly absent.
// HOLDPOINT_CRASHES sets the crashes per filesystem.
func TestPowerCut(t *testing.T) {
	asRootOnly(t, "the power of a disk is cut that is mounted for it")
	if onItsOwn(t) {
		return
	}
	crashes := 6
	if n, err := strconv.Atoi(os.Getenv("HOLDPOINT_CRASHES")); err == nil {
		crashes = n
	}
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run("S100 (part) an acknowledged edit survives a power cut on "+kind, func(t *testing.T) {
			t.Parallel() // each has a disk of its own, and waits most of the time
			powerCuts(t, kind, crashes)
		})
	}
}

func powerCuts(t *testing.T, kind string, crashes int) {
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		t.Skipf("mkfs.%s is not installed", kind)
	}
	disk := newDisk(t, kind)
	ws, state := filepath.Join(disk.mount, "ws"), filepath.Join(disk.mount, "state")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	const files = 7
	slots := make([]*slot, files)
	for i := range slots {
		slots[i] = &slot{}
		write(t, filepath.Join(ws, fmt.Sprintf("f%d", i)), content(0))
	}
	disk.sh("sync", "-f", disk.mount)
	row := &tried{What: "power cut", On: kind, Of: "edit"}
	defer row.tell(t)
	inFlightThere, undone := 0, 0
	for c := range crashes {
		d := startOn(t, ws, state, nil)
		acked, ended := edits(d, slots)
		if err := shutdownNow(disk.mount); err != nil {
			t.Fatal(err)
		}
		d.stop(syscall.SIGKILL)
		ended()
		row.Tried++
		row.Acknowledged += int(acked.Load())
		disk.remount()
		d = startOn(t, ws, state, nil)
		for i, s := range slots {
			got := read(t, filepath.Join(ws, fmt.Sprintf("f%d", i)))
			switch got {
			case content(s.acked):
			case content(s.flying):
				inFlightThere++
				s.acked = s.flying
			default:
				row.found(got)
				t.Fatalf("crash %d, f%d: got %.40q (%d bytes), acknowledged %d, in flight %d", c, i, got, len(got), s.acked, s.flying)
			}
			s.flying = s.acked
		}
		undone += undoNewest(d, slots)
		if code, out, errs := d.cli("audit", "verify"); code != 0 {
			t.Fatalf("crash %d: audit verify: %s%s", c, out, errs)
		}
		d.stop(syscall.SIGTERM)
	}
	t.Logf("%s: %d power cuts, %d acknowledged edits, 0 lost, %d in flight found whole, %d undone afterwards", kind, crashes, row.Acknowledged, inFlightThere, undone)
	if row.Acknowledged < crashes {
		t.Errorf("only %d acknowledged edits in %d crashes: the test saw too little", row.Acknowledged, crashes)
	}
}

// found counts a file that is neither as acknowledged nor as in flight.
func (r *tried) found(got string) {
	var n int
	if fmt.Sscanf(got, "rev = %d", &n); got == content(n) {
		r.Lost++ // a whole one, of another time
	} else {
		r.Half++
	}
}

func content(n int) string { return fmt.Sprintf("rev = %06d\n%0512d\n", n, n) }

// edits sends edits from two clients and returns at a random moment, while they still
// run: the cut comes now. ended waits for them. Whether one in flight landed is open.
func edits(d *daemon, slots []*slot) (acked *atomic.Int64, ended func()) {
	acked = &atomic.Int64{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(w)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := r.IntN(len(slots))
				s := slots[i]
				if !s.mu.TryLock() {
					continue
				}
				s.flying = s.acked + 1
				// The whole content is one replacement, so that a torn file cannot pass.
				status, _, err := d.tryHTTP("POST", "/v1/call", d.Agent, M{"op": "edit_file", "args": M{"path": fmt.Sprintf("f%d", i), "old_string": content(s.acked), "new_string": content(s.flying)}})
				select {
				case <-stop: // the cut had come: this one counts as in flight
				default:
					if err == nil && status == 200 {
						s.acked = s.flying
						acked.Add(1)
					}
				}
				s.mu.Unlock()
			}
		}()
	}
	time.Sleep(time.Duration(50+rand.IntN(250)) * time.Millisecond)
	close(stop)
	return acked, wg.Wait
}

// undoNewest takes back the newest change, which proves that credentials survived.
func undoNewest(d *daemon, slots []*slot) int {
	_, out := d.http("GET", "/v1/operations?state=committed&limit=1", d.Agent, nil)
	list, _ := out["operations"].([]any)
	if len(list) == 0 {
		return 0
	}
	o := list[0].(M)
	path := o["paths"].([]any)[0].(string)
	r := must(d.t, first(d.http("POST", "/v1/undo", d.Agent, M{"operation_id": o["id"]})), "done")
	var i int
	fmt.Sscanf(path, "f%d", &i)
	var n int
	fmt.Sscanf(read(d.t, filepath.Join(d.Root, path)), "rev = %d", &n)
	if text(r, "result", "undone") == "" {
		d.t.Fatalf("undo: %v", r)
	}
	slots[i].acked, slots[i].flying = n, n
	return 1
}

func first(_ int, m M) M { return m }
