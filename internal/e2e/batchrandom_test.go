package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestBatchRandom makes random batches and compares each with its items done one by one:
// the same tree where all of them succeed, nothing at all where one fails. HOLDPOINT_BATCHES
// says how many.
func TestBatchRandom(t *testing.T) {
	t.Parallel()
	seed, n := seedOf(t), 60
	if v, err := strconv.Atoi(os.Getenv("HOLDPOINT_BATCHES")); err == nil {
		n = v
	}
	conf := filepath.Join(t.TempDir(), "c.toml")
	write(t, conf, "[profiles.default]\nrequire_approval = false\n")
	d := start(t, "--config", conf, "--review-auth=token")
	d.reviewerToken = strings.TrimSpace(read(t, filepath.Join(d.State, "tokens", "operator")))
	rng := rand.New(rand.NewPCG(seed, 3))
	whole, failed, declined := 0, 0, map[string]int{}
	run := func(op string, args M) M {
		r := d.call(op, args)
		if r["status"] == "review" {
			r = d.approve(r)
		}
		return r
	}
	for i := range n {
		plant(d)
		before := digest(t, d.Root)
		var first M
		var items []M
		breaks := rng.IntN(5) == 0 // whether an item that fails stays in
		for _, it := range randomItems(rng) {
			r := run(it["op"].(string), it["args"].(M))
			if r["status"] == "done" || breaks {
				items = append(items, it)
			}
			if r["status"] != "done" && breaks {
				first = r
				break
			}
		}
		if len(items) == 0 {
			continue
		}
		want := digest(t, d.Root)
		plant(d)
		if digest(t, d.Root) != before {
			t.Fatal("the tree is not planted the same twice")
		}
		r := run("batch_file_ops", M{"operations": items})
		text_, _ := json.Marshal(items)
		fail := func(what string) {
			t.Fatalf("seed %d, batch %d: %s\nitems %s\none by one: %v\nas a batch: %v %v", seed, i, what, text_, first["error"], r["status"], r["error"])
		}
		switch {
		case code(r) == "not_available":
			declined[text(r, "error", "message")]++
			if digest(t, d.Root) != before {
				fail("declined, and something changed")
			}
		case first == nil && r["status"] != "done":
			fail("one by one all succeed")
		case first != nil && r["status"] == "done":
			fail("one by one an item fails")
		case first != nil:
			if failed++; digest(t, d.Root) != before {
				fail("it failed, and something changed")
			}
			if code(r) != code(first) && !slices.Contains([]string{"not_found", "not_a_directory", "not_a_file", "exists", "outside_workspace", "symlink_refused", "into_itself"}, code(r)) {
				fail("another error")
			}
		default:
			if whole++; digest(t, d.Root) != want {
				fail("the trees differ: " + fmt.Sprint(pathsBelow(d.Root)))
			}
			if r["undo_credential"] != nil {
				if u := run("undo", M{"credential": r["undo_credential"]}); u["status"] != "done" || digest(t, d.Root) != before {
					fail(fmt.Sprintf("its undo: %v, %v", u["error"], pathsBelow(d.Root)))
				}
			}
		}
	}
	t.Logf("%d batches whole and undone, %d with an item that fails, declined: %v", whole, failed, declined)
	if whole < n/5 || failed < n/20 {
		t.Error("hardly anything was compared")
	}
}

// plant makes the same small tree again, with directories, links and modes.
func plant(d *daemon) {
	d.t.Helper()
	d.fresh(map[string]string{"a": "one\n", "b": "two\n", "d/x": "ex\n", "d/y": "why\n", "d/s/z": "zed\n", "e/w": "double\n"})
	for link, to := range map[string]string{"l": "d", "e/m": "../d/s", "d/up": "../a"} {
		if err := os.Symlink(to, filepath.Join(d.Root, link)); err != nil {
			d.t.Fatal(err)
		}
	}
	os.Chmod(filepath.Join(d.Root, "d/x"), 0o755)
	os.Chmod(filepath.Join(d.Root, "b"), 0o600)
}

func pathsBelow(root string) []string {
	var out []string
	filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(root, p)
		out = append(out, rel)
		return err
	})
	return out
}

// randomItems makes a few operations that are likely to meet.
func randomItems(rng *rand.Rand) []M {
	paths := []string{"a", "b", "c", "d", "d/x", "d/y", "d/s", "d/s/z", "e", "e/w", "e/d", "l", "l/x", "e/m", "e/m/z", "d/up", "f", "f/g", "f/x", "f/s/z", "e/x"}
	pick := func() string { return paths[rng.IntN(len(paths))] }
	var items []M
	for range 3 + rng.IntN(15) {
		switch rng.IntN(10) {
		case 0, 1:
			items = append(items, item("write_file", M{"path": pick(), "content": fmt.Sprintf("w%d\n", rng.IntN(9))}))
		case 2:
			items = append(items, item("edit_file", M{"path": pick(), "old_string": "\n", "new_string": "!\n"}))
		case 3, 4:
			items = append(items, item("delete_file", M{"path": pick(), "recursive": true}))
		case 5, 6, 7:
			items = append(items, item("move_file", M{"source": pick(), "destination": pick()}))
		case 8:
			items = append(items, item("copy_file", M{"source": pick(), "destination": pick()}))
		case 9:
			items = append(items, item("create_directory", M{"path": pick()}))
		}
	}
	return items
}
