package rooted

import "holdpoint/op"

// Parent gives the directory in which n stands or would stand. The caller closes it. Where
// that directory does not exist either it is op.NotFound.
func (n *Node) Parent() (*Node, error) {
	at := n.Path.Parent()
	if n.parent == none {
		return nil, op.Fail(op.NotFound, "the directory is not there").At(at)
	}
	p := &Node{Asked: at, Path: at, in: n.in, hides: n.hides, parent: none, self: none}
	var err error
	if p.self, err = dup(n.parent); err == nil {
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
