package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// probeUserNamespace starts a program in a new user namespace, which is the only proof
// that the host allows it.
func probeUserNamespace() probe {
	p := probe{Name: "user namespace", Detail: "clone with a user, mount and pid namespace", For: "rehearsals and confinement as an ordinary user"}
	cmd := exec.Command("/proc/self/exe", "version")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	if err := cmd.Run(); err != nil {
		p.Detail = err.Error()
		return p
	}
	p.OK = true
	return p
}

func probeOverlay() probe {
	p := probe{Name: "overlay", Detail: "listed in /proc/filesystems", For: "rehearsing commands in a copy-on-write view"}
	b, err := readSmall("/proc/filesystems")
	p.OK = err == nil && strings.Contains(string(b), "overlay")
	if !p.OK {
		p.Detail = "not listed in /proc/filesystems"
	}
	return p
}

// probeCgroup asks whether this process may make a cgroup of its own below the one it is in.
func probeCgroup() probe {
	p := probe{Name: "cgroup v2", For: "ending whole process trees and limiting them"}
	b, err := readSmall("/proc/self/cgroup")
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	for _, l := range strings.Split(string(b), "\n") {
		if at, ok := strings.CutPrefix(l, "0::"); ok {
			dir := "/sys/fs/cgroup" + at
			p.OK = unix.Access(dir, unix.W_OK) == nil
			p.Detail = dir
			if !p.OK {
				p.Detail += " is not ours to divide"
			}
			return p
		}
	}
	p.Detail = "no cgroup v2 here"
	return p
}
