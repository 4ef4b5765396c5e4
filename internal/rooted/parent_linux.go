package rooted

import "holdpoint/op"

// Parent gives the directory in which n stands or would stand. The caller closes it. Where
// that directory does not exist either it is op.NotFound.
func (n *Node) Parent() (*Node, error) {
	at := n.Path.Parent()
	if n.parent == none {
		return nil, op.Fail(op.NotFound, "the directory is not there").At(at)
	}
	return n.dirOf(at, n.parent)
}

// Above gives the directory that hands its group and its default ACL down to a new thing at
// n: the one that it would stand in, else the deepest that exists, since what is made on the
// way hands them on. The caller closes it.
func (n *Node) Above() (*Node, error) {
	if n.above != nil {
		return n.dirOf(n.above.Path, n.above.self)
	}
	return n.Parent()
}

func (n *Node) dirOf(at op.Path, fd int) (*Node, error) {
	p := &Node{Asked: at, Path: at, in: n.in, hides: n.hides, parent: none, self: none}
	var err error
	if p.self, err = dup(fd); err == nil {
		p.Info, _, err = lookAt(p.self, "")
	}
	if err != nil {
		p.Close()
		return nil, fail(err, at)
	}
	return p, nil
}

// Openat2 reports whether the kernel resolves paths strictly by itself here.
func (r *Root) Openat2() bool { return r.in.openat2 }
