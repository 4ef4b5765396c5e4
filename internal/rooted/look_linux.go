package rooted

import (
	"context"

	"golang.org/x/sys/unix"

	"holdpoint/op"
)

// Look opens what stands at a cleaned path, without reading it: it never blocks and has
// no side effect, whatever kind of thing is there. With follow a link at the end is
// walked, else it is what is looked at. Nothing there is no error: the node's kind is
// absent and Missing names the parents that would have to be made. The caller closes the
// node. What an error says never depends on a place outside.
func (r *Root) Look(ctx context.Context, p op.Path, follow bool) (n *Node, err error) {
	if err := ctx.Err(); err != nil {
		return nil, op.Fail(op.Cancelled, "cancelled").At(p).Because(err)
	}
	err = r.use(func(root int) error {
		if n, err = r.direct(root, p, follow); n != nil || err != nil {
			return err
		}
		n, err = r.walk(root, p, follow)
		return err
	})
	if err != nil {
		return nil, fail(err, p)
	}
	if r.hides(n.Path) {
		n.Close()
		return nil, outside(p)
	}
	return n, nil
}

// direct looks at a path on which no link lies with two calls of the kernel. It answers
// nil where it cannot tell, and walk finds out.
func (r *Root) direct(root int, p op.Path, follow bool) (*Node, error) {
	if !r.in.openat2 || p == "." || p == "" {
		return nil, nil
	}
	parent, err := r.in.open(root, string(p.Parent()), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, nil
	}
	n := &Node{Asked: p, Path: p, in: r.in, hides: r.hides, known: &r.known, parent: parent, self: none, name: p.Base(), Info: Info{Kind: op.Absent}}
	n.self, err = r.in.open(parent, n.name, unix.O_PATH)
	if err == nil {
		n.Info, _, err = lookAt(n.self, "")
	}
	if err == unix.ENOENT {
		return n, nil
	}
	if err != nil || n.Info.Kind == op.Symlink && follow {
		n.Close()
		return nil, nil
	}
	return n, nil
}

// Peek tells what stands at a path without holding it, and mostly that nothing does: one
// call of the kernel then. A link at the end is not walked.
func (r *Root) Peek(ctx context.Context, p op.Path) (i Info, err error) {
	sure := false
	plain := r.in.openat2 && p != "." && p != "" && !r.hides(p)
	err = r.use(func(root int) error {
		if !plain {
			return nil
		}
		fd, err := r.in.open(root, string(p), unix.O_PATH)
		if err == unix.ENOENT {
			i.Kind, sure = op.Absent, true
		}
		if err != nil {
			return nil
		}
		defer closeFD(fd)
		i, _, err = lookAt(fd, "")
		sure = err == nil
		return nil
	})
	if err != nil || sure {
		return i, err
	}
	n, err := r.Look(ctx, p, false)
	if err != nil {
		return Info{}, err
	}
	defer n.Close()
	return n.Info, nil
}

// dirAt opens a canonical directory, on whose way no link may lie, for changes in it.
func (r *Root) dirAt(p op.Path) (fd int, err error) {
	err = r.use(func(root int) error {
		if p == "." {
			fd, err = dup(root)
			return err
		}
		if r.in.openat2 {
			fd, err = r.in.open(root, string(p), unix.O_PATH|unix.O_DIRECTORY)
			return err
		}
		fd, err = r.dirByNames(root, p)
		return err
	})
	if err != nil {
		return none, err
	}
	return fd, nil
}

func (r *Root) dirByNames(root int, p op.Path) (int, error) {
	fd := root
	for _, name := range split(string(p)) {
		next, err := r.in.open(fd, name, unix.O_PATH|unix.O_DIRECTORY)
		if fd != root {
			closeFD(fd)
		}
		if err != nil {
			return none, err
		}
		fd = next
	}
	return fd, nil
}

func outside(p op.Path) *op.Error {
	return op.Fail(op.OutsideWorkspace, "the path leads out of the workspace").At(p).Do("give a path that stays below the root")
}
