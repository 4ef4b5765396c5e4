package mcp

import (
	"sync"

	"holdpoint/op"
)

// lookers are the tools that change nothing, under all their names.
var lookers = sync.OnceValue(func() map[string]bool {
	all := All()
	list := map[string]bool{}
	for _, compat := range []bool{false, true} {
		all.Compat = compat
		for _, t := range newToolset(all).list {
			list[t.name] = t.readOnly
		}
	}
	return list
})

// OnlyLooks reports whether a tool may be asked twice because it changes nothing. One that
// is not known may not.
func OnlyLooks(tool string) bool { return lookers()[tool] }

// Failure words an error as the result of a tool, in one line, for a call whose id is
// given as it was written.
func Failure(id string, e *op.Error) []byte { return failed(e).response(id) }
