package shellexec

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// maxProcesses bounds the processes and threads of one run.
const maxProcesses = 4096

// limits bounds what one run may use up. The number of a namespace holds for root as
// well, which the user's own limit does not.
func limits(namespaces bool, most int) error {
	if most == 0 {
		most = maxProcesses
	}
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if namespaces && ownCount() {
		if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(most)), 0); err == nil {
			return nil
		}
	}
	if os.Geteuid() == 0 {
		return errors.New("no limit of processes holds for root here")
	}
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: uint64(most), Max: uint64(most)})
}

// ownCount reports whether a process id namespace has a pid_max of its own, which came with
// Linux 6.14. Before that there is one for the machine, and root would lower it for all.
func ownCount() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return n == 2 && (major > 6 || major == 6 && minor >= 14)
}

// kept are the capabilities that root keeps in its namespace, so that files of several
// owners can be handled as before. Anybody else keeps none.
var kept = []int{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_KILL}

// drop gives up capabilities for good, of this thread and all that it starts.
func (h *helper) drop() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("privileges cannot be given up: %w", err)
	}
	if !h.Namespaces && os.Geteuid() != 0 {
		return nil // nothing to give up
	}
	var keep uint64
	if os.Geteuid() == 0 {
		for _, c := range kept {
			keep |= 1 << c
		}
	}
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if keep&(1<<c) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
				return fmt.Errorf("a capability cannot be given up: %w", err)
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities cannot be given up: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: uint32(keep), Permitted: uint32(keep)}, {Effective: uint32(keep >> 32), Permitted: uint32(keep >> 32)}}
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("capabilities cannot be given up: %w", err)
	}
	return nil
}

// denied are calls that no build or test needs and that reach around the other levels.
var denied = []string{"mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "chroot",
	"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"unshare", "setns", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_by_handle_at", "init_module", "finit_module", "delete_module",
	"kexec_load", "reboot", "swapon", "swapoff", "acct", "quotactl", "fanotify_init", "syslog"}

// filter is what the other levels miss: MPTCP goes past Landlock's rules for TCP, a unix
// socket on disk past read-only mounts, and io_uring past filters like this one.
func filter(network bool) error {
	// What the library's table of an older kernel does not know is left out one by one.
	names := known(denied)
	families := []seccomp.NameWithConditions{
		{Name: "socket", Conditions: []seccomp.Condition{{Argument: 2, Operation: seccomp.Equal, Value: unix.IPPROTO_MPTCP}}},
		{Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_VSOCK}}},
	}
	if !network {
		families = append(families, seccomp.NameWithConditions{Name: "socket", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX}}})
	}
	return seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Names: names, Action: seccomp.ActionErrno},
		{NamesWithCondtions: append(families, seccomp.NameWithConditions{Name: "clone", Conditions: []seccomp.Condition{
			{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER}}}), Action: seccomp.ActionErrno},
		// Its flags lie in memory, where no filter sees them; libraries then use clone.
		{Names: []string{"clone3"}, Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS)},
	}}})
}

func known(names []string) []string {
	var out []string
	for _, n := range names {
		p := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{Names: []string{n}, Action: seccomp.ActionErrno}}}
		if _, err := p.Assemble(); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// loopback brings up the one interface of a new network namespace, for tests that talk to
// themselves.
func loopback() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var req struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = unix.IFF_UP | unix.IFF_RUNNING
	unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req)))
}

// ids maps every id of this namespace to itself.
func ids(file string) []syscall.SysProcIDMap {
	f, err := os.Open(file)
	if err != nil {
		return []syscall.SysProcIDMap{{Size: 1}}
	}
	defer f.Close()
	var out []syscall.SysProcIDMap
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var inside, outside, count int
		if n, _ := fmt.Sscan(lines.Text(), &inside, &outside, &count); n == 3 {
			out = append(out, syscall.SysProcIDMap{ContainerID: inside, HostID: inside, Size: count})
		}
	}
	return out
}
