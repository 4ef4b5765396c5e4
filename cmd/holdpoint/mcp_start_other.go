//go:build !linux

package main

import (
	"context"

	"holdpoint/op"
)

func (a *app) startDaemon(context.Context, string, place) error {
	return op.Fail(op.UnsupportedPlatform, "a daemon runs on Linux only").Do("run this on the Linux machine that holds the files")
}
