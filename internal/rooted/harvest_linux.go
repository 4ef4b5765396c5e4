package rooted

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// harvest reads a view's upper directory against the root below it.
type harvest struct {
	Harvest
	s     *Store
	id    string
	since time.Time
	each  func(p op.Path, info Info) // of every name that comes or goes, also inside of directories; may be nil
	count int
}

// Harvest takes a view apart into the steps that make the root as the view was: what was
// created or changed moves into slots of its own, flushed, what was only opened is dropped,
// and every file of the root that is concerned is hashed as it is now. since is the Moment
// before the view was made: what of the root changed after it taints the whole. each may be
// nil; it is told every name that comes or goes. Nothing in the root is changed. On failure
// the slots of the view's set are the caller's to drop.
func (s *Store) Harvest(ctx context.Context, id string, root *Root, since time.Time, each func(op.Path, Info)) (Harvest, error) {
	h := &harvest{s: s, id: id, since: since, each: each}
	if each == nil {
		h.each = func(op.Path, Info) {}
	}
	view, err := s.Node(viewSlot(id))
	if err != nil {
		return h.Harvest, err
	}
	defer view.Close()
	up, err := view.child("upper")
	if err != nil {
		return h.Harvest, err
	}
	defer up.Close()
	low, err := root.Look(ctx, ".", false)
	if err != nil {
		return h.Harvest, err
	}
	defer low.Close()
	up.Path = "."
	hides := opaque(up)
	if work, err := view.child("work"); errors.Is(err, op.NotFound) {
		hides = true // a copy: what it lacks was removed
	} else if err != nil {
		return h.Harvest, err
	} else {
		work.Close()
	}
	if up.Info.Mode != low.Info.Mode {
		h.left("the mode of the root itself, %s in the view, stays %s", up.Info.ModeString(), low.Info.ModeString())
	}
	// What the program wrote is on its way to the disk while it is read; the flush at the
	// end is then a short one.
	early := make(chan struct{})
	go func() {
		defer close(early)
		_ = unix.Syncfs(s.fd)
	}()
	err = h.dir(ctx, up, low, hides)
	<-early
	if err != nil {
		return h.Harvest, err
	}
	h.pair()
	return h.Harvest, fail(unix.Syncfs(s.fd), "")
}

func (h *harvest) left(format string, a ...any) { h.Left = append(h.Left, fmt.Sprintf(format, a...)) }

