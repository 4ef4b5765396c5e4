// Command reads measures what agents do most beside the programs that are best at it: the
// same work on the same files in one run, alternating, as ratios of the best times, on
// the wall and of the processors: on a machine that others use as well the second is the one
// to compare. It uses the engine's own functions in this process, without a daemon between.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"holdpoint/fileops"
	"holdpoint/internal/flow"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// row is one comparison: ours and theirs, for one goal.
type row struct {
	name   string
	goal   float64 // ours at most this many times theirs; 0 is no goal
	ours   func() (string, error)
	theirs []string // a command line; $T is the tree
}

func main() {
	dir := flag.String("dir", "", "where the tree is or will be made; a directory of its own, not removed")
	files := flag.Int("files", 200_000, "files of the tree")
	big := flag.Int64("big", 1<<30, "bytes of the large file")
	rounds := flag.Int("rounds", 5, "times each row is run")
	only := flag.String("only", "", "only rows whose name holds this")
	profile := flag.String("profile", "", "write a profile of the processors' time to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "reads:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	if err := run(*dir, *files, *big, *rounds, *only); err != nil {
		fmt.Fprintln(os.Stderr, "reads:", err)
		os.Exit(1)
	}
}

func run(dir string, files int, big int64, rounds int, only string) error {
	if dir == "" {
		return fmt.Errorf("name a directory with -dir")
	}
	tree := filepath.Join(dir, "tree")
	if err := prepare(dir, files, big); err != nil {
		return err
	}
	rows, err := rowsOf(dir, tree)
	if err != nil {
		return err
	}
	git, err := gitRows(dir)
	if err != nil {
		return err
	}
	rows = append(rows, git...)
	fmt.Printf("%d cores, %d files; best of %d, ours and theirs in turn\n\n", runtime.NumCPU(), files, rounds)
	fmt.Printf("%-40s %9s %9s %6s %9s %9s %6s %5s  %s\n", "work", "ours ms", "theirs ms", "ratio", "cpu ms", "theirs", "ratio", "goal", "ours found; theirs is")
	for _, r := range rows {
		if only != "" && !strings.Contains(r.name, only) {
			continue
		}
		if err := r.measure(tree, rounds); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	fmt.Printf("\npeak memory of this process: %d MiB\n", peak())
	return nil
}

func (r row) measure(tree string, rounds int) error {
	best := [2]time.Duration{1 << 62, 1 << 62}
	spent := best // of the processor
	var note string
	for range rounds {
		begin, used := time.Now(), cpu()
		n, err := r.ours()
		if err != nil {
			return err
		}
		best[0], spent[0], note = min(best[0], time.Since(begin)), min(spent[0], cpu()-used), n
		cmd := exec.Command(r.theirs[0], r.theirs[1:]...)
		cmd.Dir = tree
		begin = time.Now()
		out, err := cmd.Output()
		best[1] = min(best[1], time.Since(begin))
		if s := cmd.ProcessState; s != nil {
			spent[1] = min(spent[1], s.UserTime()+s.SystemTime())
		}
		if exit, ok := err.(*exec.ExitError); err != nil && !(ok && exit.ExitCode() == 1 && len(out) == 0) {
			return fmt.Errorf("%s: %w", strings.Join(r.theirs, " "), err)
		}
	}
	goal := "-"
	if r.goal > 0 {
		goal = fmt.Sprintf("%.1f", r.goal)
	}
	fmt.Printf("%-40s %9.1f %9.1f %6.2f %9.1f %9.1f %6.2f %5s  %s; %s\n", r.name, ms(best[0]), ms(best[1]), float64(best[0])/float64(best[1]),
		ms(spent[0]), ms(spent[1]), float64(spent[0])/float64(spent[1]), goal, note, brief(strings.Join(r.theirs, " ")))
	return nil
}

// cpu is the time that this process has used of the processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func brief(s string) string {
	if len(s) > 72 {
		return s[:72] + " ..."
	}
	return s
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// peak is the most memory that was resident, in MiB.
func peak() int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib >> 10
		}
	}
	return 0
}

// workspace answers reads as the daemon does, less the decision and the wire.
type workspace struct{ root *rooted.Root }

func (w workspace) read(args any, at string) (map[string]any, error) {
	ctx := context.Background()
	n, err := w.root.Look(ctx, op.Path(at), true)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	t := op.Target{Path: n.Path, Kind: n.Info.Kind, Exists: n.Info.Kind != op.Absent, Size: n.Info.Size}
	return fileops.Read(ctx, fileops.Scene{Args: args, Nodes: []*rooted.Node{n}, Targets: []op.Target{t}, Contents: [][]byte{nil}, Root: w.root, Rules: flow.IgnoreRules()})
}
