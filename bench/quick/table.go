package main

import (
	"fmt"

	"holdpoint/bench/drive"
)

// goals are the ratios of the medians to aim at: row, ours, against whom, at most.
var goals = []struct {
	row, ours, against string
	most               float64
}{
	{"view 4 KiB", "holdpoint", "fs", 0.25},
	{"view 4 KiB", "holdpoint-mcp", "fs", 0.8},
	{"view 200 KiB", "holdpoint", "fs", 0.4},
	{"view 200 KiB", "holdpoint-mcp", "fs", 1.0},
	{"edit 4 KiB", "holdpoint", "fs", 1.2},
	{"edit 4 KiB", "holdpoint-mcp", "fs", 1.2},
	{"edit 40 KiB", "holdpoint", "fs", 0.9},
	{"edit 40 KiB", "holdpoint-mcp", "fs", 0.9},
	{"edit 4 KiB", "holdpoint", "raw", 2.0},
	{"facts of 1 file", "holdpoint", "fs", 1.0},
	{"start", "holdpoint", "fs", 0.1},
}

func (b *bench) print(peers []drive.Peer) {
	rows := []string{"start", "empty request", "view 4 KiB", "view 200 KiB", "facts of 1 file", "edit 4 KiB", "edit 40 KiB", "fsync of 200 bytes"}
	names := []string{"disk"}
	for _, p := range peers {
		names = append(names, p.Name())
	}
	fmt.Printf("\n%-20s", "p50 (min, p99)")
	for _, n := range names {
		fmt.Printf("%-30s", n)
	}
	fmt.Println()
	for _, r := range rows {
		fmt.Printf("%-20s", r)
		for _, n := range names {
			s := b.times[r][n]
			if len(s) == 0 {
				fmt.Printf("%-30s", "-")
				continue
			}
			fmt.Printf("%-30s", fmt.Sprintf("%s (%s, %s)", drive.US(s.At(0.5)), drive.US(s.At(0)), drive.US(s.At(0.99))))
		}
		fmt.Println()
	}
	fmt.Println("\nratios of medians in this run")
	for _, g := range goals {
		ours, theirs := b.times[g.row][g.ours], b.times[g.row][g.against]
		if len(ours) == 0 || len(theirs) == 0 {
			continue
		}
		ratio := ours.At(0.5) / theirs.At(0.5)
		met := "met"
		if ratio > g.most {
			met = "not met"
		}
		fmt.Printf("  %-18s %-14s / %-4s  %6.2f   aim %.2f  %s\n", g.row, g.ours, g.against, ratio, g.most, met)
	}
	edit, raw := b.times["edit 4 KiB"]["holdpoint"], b.times["edit 4 KiB"]["raw"]
	if len(edit) > 0 && len(raw) > 0 {
		fmt.Printf("  what undo, decision, record and transport add to a durable replace: %s\n", drive.US(edit.At(0.5)-raw.At(0.5)))
	}
}
