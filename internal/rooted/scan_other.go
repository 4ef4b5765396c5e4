//go:build !linux

package rooted

import (
	"context"

	"holdpoint/op"
)

// Below is never made here.
type Below struct{ Path op.Path }

// Below answers unsupported_platform.
func (n *Node) Below() (*Below, error) { return nil, unsupported() }

func (b *Below) Close()                   {}
func (b *Below) Dir(string) (*Dir, error) { return nil, unsupported() }

// Dir is never made here.
type Dir struct{}

// Found is one name of a directory and what the directory says stands there.
type Found struct {
	Name string
	Kind op.Kind
}

func (d *Dir) Close()                                 {}
func (d *Dir) Names(context.Context) ([]Found, error) { return nil, unsupported() }
func (d *Dir) Info(string) (Info, error)              { return Info{}, unsupported() }
func (d *Dir) Open(string) (Reading, error)           { return Reading{}, unsupported() }
func (d *Dir) Small(string, int64) []byte             { return nil }

// Reading is never made here.
type Reading struct{ Size int64 }

func (r Reading) Close()                            {}
func (r Reading) ReadAt([]byte, int64) (int, error) { return 0, unsupported() }
