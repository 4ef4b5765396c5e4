//go:build !linux

package shellexec

// Spares keeps nothing here.
type Spares struct{}

// Close has nothing to end.
func (s *Spares) Close() {}

// Warm does nothing.
func (s *Spares) Warm(Spec) {}

// Ready is none.
func (s *Spares) Ready() int { return 0 }
