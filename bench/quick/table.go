package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
)

// samples are microseconds.
type samples []float64

func (s samples) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	v := append(samples(nil), s...)
	sort.Float64s(v)
	return v[min(len(v)-1, int(q*float64(len(v))))]
}

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

func (b *bench) print(peers []peer) {
	rows := []string{"start", "empty request", "view 4 KiB", "view 200 KiB", "facts of 1 file", "edit 4 KiB", "edit 40 KiB", "fsync of 200 bytes"}
	names := []string{"disk"}
	for _, p := range peers {
		names = append(names, p.name())
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
			fmt.Printf("%-30s", fmt.Sprintf("%s (%s, %s)", us(s.at(0.5)), us(s.at(0)), us(s.at(0.99))))
		}
		fmt.Println()
	}
	fmt.Println("\nratios of medians in this run")
	for _, g := range goals {
		ours, theirs := b.times[g.row][g.ours], b.times[g.row][g.against]
		if len(ours) == 0 || len(theirs) == 0 {
			continue
		}
		ratio := ours.at(0.5) / theirs.at(0.5)
		met := "met"
		if ratio > g.most {
			met = "not met"
		}
		fmt.Printf("  %-18s %-14s / %-4s  %6.2f   aim %.2f  %s\n", g.row, g.ours, g.against, ratio, g.most, met)
	}
	edit, raw := b.times["edit 4 KiB"]["holdpoint"], b.times["edit 4 KiB"]["raw"]
	if len(edit) > 0 && len(raw) > 0 {
		fmt.Printf("  what undo, decision, record and transport add to a durable replace: %s\n", us(edit.at(0.5)-raw.at(0.5)))
	}
}

func us(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fs", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.2fms", v/1e3)
	}
	return fmt.Sprintf("%.0fus", v)
}

func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(b))[0]
}
