//go:build !linux

package shellexec

type group struct{}
