//go:build !linux

package rooted

// Parent is unsupported here.
func (n *Node) Parent() (*Node, error) { return nil, unsupported() }
func (n *Node) Above() (*Node, error)  { return nil, unsupported() }

// Openat2 is what this platform does not have.
func (r *Root) Openat2() bool { return false }

func (n *Node) GoesElsewhere() error { return unsupported() }
func (n *Node) Lets() error          { return unsupported() }
func (n *Node) LetsGo(*Node) error   { return unsupported() }
func (n *Node) KeepsOwner() error    { return unsupported() }
