package shellexec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// secretPlaces of a home directory are hidden; what is read there could be printed.
var secretPlaces = []string{".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".vault-token"}

// mounts gives this process a view in which only the root and a private temp can be
// written. It does not hide what else can be read.
func (h *helper) mounts() error {
	if h.Root == "/" {
		return errors.New("the root is the whole machine")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts cannot be made private: %w", err)
	}
	root, err := h.takeRoot()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	devices := cloneDevices()
	resolver, _ := os.ReadFile("/etc/resolv.conf")

	quiet := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, quiet); err != nil {
		return fmt.Errorf("the outside cannot be made read-only: %w", err)
	}
	held := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, held); err != nil {
		return fmt.Errorf("the root cannot be made free of devices: %w", err)
	}
	for _, dir := range append([]string{"/tmp", "/var/tmp", "/run"}, h.Runtimes...) {
		if err := scratch(dir, "mode=1777"); err != nil {
			return err
		}
	}
	if err := plugDevices(devices); err != nil {
		return err
	}
	if h.Network {
		keepResolver(resolver)
	}
	procErr := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if err := os.MkdirAll(h.Root, 0o755); err != nil {
		return fmt.Errorf("there is no place for the root: %w", err)
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, h.Root, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("the root cannot be put in its place: %w", err)
	}
	marksErr := h.marks()
	if err := h.hide(); err != nil {
		return err
	}
	if h.View {
		h.level(LevelView, nil)
	}
	h.level(LevelMounts, nil)
	h.level(LevelProc, procErr)
	h.level(LevelMarks, marksErr)
	return nil
}

// takeRoot gives what will stand at the root's place: its own mount, or a view of it.
func (h *helper) takeRoot() (int, error) {
	if !h.View {
		return h.cloneRoot()
	}
	fd, err := h.view()
	if err != nil {
		h.level(LevelView, err)
	}
	return fd, err
}

// cloneRoot takes the root's mount out of the tree before all else becomes read-only.
func (h *helper) cloneRoot() (int, error) {
	at, err := unix.Open(h.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, fmt.Errorf("the root cannot be opened: %w", err)
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || st.Dev != h.RootDev || st.Ino != h.RootIno {
		return -1, errors.New("the workspace is no longer the directory that was looked at")
	}
	fd, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("the root's mount cannot be taken: %w", err)
	}
	return fd, nil
}

// scratch hides a directory under an empty one of this process alone. A directory that is
// not there needs no hiding.
func scratch(dir, options string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	if err := unix.Mount("tmpfs", real, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("%s cannot be hidden: %w", dir, err)
	}
	return nil
}

// hide covers the daemon's own places and the usual places of secrets.
func (h *helper) hide() error {
	list := h.Hide
	if filepath.IsAbs(h.Home) && h.Home != "/" {
		for _, p := range secretPlaces {
			list = append(list, filepath.Join(h.Home, p))
		}
	}
	for _, p := range list {
		info, err := os.Lstat(p)
		if err != nil {
			continue
		}
		if info.IsDir() {
			if err := scratch(p, "mode=0,size=4k"); err != nil {
				return err
			}
			unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
			continue
		}
		if info.Mode()&os.ModeSymlink != 0 {
			continue // what it leads to is judged by its own name
		}
		if err := unix.Mount("/dev/null", p, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s cannot be hidden: %w", p, err)
		}
	}
	return nil
}

// marks makes names in the root read-only, by handles that follow no link. A link itself
// cannot be covered; what becomes of it is found by comparing afterwards.
func (h *helper) marks() error {
	base, err := unix.Open(h.Root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(base)
	for _, rel := range h.ReadOnly {
		if err := readOnly(base, rel); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ELOOP) {
			return fmt.Errorf("%s: %w", rel, err)
		}
	}
	return nil
}

func readOnly(base int, rel string) error {
	at, err := unix.Openat2(base, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return err
	}
	tree, err := unix.OpenTree(at, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// cloneDevices takes the few harmless device nodes before devices stop working.
func cloneDevices() map[string]int {
	out := map[string]int{}
	for _, name := range devices {
		if fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err == nil {
			out[name] = fd
		}
	}
	return out
}

// plugDevices makes a /dev with those alone: a read-only mount does not keep anybody from
// writing to a disk through its node.
func plugDevices(clones map[string]int) error {
	if err := scratch("/dev", "mode=0755"); err != nil {
		return err
	}
	for name, fd := range clones {
		to := "/dev/" + name
		f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		unix.Close(fd)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/dev/shm", "/dev/pts"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := scratch("/dev/shm", "mode=1777"); err != nil {
		return err
	}
	// Without it programs have no terminals of their own; nothing depends on it.
	unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	return nil
}

// keepResolver puts the name server's file back where it lay under a hidden directory.
func keepResolver(content []byte) {
	to, err := os.Readlink("/etc/resolv.conf")
	if err != nil {
		return
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join("/etc", to)
	}
	if os.MkdirAll(filepath.Dir(to), 0o755) == nil {
		os.WriteFile(to, content, 0o644)
	}
}

// runtimes are further directories of sockets and session state, of the daemon's own user.
func runtimes() []string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) && !strings.HasPrefix(d, "/run/") {
		return []string{d}
	}
	return nil
}
