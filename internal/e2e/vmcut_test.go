//go:build vm

package e2e

import (
	"bufio"
	"bytes"
	"debug/elf"
	bits "encoding/binary" // binary is the product
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMachinePowerCut takes the power from a whole virtual machine: kernel, page cache and daemon
// are gone at once, and of what its disk had not flushed each write gets there or not, by a coin.
// The next machine starts on what is left. HOLDPOINT_VM names the directory of a Debian kernel
// package taken apart, HOLDPOINT_VM_CUTS the cuts on each filesystem. By hand: make power-cut-vm.
func TestMachinePowerCut(t *testing.T) {
	boot := os.Getenv("HOLDPOINT_VM")
	if boot == "" {
		t.Fatal("HOLDPOINT_VM names no kernel: make power-cut-vm")
	}
	cuts := 5
	if n, err := strconv.Atoi(os.Getenv("HOLDPOINT_VM_CUTS")); err == nil {
		cuts = n
	}
	seed := seedOf(t)
	for i, kind := range []string{"ext4", "xfs", "btrfs"} {
		if only := os.Getenv("HOLDPOINT_ON"); only != "" && !slices.Contains(strings.Split(only, ","), kind) {
			continue
		}
		t.Run("S100 (part) an acknowledged edit survives the end of a virtual machine on "+kind, func(t *testing.T) {
			m := newMachine(t, boot, kind, rand.New(rand.NewPCG(seed, uint64(i))))
			for c := range cuts {
				m.cut(c)
			}
			m.row.tell(t)
			t.Logf("virtual machine, %s: %d power cuts, %d acknowledged edits, %d lost, %d half-done, %d in flight found whole, %d undone afterwards; of %d writes that no flush covered %d did not get to the disk",
				kind, m.row.Tried, m.row.Acknowledged, m.row.Lost, m.row.Half, m.inFlight, m.undone, m.loose, m.dropped)
			if m.row.Acknowledged < cuts {
				t.Errorf("only %d acknowledged edits in %d cuts: the test saw too little", m.row.Acknowledged, cuts)
			}
		})
	}
}

// machine is one virtual machine that is started again and again on one disk.
type machine struct {
	t                *testing.T
	kind             string
	rng              *rand.Rand
	kernel, initrd   string
	image, log       string
	row              *tried
	acked, flying    map[int]int // what each file may hold
	inFlight, undone int
	loose, dropped   int
}

// modulesOf are those that a disk of a kind needs.
var modulesOf = map[string][]string{"ext4": {"ext4"}, "xfs": {"xfs"}, "btrfs": {"btrfs"}}

func newMachine(t *testing.T, boot, kind string, rng *rand.Rand) *machine {
	dir := t.TempDir()
	m := &machine{t: t, kind: kind, rng: rng, initrd: filepath.Join(dir, "initrd"), image: filepath.Join(dir, "disk"), log: filepath.Join(dir, "log"),
		row: &tried{What: "power cut of a machine", On: kind, Of: "edit"}, acked: map[int]int{}, flying: map[int]int{}}
	kernels, _ := filepath.Glob(filepath.Join(boot, "boot", "vmlinuz-*"))
	if len(kernels) != 1 {
		t.Fatalf("%s holds %d kernels", boot, len(kernels))
	}
	m.kernel = kernels[0]
	lib := filepath.Join(boot, "lib", "modules", strings.TrimPrefix(filepath.Base(m.kernel), "vmlinuz-"))
	first := filepath.Join(dir, "init")
	product := filepath.Join(dir, "holdpoint")
	for out, of := range map[string]string{first: "./testdata/vm", product: "../../cmd/holdpoint"} {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, of)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if words, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, words)
		}
	}
	entries := [][2]string{{"init", first}, {"holdpoint", product}}
	for i, file := range withNeeds(t, lib, append([]string{"virtio_pci", "virtio_blk", "crc32c_generic"}, modulesOf[kind]...)) {
		entries = append(entries, [2]string{fmt.Sprintf("modules/%03d.ko", i), file})
	}
	archive(t, m.initrd, entries)
	f, err := os.Create(m.image)
	if err == nil {
		err = f.Truncate(512 << 20)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if words, err := exec.Command("mkfs."+kind, "-q", m.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs: %v %s", err, words)
	}
	return m
}

