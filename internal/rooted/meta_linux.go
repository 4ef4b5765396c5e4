package rooted

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"
)

// Inode flags a person can set and that mean something for the next file at this name:
// compressed, synchronous, no dump, no atime, journalled data, no copy-on-write, DAX.
const carriedFlags = 0x4 | 0x8 | 0x40 | 0x80 | 0x4000 | 0x800000 | 0x2000000

// madeByKernel are attributes computed from the bytes, wrong on any other file.
var madeByKernel = []string{"security.ima", "security.evm"}

func fdName(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func noXattr(err error) bool {
	return err == unix.ENODATA || err == unix.EOPNOTSUPP || err == unix.ENOSYS
}

// carry makes the new file fd like what like stands for, or answers metadata_loss naming
// what cannot be carried.
func carry(fd int, like *Node) error {
	if like.Info.Frozen {
		return op.Fail(op.PermissionDenied, "the file is immutable or append-only").At(like.Path).Do("its owner has to clear that flag first")
	}
	src, want, err := like.reader()
	if err != nil {
		return err
	}
	defer closeFD(src)
	return carryAll(fd, src, want, like.Path)
}

// carryAll gives fd what src has besides its bytes and times, or names what is lost.
func carryAll(fd, src int, want Info, p op.Path) error {
	var lost []string
	now, _, err := lookAt(fd, "")
	if err != nil {
		return fail(err, p)
	}
	if own(fd, now, want) != nil {
		lost = append(lost, "owner")
	}
	if err := unix.Fchmod(fd, want.Mode); err != nil { // after chown, which clears setuid
		lost = append(lost, "mode")
	}
	lost = append(lost, carryAttributes(fd, src)...)
	if !carryFlags(fd, src) {
		lost = append(lost, "inode flags")
	}
	got, _, err := lookAt(fd, "")
	if err != nil {
		return fail(err, p)
	}
	if got.Mode != want.Mode && !slices.Contains(lost, "mode") {
		lost = append(lost, "mode "+want.ModeString())
	}
	if len(lost) > 0 {
		return lossOf(lost, p)
	}
	return nil
}

func lossOf(lost []string, p op.Path) error {
	return op.Fail(op.MetadataLoss, "a new version of the file would lose its "+strings.Join(lost, ", ")).At(p).
		Do("let the file's owner make this change, or run the daemon as that user")
}

// ownAsDir gives what root makes to the owner of the directory it is made in: a user
// whose workspace a daemon of root serves can go on using it. Where ids cannot be given
// away it stays root's.
func ownAsDir(fd int, dir Info) error {
	return chownAs(dir, func(uid, gid int) error { return unix.Fchown(fd, uid, gid) })
}

func chownAs(dir Info, chown func(uid, gid int) error) error {
	if unix.Geteuid() != 0 || dir.UID == 0 {
		return nil
	}
	err := chown(int(dir.UID), int(dir.GID))
	if err == unix.EPERM || err == unix.EINVAL {
		return nil
	}
	return err
}

// own sets owner and group where they differ.
func own(fd int, now, want Info) error {
	if now.UID == want.UID && now.GID == want.GID {
		return nil
	}
	return unix.Fchown(fd, int(want.UID), int(want.GID))
}

// carryAttributes copies extended attributes, ACLs among them, removes what the store
// added, and names what did not get across.
func carryAttributes(fd, src int) (lost []string) {
	want, err := attributes(src)
	if err != nil {
		return []string{"extended attributes"}
	}
	have, err := attributes(fd)
	if err != nil {
		return []string{"extended attributes"}
	}
	for name := range have {
		if _, wanted := want[name]; !wanted && name != "security.selinux" {
			_ = unix.Fremovexattr(fd, name)
		}
	}
	for name, value := range want {
		if got, there := have[name]; there && got == value || slices.Contains(madeByKernel, name) {
			continue
		}
		if err := unix.Fsetxattr(fd, name, []byte(value), 0); err != nil {
			lost = append(lost, "attribute "+op.Escape(name))
		}
	}
	slices.Sort(lost)
	return lost
}

func attributes(fd int) (map[string]string, error) {
	list, err := grow(func(b []byte) (int, error) { return unix.Flistxattr(fd, b) })
	if err != nil || len(list) == 0 {
		return nil, err
	}
	out := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		v, err := grow(func(b []byte) (int, error) { return unix.Fgetxattr(fd, name, b) })
		if err != nil {
			return nil, err
		}
		if v != nil {
			out[name] = string(v)
		}
	}
	return out, nil
}

// Meta is a digest of what a file has besides its bytes, mode and times, by which an undo
// sees that somebody gave it another owner, access list or attribute since. "" for other
// kinds and where it cannot be told.
func (n *Node) Meta() string { return metaOf(n.self, n.Info) }

