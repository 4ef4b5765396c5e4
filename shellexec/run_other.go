//go:build !linux

package shellexec

import (
	"context"

	"holdpoint/op"
)

// HelperArg is the one argument by which the helper is started; there is none here.
const HelperArg = "confine"

func unsupported() error {
	return op.Fail(op.UnsupportedPlatform, "running programs is built for Linux only").Do("run it yourself, outside of holdpoint")
}

// Run answers unsupported_platform.
func Run(context.Context, Spec) (Result, error) { return Result{}, unsupported() }

// Probe answers unsupported_platform.
func Probe(context.Context, Spec) ([]Level, error) { return nil, unsupported() }

// Helper does nothing here.
func Helper() int { return 2 }
