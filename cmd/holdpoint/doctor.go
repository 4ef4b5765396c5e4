package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"holdpoint/internal/rooted"
)

// probe is one row of doctor: what was tried here, and what came of it.
type probe struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	For    string `json:"for"` // what it matters for
}

func doctorCommand(a *app) *cobra.Command {
	var root string
	var attack bool
	c := &cobra.Command{Use: "doctor", Short: "Say what this machine offers, each row probed", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if attack {
				return a.doctorAttack(c.Context())
			}
			return a.doctor(c.Context(), root)
		}}
	c.Flags().BoolVar(&attack, "attack", false, "try each protected pattern in a scratch workspace, in every way; ends with 1 when anything got through")
	c.Flags().StringVar(&root, "root", ".", "the workspace whose filesystem is probed; nothing in it is changed")
	c.AddCommand(doctorTryCommand(a))
	return c
}

// probes tries things in a private folder of the state's filesystem and beside the
// workspace, never inside it.
func (a *app) probes(ctx context.Context, dir string) []probe {
	rows := []probe{{"platform", runtime.GOOS == "linux", runtime.GOOS + "/" + runtime.GOARCH, "serve needs Linux"}}
	rows = append(rows, a.probeFiles(dir)...)
	if scratch, err := os.MkdirTemp("", "holdpoint-doctor"); err != nil {
		rows = append(rows, probe{"scratch folder", false, err.Error(), "nothing of the kernel can be tried without one"})
	} else {
		rows = append(rows, probeKernel(ctx, scratch)...)
		os.RemoveAll(scratch)
	}
	return append(rows, a.probeState())
}

func (a *app) doctor(ctx context.Context, dir string) error {
	rows := a.probes(ctx, dir)
	if a.json {
		a.printJSON(map[string]any{"version": Version(), "probes": rows})
		return nil
	}
	for _, r := range rows {
		mark := "no "
		if r.OK {
			mark = "yes"
		}
		fmt.Fprintf(a.Out, "%s  %-22s %s\n     %-22s %s\n", mark, r.Name, line(r.Detail), "", r.For)
	}
	return nil
}

// probeFiles opens the workspace as serve would and asks the filesystem of its store.
func (a *app) probeFiles(dir string) []probe {
	root, err := rooted.Open(dir, rooted.Options{})
	if err != nil {
		return []probe{{"workspace", false, err.Error(), "nothing works without it"}}
	}
	defer root.Close()
	rows := []probe{{"workspace", true, root.Dir(), "canonical directory"},
		{"openat2", root.Openat2(), "strict resolution in the kernel", "race-free paths; else our own walk, by handle one name at a time, with a mount check at each"}}
	return append(rows, a.probeStores(root)...)
}

// probeStores opens a store in each place that serve would take, in its order, and ends at
// the first that a rename reaches. What is made for it goes again.
func (a *app) probeStores(root *rooted.Root) []probe {
	var rows []probe
	for i, where := range []string{StatePath(a.state, a.Env), filepath.Dir(root.Dir())} {
		at := []string{"state directory", "beside the root"}[i]
		found := storeIn(where, at, root)
		if rows = append(rows, found...); rows[len(rows)-1].OK {
			return rows
		}
	}
	copies := probe{"store of copies", false, "the state directory cannot be written", "old versions are copied to the state directory, and an undo copies them back"}
	if s, err := os.MkdirTemp(existing(StatePath(a.state, a.Env)), ".holdpoint-doctor"); err == nil {
		os.RemoveAll(s)
		copies.OK, copies.Detail = true, "nothing of ours is on the workspace's mount; serve tries the workspace itself when it starts"
	}
	return append(rows, copies)
}

// existing gives a place, or the nearest folder above it that is there.
func existing(place string) string {
	for place != filepath.Dir(place) {
		if _, err := os.Stat(place); err == nil {
			break
		}
		place = filepath.Dir(place)
	}
	return place
}

// storeIn tries a store in a folder that is made for it and removed again. Where the place
// itself is not there yet, the nearest folder above it stands for it.
func storeIn(where, at string, root *rooted.Root) []probe {
	refused := func(err error) []probe {
		return []probe{{"store " + at, false, err.Error(), "a store must be reachable by rename"}}
	}
	tmp, err := os.MkdirTemp(existing(where), ".holdpoint-doctor")
	if err != nil {
		return refused(err)
	}
	defer os.RemoveAll(tmp)
	s, err := rooted.OpenStore(filepath.Join(tmp, "store"), root)
	if err != nil {
		return refused(err)
	}
	defer s.Close()
	f := s.Features()
	return []probe{
		{"exchange", f.Exchange, "renameat2 RENAME_EXCHANGE", "compare-and-swap writes; without it nothing is changed"},
		{"lease", f.Lease, "F_SETLEASE", "notices writers; else a copy of each old version is kept"},
		{"reflink", f.Reflink, "FICLONE", "copies that share blocks; else bytes are copied"},
		{"nameless files", f.TmpFile, "O_TMPFILE", "staging without a name"},
		{"store " + at, true, "on the workspace's mount", "old versions are kept by rename, without a copy"},
	}
}

func (a *app) probeState() probe {
	dir := StatePath(a.state, a.Env)
	p := probe{Name: "reviewer", Detail: "no state yet", For: "without a passphrase or token nobody can answer"}
	if _, err := os.Stat(filepath.Join(dir, "journal.db")); err == nil {
		p.OK, p.Detail = true, "state in "+dir
	}
	if _, err := os.Stat(filepath.Join(dir, "tokens", "operator")); err == nil {
		p.OK, p.Detail = false, "review-auth is token: programs of the same user can approve"
	}
	return p
}

// firstWord gives the first word of a small file of the kernel; empty when unreadable.
func firstWord(file string) string {
	b, err := readSmall(file)
	if err != nil {
		return ""
	}
	w, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return w
}
