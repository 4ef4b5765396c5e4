//go:build !linux

package rooted

import (
	"context"

	"holdpoint/op"
)

func (n *Node) As(op.Path) (*Node, error)                    { return nil, unsupported() }
func Absence(op.Path, *Node, bool, []op.Path) (*Node, error) { return nil, unsupported() }
func NewDir(p op.Path) *Node                                 { return &Node{Path: p} }
func Imagine(op.Path, []byte, uint32) (*Node, error)         { return nil, unsupported() }
func (n *Node) ManifestWithout(context.Context, func(string) bool) (Manifest, error) {
	return Manifest{}, unsupported()
}
