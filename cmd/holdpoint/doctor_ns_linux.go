package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Some things can only be tried by a process that may lose by it: this program, started
// once more, in namespaces of its own where that is what is tried.

// try runs one trial of doctorTrials in a child.
func try(ctx context.Context, attr *syscall.SysProcAttr, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"doctor", "try", name}, args...)...)
	cmd.SysProcAttr = attr
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && said.Len() > 0 {
		return errors.New(strings.TrimSpace(said.String()))
	}
	return err
}

// doctorTrials are what a child is told to do; an error is why it cannot be had.
var doctorTrials = map[string]func(args []string) error{
	"nothing":  func([]string) error { return nil },
	"overlay":  tryOverlay,
	"landlock": tryLandlock,
}

// doctorTryCommand is the child's side; nobody else calls it.
func doctorTryCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "try", Hidden: true, Args: cobra.MinimumNArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		trial, ok := doctorTrials[args[0]]
		if !ok {
			return fmt.Errorf("no trial is called %s", args[0])
		}
		if err := trial(args[1:]); err != nil {
			fmt.Fprintln(a.Err, err)
			return exitCode(1)
		}
		return nil
	}}
}

func newUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
}

// probeUserNamespace starts a program in a new user namespace, which is the only proof
// that the host allows it.
func probeUserNamespace(ctx context.Context) probe {
	p := probe{Name: "user namespace", Detail: "a program ran in a user, mount and pid namespace of its own", For: "rehearsals and confinement as an ordinary user"}
	if err := try(ctx, newUser(), "nothing"); err != nil {
		p.Detail = err.Error()
		return p
	}
	p.OK = true
	return p
}

// probeOverlay mounts an overlay over two folders and changes things in it: in a user
// namespace, and as root without one.
func probeOverlay(ctx context.Context, scratch string) []probe {
	ways := []struct {
		name    string
		attr    *syscall.SysProcAttr
		options string
	}{{"overlay, own namespace", newUser(), "userxattr"}}
	if os.Geteuid() == 0 {
		ways = append(ways, struct {
			name    string
			attr    *syscall.SysProcAttr
			options string
		}{"overlay, as root", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}, ""})
	}
	var rows []probe
	for i, w := range ways {
		p := probe{Name: w.name, Detail: "mounted, changed, and read back in both layers", For: "rehearsing commands in a copy-on-write view"}
		dir := filepath.Join(scratch, fmt.Sprintf("overlay%d", i))
		if err := try(ctx, w.attr, "overlay", dir, w.options); err != nil {
			p.Detail = err.Error()
		} else {
			p.OK = true
		}
		rows = append(rows, p)
		openUp(filepath.Join(dir, "work"))
	}
	return rows
}

// openUp lets what an overlay made for itself, closed even to its owner, be removed.
func openUp(dir string) {
	_ = os.Chmod(dir, 0o700)
	_ = os.Chmod(filepath.Join(dir, "work"), 0o700)
}

// tryOverlay is told a folder and further options. What breaks in some ways of mounting is
// removing a directory of the lower layer and making it again.
func tryOverlay(args []string) error {
	dir, options := args[0], ""
	if len(args) > 1 && args[1] != "" {
		options = "," + args[1]
	}
	lower, upper, work, view := filepath.Join(dir, "lower"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "view")
	for _, d := range []string{filepath.Join(lower, "d"), upper, work, view} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(lower, "d", "f"), []byte("old"), 0o600); err != nil {
		return err
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("overlay", view, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work+options); err != nil {
		return fmt.Errorf("mounting it: %w", err)
	}
	defer unix.Unmount(view, unix.MNT_DETACH)
	at := filepath.Join(view, "d")
	for _, do := range []func() error{
		func() error { return os.WriteFile(filepath.Join(at, "f"), []byte("new"), 0o600) },
		func() error { return os.RemoveAll(at) },
		func() error { return os.Mkdir(at, 0o700) },
		func() error { return os.WriteFile(filepath.Join(at, "g"), []byte("new"), 0o600) },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("changing a file in it: %w", err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(lower, "d", "f")); err != nil || string(b) != "old" {
		return errors.New("a change in it went through to the lower layer")
	}
	if b, err := os.ReadFile(filepath.Join(upper, "d", "g")); err != nil || string(b) != "new" {
		return errors.New("a change in it is not in the upper layer")
	}
	return nil
}

// probeCgroup makes a cgroup below the one this process is in, and removes it.
func probeCgroup() probe {
	p := probe{Name: "cgroup v2", For: "ending whole process trees and limiting them"}
	b, err := readSmall("/proc/self/cgroup")
	if err != nil {
		p.Detail = err.Error()
		return p
	}
	for _, l := range strings.Split(string(b), "\n") {
		if at, ok := strings.CutPrefix(l, "0::"); ok {
			dir := filepath.Join("/sys/fs/cgroup", at)
			var st unix.Statfs_t
			if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
				break // it is mounted elsewhere, or not at all
			}
			made, err := os.MkdirTemp(dir, "holdpoint-doctor")
			if err == nil {
				err = os.Remove(made)
			}
			p.OK, p.Detail = err == nil, detail(err == nil, "one was made and removed below "+dir, err)
			return p
		}
	}
	p.Detail = "no cgroup v2 at /sys/fs/cgroup"
	return p
}
