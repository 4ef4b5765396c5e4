package shellexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// group is the control group of one run. It counts the memory of all that runs in it
// together, which the limits of single processes do not.
type group struct {
	dir string
	v2  bool

	once sync.Once // of its end
}

const groupPrefix = "holdpoint-"

// Delegated finds the control group that was handed to this process for its own use: its
// own one or the one above, where systemd has left its mark. Empty where there is none.
func Delegated() string {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		at, ok := strings.CutPrefix(line, "0::")
		if !ok {
			continue
		}
		own := filepath.Join("/sys/fs/cgroup", at)
		for _, dir := range []string{own, filepath.Dir(own)} {
			mark := make([]byte, 8)
			for _, name := range []string{"user.delegate", "trusted.delegate"} {
				if n, err := unix.Getxattr(dir, name, mark); err == nil && string(mark[:n]) == "1" {
					return dir
				}
			}
		}
	}
	return ""
}

// newGroup makes the group of a run below a directory that was handed over, with its limits.
func newGroup(parent, name string, memory int64, processes int) (*group, error) {
	if !filepath.IsAbs(parent) {
		return nil, errors.New("there is no control group that was handed to this daemon")
	}
	g := &group{dir: filepath.Join(parent, groupPrefix+name)}
	switch {
	case there(parent, "cgroup.controllers"):
		g.v2 = true
		// Those that are on already, or not to be had, show by what can be written below.
		for _, c := range []string{"+memory", "+pids"} {
			os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(c), 0)
		}
	case there(parent, "memory.limit_in_bytes"):
	default:
		return nil, fmt.Errorf("%s is no control group that counts memory", parent)
	}
	forsaken(parent)
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	limit := "memory.limit_in_bytes"
	if g.v2 {
		limit = "memory.max"
	}
	if err := g.set(limit, strconv.FormatInt(memory, 10)); err != nil {
		os.Remove(g.dir)
		return nil, fmt.Errorf("memory cannot be limited: %w", err)
	}
	if g.v2 { // these are extra: what is bounded already holds without them
		g.set("memory.swap.max", "0")
		g.set("memory.oom.group", "1")
		g.set("pids.max", strconv.Itoa(processes))
	} else {
		g.set("memory.memsw.limit_in_bytes", strconv.FormatInt(memory, 10))
	}
	return g, nil
}

func there(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// set writes one of the kernel's files; it makes none.
func (g *group) set(name, value string) error {
	f, err := os.OpenFile(filepath.Join(g.dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// join moves a helper in, before it has anything to start.
func (g *group) join(pid int) error { return g.set("cgroup.procs", strconv.Itoa(pid)) }

// full reports whether something in the group was ended because it had no memory left.
func (g *group) full() bool {
	name := "memory.oom_control"
	if g.v2 {
		name = "memory.events"
	}
	b, _ := os.ReadFile(filepath.Join(g.dir, name))
	for line := range strings.SplitSeq(string(b), "\n") {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(n) != "0" {
			return true
		}
	}
	return false
}

// drop removes a group, if there is one, unless that was done.
func (g *group) drop() {
	if g != nil {
		g.once.Do(g.remove)
	}
}

// remove ends what is left in it, where the kernel can, and takes it away.
func (g *group) remove() {
	if g.v2 {
		g.set("cgroup.kill", "1")
	}
	for range 100 {
		if err := os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// forsaken takes away the groups of a daemon that was killed: the kernel keeps those that
// hold a process, and one that was just made is left alone.
func forsaken(parent string) {
	list, _ := os.ReadDir(parent)
	for _, d := range list {
		if info, err := d.Info(); err == nil && d.IsDir() && strings.HasPrefix(d.Name(), groupPrefix) && time.Since(info.ModTime()) > time.Minute {
			os.Remove(filepath.Join(parent, d.Name()))
		}
	}
}

// ceilings puts the limits on each process that is started from here, and says of both
// kinds what holds. Where memory is counted for all together a limit of each is not needed.
func (h *helper) ceilings() {
	if h.Memory > 0 {
		l := Level{Name: LevelMemory, On: true, Detail: "of all processes together"}
		if !h.Grouped {
			// Of what a process may write; what it only sets aside does not count.
			err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(h.Memory), Max: uint64(h.Memory)})
			l.Detail = "of each process, not of all together: " + h.GroupFault
			if l.On = err == nil && !h.GroupWanted; err != nil {
				l.Detail = err.Error()
			}
		}
		h.levels = append(h.levels, l)
	}
	if h.CPU > 0 {
		s := uint64(max(1, h.CPU/time.Second))
		l := Level{Name: LevelCPU, On: true, Detail: "of each process, not of all together"}
		if err := unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: s, Max: s + 1}); err != nil {
			l.On, l.Detail = false, err.Error()
		}
		h.levels = append(h.levels, l)
	}
}

// reached names the limit that ended a run, as far as it shows.
func reached(s Spec, r *Result) string {
	over := func(sig unix.Signal) bool {
		return r.Signal == unix.SignalName(sig) || r.Exit != nil && *r.Exit == 128+int(sig)
	}
	switch {
	case s.group != nil && s.group.full():
		return LevelMemory
	case s.CPU > 0 && over(unix.SIGXCPU):
		return LevelCPU
	}
	return ""
}

// grouped makes the group of a run. Where none was named and none was handed over the
// limits of single processes hold; a named one that cannot be had is a level that is missing.
func grouped(s *Spec) {
	if s.Memory <= 0 || !s.Confined && !s.Probe {
		return
	}
	parent := s.Cgroup
	if parent == "" {
		parent = Delegated()
	}
	name := s.Name
	if name == "" {
		name = fmt.Sprintf("probe-%d-%d", os.Getpid(), time.Now().UnixNano())
	}
	most := s.Processes
	if most == 0 {
		most = maxProcesses
	}
	g, err := newGroup(parent, name, s.Memory, most)
	if err != nil {
		s.groupFault = err.Error()
		return
	}
	s.group = g
}
