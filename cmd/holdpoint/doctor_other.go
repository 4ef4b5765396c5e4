//go:build !linux

package main

// probeKernel has nothing to ask: serve needs Linux.
func probeKernel() []probe { return nil }