func metaOf(fd int, i Info) string {
	if fd == none || i.Kind != op.File {
		return ""
	}
	list, err := grow(func(b []byte) (int, error) { return unix.Listxattr(fdName(fd), b) })
	if err != nil {
		return ""
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	slices.Sort(names)
	said := fmt.Appendf(nil, "%d %d", i.UID, i.GID)
	for _, name := range names {
		if !setByPeople(name) {
			continue
		}
		v, err := grow(func(b []byte) (int, error) { return unix.Getxattr(fdName(fd), name, b) })
		if err != nil {
			return ""
		}
		said = fmt.Appendf(said, "\n%s %d %s", name, len(v), v)
	}
	return string(HashBytes(said))[len("blake3:"):][:32]
}

// setByPeople leaves out what the kernel and its security modules set by themselves, and
// what only root can see.
func setByPeople(name string) bool {
	return strings.HasPrefix(name, "user.") || name == aclAccess || name == "security.capability"
}

// grow calls get with a buffer large enough; nil where there is nothing of the kind.
func grow(get func([]byte) (int, error)) ([]byte, error) {
	b := make([]byte, 256)
	for {
		n, err := get(b)
		switch {
		case err == unix.ERANGE && len(b) < 1<<20:
			b = make([]byte, 4*len(b))
		case noXattr(err):
			return nil, nil
		case err != nil:
			return nil, err
		default:
			return b[:n], nil
		}
	}
}

// carryFlags reports whether the file ends up with the same inode flags.
func carryFlags(fd, src int) bool {
	want, err := unix.IoctlGetUint32(src, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return true // no such thing here
	}
	have, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || (want^have)&carriedFlags == 0 {
		return err == nil || want&carriedFlags == 0
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(have&^carriedFlags|want&carriedFlags)) == nil
}

// asCreated makes the new file what a plain create in dir would have made of it: the
// directory's group where it is setgid, and its default ACL.
func asCreated(fd int, dir *Node, perm uint32) error {
	if err := ownAsDir(fd, dir.Info); err != nil {
		return fail(err, dir.Path)
	}
	if dir.Info.Mode&unix.S_ISGID != 0 {
		got, _, err := lookAt(fd, "")
		if err != nil {
			return fail(err, dir.Path)
		}
		if got.GID != dir.Info.GID {
			if err := unix.Fchown(fd, -1, int(dir.Info.GID)); err != nil {
				return op.Fail(op.MetadataLoss, "a new file would lose the group that its directory gives").At(dir.Path).Because(err)
			}
		}
	}
	acl, err := grow(func(b []byte) (int, error) { return unix.Getxattr(fdName(dir.self), aclDefault, b) })
	if err != nil {
		return fail(err, dir.Path)
	}
	if len(acl) == 0 {
		return nil
	}
	mode, ok := narrowACL(acl, perm)
	if ok {
		if err = unix.Fsetxattr(fd, aclAccess, acl, 0); err == nil || noXattr(err) {
			err = unix.Fchmod(fd, mode)
		}
	}
	if !ok || err != nil {
		return op.Fail(op.MetadataLoss, "a new file would lose the ACL that its directory gives").At(dir.Path).Because(err)
	}
	return nil
}

// asMade is asCreated for a new directory, which also hands on what it gets. Its handle may
// be one that only names it.
func asMade(fd int, dir *Node, perm uint32) error {
	lost := func(what string, err error) error {
		return op.Fail(op.MetadataLoss, "a new directory would lose the "+what+" that the one above it gives").At(dir.Path).Because(err)
	}
	acl, err := grow(func(b []byte) (int, error) { return unix.Getxattr(fdName(dir.self), aclDefault, b) })
	if err != nil {
		return fail(err, dir.Path)
	}
	if len(acl) > 0 {
		if err := unix.Setxattr(fdName(fd), aclDefault, acl, 0); err != nil && !noXattr(err) {
			return lost("ACL", err)
		}
		mode, ok := narrowACL(acl, perm)
		if err = unix.Setxattr(fdName(fd), aclAccess, acl, 0); err == nil || noXattr(err) {
			err = unix.Chmod(fdName(fd), mode)
		}
		if !ok || err != nil {
			return lost("ACL", err)
		}
	}
	if dir.Info.Mode&unix.S_ISGID == 0 {
		return nil
	}
	err = unix.Chown(fdName(fd), -1, int(dir.Info.GID))
	var now Info
	if err == nil {
		now, _, err = lookAt(fd, "")
	}
	if err == nil {
		err = unix.Chmod(fdName(fd), now.Mode|unix.S_ISGID)
	}
	if err != nil {
		return lost("group", err)
	}
	return nil
}

// narrowACL takes from an inherited ACL, in place, what the create's mode does not ask
// for, as the kernel does, and gives the mode that results. The form is that of the
// attribute: a version word, then tag, permission and id of each entry.
func narrowACL(acl []byte, perm uint32) (mode uint32, ok bool) {
	const userObj, groupObj, mask, other = 0x01, 0x04, 0x10, 0x20
	if len(acl) < 4 || (len(acl)-4)%8 != 0 || binary.LittleEndian.Uint32(acl) != 2 {
		return 0, false
	}
	at := map[uint16]int{}
	for i := 4; i < len(acl); i += 8 {
		at[binary.LittleEndian.Uint16(acl[i:])] = i + 2
	}
	class := func(tag uint16, shift uint32) {
		i, there := at[tag]
		if !there {
			return
		}
		p := binary.LittleEndian.Uint16(acl[i:]) & uint16(perm>>shift&7)
		binary.LittleEndian.PutUint16(acl[i:], p)
		mode |= uint32(p) << shift
	}
	class(userObj, 6)
	if _, masked := at[mask]; masked {
		class(mask, 3)
	} else {
		class(groupObj, 3)
	}
	class(other, 0)
	return mode, true
}
