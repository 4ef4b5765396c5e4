package bridge

import (
	"context"
	"net"

	"holdpoint/op"
)

// ofOurs marks connections of processes that this daemon started, or that came from one.
type ofOurs struct{}

// WithPeer marks a connection's context when the process on its other end descends from
// this daemon: what it started is never a person, whatever token it found. Whoever cannot
// be placed any more, because it ended, counts as such. Ancestry is not the only guard: a
// process that has left the tree looks like a stranger.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	if descends(conn) {
		return context.WithValue(ctx, ofOurs{}, true)
	}
	return ctx
}

// asPerson refuses roles of people to what the daemon itself started.
func asPerson(ctx context.Context, by op.Role) error {
	if started, _ := ctx.Value(ofOurs{}).(bool); started && by.Includes(op.Reviewer) {
		return op.Fail(op.Forbidden, "a program that this daemon started cannot review").Do("a person answers, from outside of what was released")
	}
	return nil
}
