//go:build !linux

package rooted

// Parent is unsupported here.
func (n *Node) Parent() (*Node, error) { return nil, unsupported() }
