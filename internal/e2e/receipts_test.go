package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
)

// TestReceipts compares what replies say was changed with what stands on the disk.
func TestReceipts(t *testing.T) {
	t.Parallel()
	d := quick(t, "")
	at := func(p string) string { return filepath.Join(d.Root, p) }
	t.Run("C145 when item 3 of 5 fails the reply still has the receipts of the others, each with the hash that is on the disk", func(t *testing.T) {
		var items []any
		for i := range 5 {
			p := fmt.Sprintf("r%d", i+1)
			write(t, at(p), "one\n")
			old := "one"
			if i == 2 {
				old = "nowhere"
			}
			items = append(items, item("edit_file", M{"path": p, "old_string": old, "new_string": fmt.Sprint("two ", i)}))
		}
		r := must(t, d.yes("batch_file_ops", M{"atomic": false, "operations": items}), "done")
		if r["effects_executed"] != true {
			t.Errorf("effects_executed: %v", r["effects_executed"])
		}
		receipts := map[string]string{}
		for _, e := range objects(r["effects"]) {
			receipts[text(e, "path")] = text(e, "after", "hash")
		}
		list := objects(object(r["result"])["items"])
		for i := range 5 {
			p := fmt.Sprintf("r%d", i+1)
			if i == 2 {
				if text(list[i], "status") != "failed" || code(list[i]) != "no_match" || receipts[p] != "" {
					t.Errorf("item 3: %v, receipt %q", list[i], receipts[p])
				}
				continue
			}
			if text(list[i], "status") != "done" || receipts[p] != hashOf(read(t, at(p))) || text(list[i], "result", "hash") != receipts[p] {
				t.Errorf("item %d: %v, receipt %q", i+1, list[i], receipts[p])
			}
			must(t, d.undo(list[i]), "done")
		}
		// All or nothing: no receipt of anything.
		r = d.yes("batch_file_ops", M{"operations": items})
		if code(r) != "no_match" || len(objects(r["effects"])) != 0 || r["effects_executed"] == true {
			t.Errorf("atomic: %v %v", r["error"], r["effects"])
		}
	})
}
