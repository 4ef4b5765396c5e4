//go:build !linux

package rooted

import (
	"context"
	"io"
	"os"
	"time"

	"holdpoint/op"
)

func unsupported() error {
	return op.Fail(op.UnsupportedPlatform, "workspaces are served on Linux only").Do("run the daemon on Linux; the other commands work here")
}

// Root is never made here: Open refuses.
type Root struct{ dir, given string }

// Open answers unsupported_platform.
func Open(string, Options) (*Root, error) { return nil, unsupported() }

func (r *Root) Dir() string                                        { return r.dir }
func (r *Root) Given() string                                      { return r.given }
func (r *Root) Same(*Root) bool                                    { return false }
func (r *Root) Holds(string) bool                                  { return true }
func (r *Root) Hide(op.Path)                                       {}
func (r *Root) Check() error                                       { return unsupported() }
func (r *Root) Close() error                                       { return unsupported() }
func (r *Root) Look(context.Context, op.Path, bool) (*Node, error) { return nil, unsupported() }
func (r *Root) Peek(context.Context, op.Path) (Info, error)        { return Info{}, unsupported() }
func (r *Root) Settle(context.Context, *Store, []op.Step) (Settled, error) {
	return Settled{}, unsupported()
}
func (r *Root) Hold(context.Context, *Store, []op.Step, HoldOptions) (*Held, error) {
	return nil, unsupported()
}

// Known is what was found out from the bytes of a regular file.
type Known struct {
	Digest op.Digest
	Size   int64
	Note   any
}

// Node is never made here.
type Node struct {
	Asked   op.Path
	Path    op.Path
	Links   []op.Link
	Info    Info
	Missing []op.Path
}

func (n *Node) Close()                                           {}
func (n *Node) Meta() string                                     { return "" }
func (n *Node) Read(int64) ([]byte, error)                       { return nil, unsupported() }
func (n *Node) ReadAt(int64, int) ([]byte, error)                { return nil, unsupported() }
func (n *Node) Hash(context.Context) (op.Digest, int64, error)   { return "", 0, unsupported() }
func (n *Node) Digest(context.Context) (op.Digest, int64, error) { return "", 0, unsupported() }
func (n *Node) Known(context.Context, int64, func([]byte, bool) any) (Known, error) {
	return Known{}, unsupported()
}
func (n *Node) Open() (*os.File, error)                    { return nil, unsupported() }
func (n *Node) Child(string) (*Node, error)                { return nil, unsupported() }
func (n *Node) Entries(context.Context) ([]Entry, error)   { return nil, unsupported() }
func (n *Node) Manifest(context.Context) (Manifest, error) { return Manifest{}, unsupported() }
func (n *Node) Survey(context.Context, func(op.Path, Info)) (Manifest, error) {
	return Manifest{}, unsupported()
}
func (n *Node) State(context.Context) (op.State, error) { return op.State{}, unsupported() }
func (n *Node) Tree(context.Context, Visit) error       { return unsupported() }
func (n *Node) TreePast(context.Context, Visit, func(op.Path, error) error) error {
	return unsupported()
}

// Sweep tells nothing here.
type Sweep struct{}

func (r *Root) Sweep() *Sweep { return &Sweep{} }
func (s *Sweep) Close()       {}
func (s *Sweep) File(context.Context, op.Path, int64, func([]byte, bool) any) (Info, Known, bool) {
	return Info{}, Known{}, false
}

// Store is never made here: OpenStore refuses.
type Store struct{}

// OpenStore answers unsupported_platform.
func OpenStore(string, *Root) (*Store, error) { return nil, unsupported() }

// OpenCopies answers unsupported_platform.
func OpenCopies(string, *Root) (*Store, error) { return nil, unsupported() }

func (s *Store) Copies() bool                                     { return false }
func (s *Store) Enter() (func(), error)                           { return func() {}, unsupported() }
func (s *Store) Staging() *Store                                  { return s }
func (s *Store) Reclaim(context.Context, func(string) bool) error { return unsupported() }
func (s *Store) Relax()                                           {}
func (s *Store) Features() Features                               { return Features{} }
func (s *Store) Found() string                                    { return "" }
func (s *Store) Leave() string                                    { return "" }
func (s *Store) Close() error                                     { return unsupported() }
func (s *Store) Node(string) (*Node, error)                       { return nil, unsupported() }
func (s *Store) State(context.Context, string) (op.State, error)  { return op.State{}, unsupported() }
func (s *Store) Kept(context.Context, string) (op.State, error)   { return op.State{}, unsupported() }
func (s *Store) Inode(string) (uint64, error)                     { return 0, unsupported() }
func (s *Store) Open(string) (*os.File, error)                    { return nil, unsupported() }
func (s *Store) Drop(string) error                                { return unsupported() }
func (s *Store) Slots() ([]string, error)                         { return nil, unsupported() }
func (s *Store) StageLink(string, string) (Staged, error)         { return Staged{}, unsupported() }
func (s *Store) Verify(context.Context, op.Step) (*Late, error)   { return nil, unsupported() }
func (s *Store) Flushed(string) error                             { return unsupported() }
func (s *Store) Stage(context.Context, string, io.Reader, Meta) (Staged, error) {
	return Staged{}, unsupported()
}
func (s *Store) StageNew(context.Context, string, io.Reader, Meta) (Staged, error) {
	return Staged{}, unsupported()
}
func (s *Store) StageTree(context.Context, string, *Node, op.Digest, *Node) (Staged, error) {
	return Staged{}, unsupported()
}
func (s *Store) Sizes(context.Context) (map[string]int64, error) { return nil, unsupported() }
func (s *Store) Size(context.Context, string) (int64, error)     { return 0, unsupported() }
func (s *Store) StageCopy(context.Context, string, *Node, Meta) (Staged, error) {
	return Staged{}, unsupported()
}

// Held is never made here.
type Held struct{}

func (h *Held) Steps() []op.Step                      { return nil }
func (h *Held) Apply(context.Context) (Report, error) { return Report{}, unsupported() }
func (h *Held) Late(context.Context) []Late           { return nil }
func (h *Held) Close()                                {}

// OpenView answers unsupported_platform.
func (s *Store) OpenView(string, *Root) (*View, error) { return nil, unsupported() }

// CopyView answers unsupported_platform.
func (s *Store) CopyView(context.Context, string, *Root) (*View, error) { return nil, unsupported() }

// Behind has nothing to flush: no view is made here.
func (v *View) Behind() (stop func()) { return func() {} }

// ViewNames is of no use here.
func (s *Store) ViewNames() int { return 0 }

// Aside answers unsupported_platform.
func (s *Store) Aside(context.Context, string, *Node) error { return unsupported() }

// Flush answers unsupported_platform.
func (s *Store) Flush() error { return unsupported() }

// DropView answers unsupported_platform.
func (s *Store) DropView(string) error { return unsupported() }

// Harvest answers unsupported_platform.
func (s *Store) Harvest(context.Context, string, *Root, time.Time, func(op.Path, Info)) (Harvest, error) {
	return Harvest{}, unsupported()
}

// Moment gives no time: nothing is old enough.
func Moment() time.Time { return time.Time{} }
