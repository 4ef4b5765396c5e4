package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build with -ldflags -X.
var version string

// Version is the word for this build: the one set at link time, else the module's.
func Version() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "unknown"
}

// licenses holds the terms of everything that this program is built of (make licenses).
//
//go:embed licenses.txt.gz
var licenses []byte

func (a *app) versionCommand() *cobra.Command {
	var terms bool
	c := &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if terms {
				z, err := gzip.NewReader(bytes.NewReader(licenses))
				if err == nil {
					_, err = io.Copy(a.Out, z)
				}
				return err
			}
			if a.json {
				a.printJSON(map[string]string{"version": Version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
				return nil
			}
			fmt.Fprintf(a.Out, "holdpoint %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}}
	c.Flags().BoolVar(&terms, "licenses", false, "print the terms of everything that this program is built of")
	return c
}
