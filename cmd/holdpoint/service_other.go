//go:build !linux

package main

func journalled(func(string) string) bool { return false }

func monotonic() string { return "MONOTONIC_USEC=0" }

func checkSocketMode(string) error { return nil }
