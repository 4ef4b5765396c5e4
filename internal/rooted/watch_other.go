//go:build !linux

package rooted

import "holdpoint/op"

// Watch is never made here.
type Watch struct{}

// Hint is one thing that may have changed.
type Hint struct {
	Dir, Name              string
	Came, Gone, Tree, Lost bool
}

// ErrWatched says that as many directories are watched as were allowed.
const ErrWatched = op.Code("watched")

// Watch answers unsupported_platform.
func (b *Below) Watch(int) (*Watch, error) { return nil, unsupported() }

func (w *Watch) Add(string, *Dir) error              { return unsupported() }
func (w *Watch) Drop(string)                         {}
func (w *Watch) Len() int                            { return 0 }
func (w *Watch) Close()                              {}
func (w *Watch) Wait() error                         { return unsupported() }
func (w *Watch) Take([]byte, []Hint) ([]Hint, error) { return nil, unsupported() }