// dir compares a directory of the view with the one it was laid over. An opaque one hides
// all that the root has there.
func (h *harvest) dir(ctx context.Context, up, low *Node, hides bool) error {
	if err := ctx.Err(); err != nil {
		return op.Fail(op.Cancelled, "cancelled while the change set was read").Because(err)
	}
	names, err := up.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := h.entry(ctx, up, low, name, hides); err != nil {
			return err
		}
	}
	if !hides {
		return nil
	}
	old, err := low.names()
	if err != nil {
		return err
	}
	for _, name := range old {
		if _, kept := slices.BinarySearch(names, name); kept {
			continue
		}
		l, err := below(low, name)
		if errors.Is(err, op.CrossesMount) {
			continue
		}
		if err != nil {
			return err
		}
		if l != nil {
			err = h.gone(ctx, l)
			l.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below opens one name of the root; nil where nothing is, or nothing of the caller's.
func below(low *Node, name string) (*Node, error) {
	n, err := low.Child(name)
	if errors.Is(err, op.NotFound) || errors.Is(err, op.OutsideWorkspace) {
		return nil, nil
	}
	return n, err
}

func (h *harvest) entry(ctx context.Context, up, low *Node, name string, hides bool) error {
	u, err := up.child(name)
	if err != nil {
		return err
	}
	defer u.Close()
	l, err := below(low, name)
	if errors.Is(err, op.CrossesMount) {
		h.left("%s lies under a mount, and stays as it is", op.Escape(string(u.Path)))
		return nil
	}
	if err != nil {
		return err
	}
	if l != nil {
		defer l.Close()
	}
	switch {
	case whiteout(u) && l == nil:
		return nil // it came and went
	case whiteout(u):
		return h.gone(ctx, l)
	case u.Info.Kind == op.Directory && l != nil && l.Info.Kind == op.Directory:
		if u.Info.Mode != l.Info.Mode {
			h.left("the mode of the directory %s, %s in the view, stays %s", op.Escape(string(u.Path)), u.Info.ModeString(), l.Info.ModeString())
		}
		return h.unread(u, h.dir(ctx, u, l, hides || opaque(u)))
	case u.Info.Kind == op.File && l != nil && l.Info.Kind == op.File:
		return h.unread(u, h.file(ctx, u, l))
	case u.Info.Kind == op.Symlink && l != nil && l.Info.Kind == op.Symlink && u.Info.Target == l.Info.Target:
		h.Dropped++
		return nil
	case u.Info.Kind != op.File && u.Info.Kind != op.Directory && u.Info.Kind != op.Symlink:
		h.left("%s is a %s, which is not put into the workspace", op.Escape(string(u.Path)), u.Info.Kind)
		return nil
	}
	if l == nil {
		return h.unread(u, h.come(ctx, u))
	}
	if err := h.gone(ctx, l); err != nil {
		return err
	}
	return h.come(ctx, u)
}

// unread leaves out what this user may not read, such as a file without any rights that the
// program made: what nobody looked at is not put into the workspace.
func (h *harvest) unread(u *Node, err error) error {
	if !errors.Is(err, op.PermissionDenied) {
		return err
	}
	h.left("the daemon may not read %s or something in it, and does not put it into the workspace", op.Escape(string(u.Path)))
	return nil
}

// file compares a file that was copied up with the one it was copied from.
func (h *harvest) file(ctx context.Context, u, l *Node) error {
	after, err := u.State(ctx)
	if err != nil {
		return err
	}
	before, err := l.State(ctx)
	if err != nil {
		return err
	}
	owner := u.Info.UID != l.Info.UID || u.Info.GID != l.Info.GID
	if before.Equal(after) && !owner {
		h.Dropped++
		return nil
	}
	h.fresh(l)
	c := Change{Path: l.Path, Change: "modified", Before: before, After: after}
	if before.Hash == after.Hash {
		c.Change = "mode"
	}
	if l.Info.Links > 1 {
		c.Links = l.Info.Links - 1
	}
	if u.Info.Mode&^l.Info.Mode&0o6000 != 0 {
		c.Setuid = []op.Path{l.Path}
	}
	h.each(l.Path, u.Info)
	slot, inode, err := h.slot(ctx, u)
	if err != nil {
		return err
	}
	h.Changes = append(h.Changes, c)
	h.Bytes += after.Size
	h.Steps = append(h.Steps, op.Step{Do: op.Swap, Path: l.Path, Slot: slot, Before: before, After: after, Inode: inode})
	return nil
}

// fresh taints the whole when a thing of the root changed after the view was made. A time
// that is not older counts as later.
func (h *harvest) fresh(l *Node) {
	if h.Tainted == "" && !l.Info.Ctime.Before(h.since) {
		h.Tainted = l.Path
	}
}

// gone is what the root has and the view has not.
func (h *harvest) gone(ctx context.Context, l *Node) error {
	h.fresh(l)
	c := Change{Path: l.Path, Change: "deleted", After: op.State{Kind: op.Absent}}
	h.each(l.Path, l.Info)
	if l.Info.Kind == op.Directory {
		err := l.Tree(ctx, func(p op.Path, info Info, _ func() (*Node, error)) error {
			c.counts(p)
			h.each(p, info)
			if h.Tainted == "" && !info.Ctime.Before(h.since) {
				h.Tainted = p
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var err error
	if c.Before, err = l.State(ctx); err != nil {
		return err
	}
	h.Changes = append(h.Changes, c)
	h.Steps = append(h.Steps, op.Step{Do: op.Take, Path: l.Path, Slot: h.next(), Before: c.Before, After: c.After})
	return nil
}

// come is what the view has and the root has not, a directory with all below it as one.
func (h *harvest) come(ctx context.Context, u *Node) error {
	c := Change{Path: u.Path, Change: "created", Before: op.State{Kind: op.Absent}}
	h.each(u.Path, u.Info)
	if u.Info.Mode&0o6000 != 0 && u.Info.Kind == op.File {
		c.Setuid = append(c.Setuid, u.Path)
	}
	var err error
	if u.Info.Kind == op.Directory {
		m := gathered{hash: newManifestHash()}
		if err := h.clean(ctx, u, &c, &m, len(u.Path)+1); err != nil {
			return err
		}
		c.After = op.State{Kind: op.Directory, Hash: wireDigest(m.hash.h), Size: m.bytes, Mode: u.Info.ModeString()}
	} else if c.After, err = u.State(ctx); err != nil {
		return err
	}
	slot, inode, err := h.slot(ctx, u)
	if err != nil {
		return err
	}
	h.Changes = append(h.Changes, c)
	h.Bytes += c.After.Size
	h.Steps = append(h.Steps, op.Step{Do: op.Place, Path: u.Path, Slot: slot, Before: c.Before, After: c.After, Inode: inode})
	return nil
}

// gathered is the manifest of a new directory, made while it is cleaned.
type gathered struct {
	hash  manifestHash
	bytes int64
}

// clean takes the overlay's own marks out of a new directory, and what cannot be put into
// the workspace. What is left goes into the manifest as Tree would give it.
func (h *harvest) clean(ctx context.Context, u *Node, c *Change, m *gathered, top int) error {
	bare(u)
	entries, err := u.Entries(ctx)
	if err != nil {
		return err
	}
	kept := entries[:0]
	for _, e := range entries {
		stays, err := h.stays(u, e)
		if err != nil {
			return err
		}
		if stays {
			kept = append(kept, e)
		}
	}
	contents, err := read(ctx, u, kept)
	if err != nil {
		return err
	}
	for i, e := range kept {
		p := u.Path.Join(e.Name)
		c.counts(p)
		h.each(p, e.Info)
		m.hash.entry(string(p)[top:], e.Info, contents[i])
		switch e.Info.Kind {
		case op.File:
			m.bytes += e.Info.Size
			if e.Info.Mode&0o6000 != 0 {
				c.Setuid = append(c.Setuid, p)
			}
		case op.Directory:
			d, err := u.child(e.Name)
			if err != nil {
				return err
			}
			err = h.clean(ctx, d, c, m, top)
			d.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stays reports whether a name in a new directory can be put into the workspace; one that
// cannot is taken out.
func (h *harvest) stays(u *Node, e Entry) (bool, error) {
	switch {
	case e.Info.Kind == op.Directory, e.Info.Kind == op.Symlink, e.Info.Kind == op.File && e.Info.Size > 0:
		return true, nil
	}
	n, err := u.child(e.Name)
	if err != nil {
		return false, err
	}
	defer n.Close()
	if !whiteout(n) {
		if e.Info.Kind == op.File {
			return true, nil
		}
		h.left("%s is a %s, which is not put into the workspace", op.Escape(string(n.Path)), e.Info.Kind)
	}
	return false, h.out(u, e.Name)
}

// read gives the contents of the entries of one directory as a manifest has them, and what
// the files looked like when they were read, several at a time.
func read(ctx context.Context, u *Node, entries []Entry) ([]op.Digest, error) {
	out := make([]op.Digest, len(entries))
	var next atomic.Int64
	var g errgroup.Group
	for range min(runtime.GOMAXPROCS(0), len(entries)) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < len(entries); i = int(next.Add(1)) - 1 {
				switch e := &entries[i]; e.Info.Kind {
				case op.Symlink:
					out[i] = HashBytes([]byte(e.Info.Target))
				case op.File:
					s, err := readOwn(ctx, u, *e)
					if err != nil {
						return err
					}
					out[i], e.Info = s.digest, s.info
				}
			}
			return nil
		})
	}
	return out, g.Wait()
}

// readOwn digests a file of the view without the overlay's marks. Nobody but us is at work
// there, so it is opened by its name at once, and what it is then is compared afterwards.
func readOwn(ctx context.Context, u *Node, e Entry) (seen, error) {
	fd, err := u.in.open(u.self, e.Name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err == nil {
		defer closeFD(fd)
		if k, err := unix.Flistxattr(fd, nil); k == 0 && err == nil {
			digest, size, err := hashFD(ctx, fd, e.Info.Size)
			if err != nil {
				return seen{}, fail(err, u.Path.Join(e.Name))
			}
			if now, _, err := lookAt(fd, ""); err == nil && now.untouched(e.Info) && size == now.Size {
				return seen{info: now, digest: digest}, nil
			}
		}
	}
	n, err := u.child(e.Name)
	if err != nil {
		return seen{}, err
	}
	defer n.Close()
	bare(n)
	return n.hash(ctx)
}

// out takes a name out of the view, by way of a slot: it is the view's own, and not the root's.
func (h *harvest) out(u *Node, name string) error {
	slot := h.id + goneSuffix
	if err := rename(u.self, name, h.s.fd, slot, unix.RENAME_NOREPLACE); err != nil {
		return fail(err, u.Path)
	}
	return h.s.Drop(slot)
}

// next names a slot of the set.
func (h *harvest) next() string {
	h.count++
	return h.id + "." + strconv.Itoa(h.count)
}

// slot moves a thing of the view into a slot of its own. One that shares its file with
// other names of the view gets a copy: each name is put in by itself.
func (h *harvest) slot(ctx context.Context, u *Node) (string, uint64, error) {
	slot := h.next()
	if u.Info.Kind == op.File && u.Info.Links > 1 {
		h.left("%s shares a file with other names in the view; it becomes a file of its own", op.Escape(string(u.Path)))
		bare(u)
		made, err := h.s.StageCopy(ctx, slot, u, Meta{Like: u})
		return slot, made.Inode, err
	}
	bare(u)
	if err := rename(u.parent, u.name, h.s.fd, slot, unix.RENAME_NOREPLACE); err != nil {
		return "", 0, fail(err, u.Path)
	}
	i, _, err := lookAt(h.s.fd, slot)
	if err != nil {
		return "", 0, fail(err, u.Path)
	}
	h.s.markFresh(slot, i)
	return slot, i.Ino, nil
}

// pair finds files that went and came back under another name, by their bytes.
func (h *harvest) pair() {
	type key struct {
		hash op.Digest
		size int64
	}
	went := map[key][]op.Path{}
	for _, c := range h.Changes {
		if c.Change == "deleted" && c.Before.Size > 0 && c.Before.Kind != op.Symlink {
			k := key{c.Before.Hash, c.Before.Size}
			went[k] = append(went[k], c.Path)
		}
	}
	for i, c := range h.Changes {
		k := key{c.After.Hash, c.After.Size}
		if list := went[k]; c.Change == "created" && len(list) > 0 {
			h.Changes[i].From, went[k] = list[0], list[1:]
		}
	}
}

// whiteout tells what stands in a view for what was removed from it, in both forms.
func whiteout(n *Node) bool {
	switch n.Info.Kind {
	case op.File:
		return n.Info.Size == 0 && overlaid(n, "whiteout") != ""
	case op.Symlink, op.Directory:
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(n.self, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == 0
}

func opaque(n *Node) bool { return overlaid(n, "opaque") == "y" }

// overlaid gives one of the overlay's own attributes, of either name space; "-" for one
// that is empty, "" for none.
func overlaid(n *Node, name string) string {
	b := make([]byte, 16)
	for _, space := range []string{"user.overlay.", "trusted.overlay."} {
		if k, err := unix.Getxattr(fdName(n.self), space+name, b); err == nil {
			if k == 0 {
				return "-"
			}
			return string(b[:k])
		}
	}
	return ""
}

// bare takes the overlay's own attributes off. One that stays does no harm but to be seen.
func bare(n *Node) {
	if n.Info.Kind == op.Symlink {
		return
	}
	list, err := grow(func(b []byte) (int, error) { return unix.Listxattr(fdName(n.self), b) })
	if err != nil || len(list) == 0 {
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if strings.HasPrefix(name, "user.overlay.") || strings.HasPrefix(name, "trusted.overlay.") {
			_ = unix.Removexattr(fdName(n.self), name)
		}
	}
}
