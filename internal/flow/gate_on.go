//go:build !nogate

package flow

// gated: every call is judged before its handler.
const gated = true
