package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// maxReadsMemory bounds what the daemon may ever hold, whatever is read, in MiB. The race
// detector takes several times as much.
const maxReadsMemory = 200

// TestReadsMemory reads all that can be read, and looks what the daemon took for it. With
// the tree of 200,000 files it is the figure that is promised; without, a slice of it.
func TestReadsMemory(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	in := func(p string) string { return filepath.Join(root, p) }
	many, size := 1000, int64(64<<20)
	if large := os.Getenv(readsKnob); large != "" {
		output(t, "", "cp", "-a", filepath.Join(large, "tree"), in("tree"))
		output(t, "", "cp", "-a", filepath.Join(large, "repo"), in("repo"))
		many, size = 10_000, 4<<30
	} else {
		smallRepo(t, in("repo"))
	}
	var paths []string
	for i := range many {
		p := fmt.Sprintf("tree/many/m%d/f%d", i%100, i)
		write(t, in(p), fmt.Sprintf("line of %d\nreturn\n", i))
		paths = append(paths, p)
	}
	write(t, in("huge"), "first\n")
	if err := os.Truncate(in("huge"), size); err != nil {
		t.Fatal(err)
	}
	d := startOn(t, root, state, nil, "--review-auth", "token") // the hash of a passphrase takes 64 MiB for a moment
	idle := resident(t, d.cmd.Process.Pid, "VmHWM")
	pages := func(name string, args M) {
		for {
			r := object(must(t, d.call(name, args), "done")["result"])
			next := text(r, "next")
			if args["page"] = next; next == "" {
				return
			}
		}
	}
	d.changes(t, "", "")
	pages("file_tree", M{"page_size": 10_000, "show_hidden": true, "include_ignored": true, "stats": false, "timeout_ms": 60_000})
	pages("search_files", M{"pattern": "return", "mode": "count", "max_results": 1000, "timeout_ms": 60_000})
	must(t, d.call("search_files", M{"pattern": `(?s)line.*return`, "regex": true, "multiline": true, "path": "tree/many"}), "done")
	must(t, d.call("search_files", M{"pattern": "nowhere", "path": "huge", "timeout_ms": 60_000}), "done")
	must(t, d.call("view_file", M{"path": "huge", "offset": size / 2, "limit": 1 << 20}), "done")
	must(t, d.call("view_file", M{"path": "huge", "tail_lines": 5}), "done")
	must(t, d.call("file_info", M{"path": "huge"}), "done")
	must(t, d.call("git_status", M{"path": "repo"}), "done")
	must(t, d.call("git_log", M{"path": "repo"}), "done")
	for range 2 {
		if status, out := d.http("POST", "/v1/preflight", d.Agent, M{"paths": paths}); status != 200 {
			t.Fatalf("preflight: %d %v", status, out["error"])
		}
	}
	peak := resident(t, d.cmd.Process.Pid, "VmHWM")
	t.Logf("memory: %d MiB idle, %d MiB at most", idle>>20, peak>>20)
	if peak>>20 > maxReadsMemory && !raceEnabled {
		t.Errorf("%d MiB", peak>>20)
	}
}
