//go:build !linux

package shellexec

import (
	"context"
	"io"

	"holdpoint/op"
)

// HelperArg is the one argument by which the helper is started; there is none here.
const HelperArg = "confine"

func unsupported() error {
	return op.Fail(op.UnsupportedPlatform, "running programs is built for Linux only").Do("run it yourself, outside of holdpoint")
}

// Run answers unsupported_platform.
func Run(context.Context, Spec) (Result, error) { return Result{}, unsupported() }

// Running is a run that was begun; there is none here.
type Running struct{ Output *Live }

// Start answers unsupported_platform.
func Start(context.Context, Spec) (*Running, error) { return nil, unsupported() }

// Up, Done, Wait, Number, Type and Resize are of a run, and there is none.
func (r *Running) Up() {}

func (r *Running) Done() <-chan struct{} { return nil }

func (r *Running) Wait() Result { return Result{} }

func (r *Running) Number() int { return 0 }

func (r *Running) Type([]byte) error { return unsupported() }

func (r *Running) Resize(Size) error { return unsupported() }

// Probe answers unsupported_platform.
func Probe(context.Context, Spec) ([]Level, error) { return nil, unsupported() }

// Helper does nothing here.
func Helper() int { return 2 }

// AsideArg is the first argument by which a parser's process is started; there is none here.
const AsideArg = "parse-aside"

// Aside answers unsupported_platform.
func Aside(context.Context, string, []byte) ([]byte, error) { return nil, unsupported() }

// AsideMain does nothing here.
func AsideMain(string, io.Reader, io.Writer, func(string, []byte) ([]byte, bool)) int { return 2 }
