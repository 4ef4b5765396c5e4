//go:build !linux

package main

import (
	"context"

	"github.com/spf13/cobra"
)

// probeKernel has nothing to ask: serve needs Linux.
func probeKernel(context.Context, string) []probe { return nil }

func doctorTryCommand(*app) *cobra.Command { return &cobra.Command{Use: "try", Hidden: true} }
