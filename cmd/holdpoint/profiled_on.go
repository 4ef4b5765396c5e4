//go:build profiled

package main

import (
	"net"
	"net/http"
	_ "net/http/pprof" // its routes, on the default mux, which nothing else here serves
)

// profiles serves the runtime's profiles on the socket that HOLDPOINT_PROFILES names. Only
// the build that looks for what grows has it (the tag profiled); see TestSoak.
func profiles(env func(string) string) error {
	at := env("HOLDPOINT_PROFILES")
	if at == "" {
		return nil
	}
	l, err := net.Listen("unix", at)
	if err != nil {
		return err
	}
	go http.Serve(l, nil)
	return nil
}