// withNeeds lists modules with what they need, in the order to load them.
func withNeeds(t *testing.T, lib string, names []string) (files []string) {
	t.Helper()
	at := map[string]string{}
	err := filepath.WalkDir(lib, func(path string, _ fs.DirEntry, err error) error {
		if name, ok := strings.CutSuffix(filepath.Base(path), ".ko"); ok {
			at[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	built := strings.ReplaceAll(read(t, filepath.Join(lib, "modules.builtin")), "-", "_")
	var add func(name string)
	add = func(name string) {
		name = strings.ReplaceAll(name, "-", "_")
		file, ok := at[name]
		switch {
		case !ok && strings.Contains(built, "/"+name+".ko"), slices.Contains(files, file):
			return
		case !ok:
			t.Fatalf("the kernel has no module %s", name)
		}
		for _, need := range needsOf(t, file) {
			add(need)
		}
		files = append(files, file)
	}
	for _, name := range names {
		add(name)
	}
	return files
}

// needsOf reads from a module what it says it depends on.
func needsOf(t *testing.T, file string) []string {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Section(".modinfo").Data()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(word, "depends="); ok && list != "" {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// archive writes files as a cpio archive of the form newc, which the kernel unpacks.
func archive(t *testing.T, name string, entries [][2]string) {
	t.Helper()
	var b bytes.Buffer
	pad := func() {
		for b.Len()%4 != 0 {
			b.WriteByte(0)
		}
	}
	put := func(name string, mode int, data []byte) {
		fmt.Fprintf(&b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
		b.WriteString(name + "\x00")
		pad()
		b.Write(data)
		pad()
	}
	put("modules", 0o40755, nil)
	put("dev", 0o40755, nil)
	for _, e := range entries {
		data, err := os.ReadFile(e[1])
		if err != nil {
			t.Fatal(err)
		}
		put(e[0], 0o100755, data)
	}
	put("TRAILER!!!", 0, nil)
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cut lets a machine run until a random moment after it is ready, takes its power, and makes
// of its disk what was left there.
func (m *machine) cut(c int) {
	m.t.Helper()
	before := m.image + ".before"
	if out, err := exec.Command("cp", "--sparse=always", m.image, before).CombinedOutput(); err != nil {
		m.t.Fatalf("%v %s", err, out)
	}
	os.Remove(m.log)
	if err := os.WriteFile(m.log, nil, 0o600); err != nil {
		m.t.Fatal(err)
	}
	qemu := exec.Command("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio",
		"-kernel", m.kernel, "-initrd", m.initrd, "-append", "console=ttyS0 quiet panic=-1 hp.disk="+m.kind,
		"-blockdev", "driver=raw,node-name=disk,file.driver=file,file.filename="+m.image,
		"-blockdev", "driver=file,node-name=log,filename="+m.log,
		"-blockdev", "driver=blklogwrites,node-name=logged,file=disk,log=log,log-sector-size=512",
		"-device", "virtio-blk-pci,drive=logged,write-cache=on")
	console, err := qemu.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	var faults bytes.Buffer
	qemu.Stderr = &faults
	if err := qemu.Start(); err != nil {
		m.t.Fatal(err)
	}
	defer qemu.Process.Kill() // also where the test ends here
	lines := make(chan string, 1000)
	go func() {
		for s := bufio.NewScanner(console); s.Scan(); {
			lines <- s.Text()
		}
		close(lines)
	}()
	var off <-chan time.Time
	late := time.After(10 * time.Minute)
	var words []string
	for running := true; running; {
		select {
		case l, more := <-lines:
			if !more {
				m.t.Fatalf("cut %d: the machine ended by itself: %s\n%s", c, faults.String(), strings.Join(words, "\n"))
			}
			words = append(words, l)
			if m.line(c, l, words) && off == nil {
				off = time.After(time.Duration(300+m.rng.IntN(15000)) * time.Millisecond)
			}
		case <-off:
			running = false
		case <-late:
			qemu.Process.Kill()
			qemu.Wait()
			m.t.Fatalf("cut %d: the machine was not ready in time: %s\n%s", c, faults.String(), strings.Join(words, "\n"))
		}
	}
	qemu.Process.Kill()
	for l := range lines { // what had been said by then
		m.line(c, l, append(words, l))
	}
	qemu.Wait()
	m.row.Tried++
	m.leave(before)
}

// line takes in what the machine says, and tells whether it is ready to have its power cut.
func (m *machine) line(c int, l string, words []string) bool {
	m.t.Helper()
	l, ours := strings.CutPrefix(strings.TrimSpace(l), "hp ")
	if !ours {
		return false
	}
	var i, n int
	switch what, rest, _ := strings.Cut(l, " "); what {
	case "try":
		if k, _ := fmt.Sscanf(rest, "%d %d", &i, &n); k == 2 {
			m.flying[i] = n
		}
	case "ack":
		if k, _ := fmt.Sscanf(rest, "%d %d", &i, &n); k == 2 {
			m.acked[i], m.flying[i] = n, n
			m.row.Acknowledged++
		}
	case "have":
		fmt.Sscanf(rest, "%d %d", &i, &n)
		m.have(c, i, n, words)
	case "undone": // what is told next is how it is now
		m.undone++
		m.acked, m.flying = map[int]int{}, map[int]int{}
	case "failed:":
		m.t.Fatalf("cut %d: %s\n%s", c, l, strings.Join(words, "\n"))
	case "ready":
		return true
	}
	return false
}

// have holds what stands in a file to what was acknowledged.
func (m *machine) have(c, i, n int, words []string) {
	m.t.Helper()
	acked, known := m.acked[i]
	switch {
	case !known, n == acked:
	case n == m.flying[i]:
		m.inFlight++
	default:
		if n < 0 {
			m.row.Half++
		} else {
			m.row.Lost++
		}
		m.t.Errorf("cut %d, f%d: %d is there, acknowledged %d, in flight %d\n%s", c, i, n, acked, m.flying[i], strings.Join(words, "\n"))
	}
	m.acked[i], m.flying[i] = n, n
}

// Of an entry of the log of writes (drivers/md/dm-log-writes.c); all numbers count its sectors.
const (
	logSector  = 512
	logFlush   = 1
	logFUA     = 2
	logDiscard = 4
)

type written struct {
	at    int64
	data  []byte
	flags uint64
}

// leave makes the disk anew from before and the log: all that a flush covered, and of the rest
// each write by a coin.
func (m *machine) leave(before string) {
	m.t.Helper()
	log := m.writes()
	flushed := 0
	for i, w := range log {
		if w.flags&logFlush != 0 {
			flushed = i
		}
	}
	if flushed == 0 {
		m.t.Fatal("the log of the disk names no flush")
	}
	if err := os.Rename(before, m.image); err != nil {
		m.t.Fatal(err)
	}
	disk, err := os.OpenFile(m.image, os.O_WRONLY, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	defer disk.Close()
	for i, w := range log {
		if w.flags&logDiscard != 0 || len(w.data) == 0 {
			continue // what is discarded may keep what it held
		}
		if i > flushed && w.flags&logFUA == 0 {
			if m.loose++; m.rng.IntN(2) == 0 {
				m.dropped++
				continue
			}
		}
		if _, err := disk.WriteAt(w.data, w.at); err != nil {
			m.t.Fatal(err)
		}
	}
}

// writes reads the log to its end. Its head counts the entries of the last flush only.
func (m *machine) writes() (log []written) {
	m.t.Helper()
	f, err := os.Open(m.log)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	from := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, logSector)
	if _, err := io.ReadFull(from, head); err != nil || bits.LittleEndian.Uint64(head) != 0x6a736677736872 {
		m.t.Fatalf("this is no log of writes: %v", err)
	}
	for {
		if _, err := io.ReadFull(from, head); err != nil {
			return log
		}
		number := func(i int) uint64 { return bits.LittleEndian.Uint64(head[8*i:]) }
		w := written{at: int64(number(0)) * logSector, flags: number(2)}
		if number(0) == 0 && number(1) == 0 && w.flags == 0 {
			return log
		}
		if w.flags&logDiscard == 0 {
			w.data = make([]byte, number(1)*logSector)
			if _, err := io.ReadFull(from, w.data); err != nil {
				return log // cut with the machine
			}
		}
		log = append(log, w)
	}
}
