//go:build !linux

package main

// dropProgram does nothing: only Linux serves.
func dropProgram() {}
