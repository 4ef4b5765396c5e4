package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// move names one item of a batch.
func move(from, to string) M { return item("move_file", M{"source": from, "destination": to}) }

// TestBatchPlaces has directories change places in one batch, and builds on a file that the
// same batch rolls back.
func TestBatchPlaces(t *testing.T) {
	t.Parallel()
	conf := filepath.Join(t.TempDir(), "c.toml")
	write(t, conf, "[profiles.default]\nrequire_approval = false\n")
	d := start(t, "--config", conf, "--review-auth=token")
	d.operator()
	tree := map[string]string{"d/x": "ex\n", "d/s/z": "zed\n", "e/w": "double\n", "f/v": "vee\n", "p/q/r": "are\n"}
	for _, c := range []struct {
		name  string
		want  map[string]string
		items []M
	}{
		{"two directories change places", map[string]string{"e/x": "ex\n", "e/s/z": "zed\n", "d/w": "double\n", "f/v": "vee\n", "p/q/r": "are\n"},
			[]M{move("d", "t"), move("e", "d"), move("t", "e")}},
		{"three go round", map[string]string{"e/x": "ex\n", "e/s/z": "zed\n", "f/w": "double\n", "d/v": "vee\n", "p/q/r": "are\n"},
			[]M{move("f", "t"), move("e", "f"), move("d", "e"), move("t", "d")}},
		{"they are changed inside as well", map[string]string{"e/x": "EX\n", "e/s/n": "new\n", "d/w": "double\n", "zed": "zed\n", "f/v": "vee\n", "p/q/r": "are\n"},
			[]M{item("edit_file", M{"path": "d/x", "old_string": "ex", "new_string": "EX"}), move("d", "t"), move("e", "d"), move("t", "e"),
				move("e/s/z", "zed"), item("write_file", M{"path": "e/s/n", "content": "new\n"})}},
		{"an inner one and its outer one change places", map[string]string{"p/r": "are\n", "p/q/side": "s\n", "d/x": "ex\n", "d/s/z": "zed\n", "e/w": "double\n", "f/v": "vee\n"},
			[]M{item("write_file", M{"path": "p/side", "content": "s\n"}), move("p/q", "t"), move("p", "u"), move("t", "p"), move("u", "p/q")}},
		{"a file and a directory change places", map[string]string{"d": "double\n", "e/w/x": "ex\n", "e/w/s/z": "zed\n", "f/v": "vee\n", "p/q/r": "are\n"},
			[]M{move("e/w", "t"), move("d", "e/w"), move("t", "d")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func(was testing.TB) { d.t = was }(d.t)
			d.t = t
			r := d.whole(d.fresh(tree), c.want, c.items...)
			if s := fmt.Sprint(r["effects"]); strings.Contains(s, ".holdpoint-aside") {
				t.Errorf("the receipt names the way: %s", s)
			}
		})
	}
	t.Run("a file that is rolled back is edited, copied and moved in the same batch", func(t *testing.T) {
		defer func(was testing.TB) { d.t = was }(d.t)
		d.t = t
		d.fresh(map[string]string{"a": "one\ntwo\n"})
		if err := os.Chmod(filepath.Join(d.Root, "a"), 0o751); err != nil {
			t.Fatal(err)
		}
		b := must(t, d.yes("backup_file", M{"path": "a"}), "done")
		write(t, filepath.Join(d.Root, "a"), "other\n")
		back := item("rollback_file", M{"path": "a", "backup_id": text(b, "result", "backup_id")})
		before := digest(t, d.Root)
		edit := item("edit_file", M{"path": "a", "old_string": "two", "new_string": "TWO"})
		d.whole(before, map[string]string{"a": "one\nTWO\n"}, back, edit)
		d.whole(before, map[string]string{"a": "one\ntwo\n", "k": "one\ntwo\n"}, back, item("copy_file", M{"source": "a", "destination": "k"}))
		d.whole(before, map[string]string{"m": "one\nTWO\n"}, back, edit, move("a", "m"))
		r := must(t, d.yes("batch_file_ops", M{"operations": []any{back, edit, item("view_file", M{"path": "a"})}}), "done")
		if got := stat(t, filepath.Join(d.Root, "a")).Mode().Perm(); got != 0o751 {
			t.Errorf("mode %o", got)
		}
		if got := text(objects(object(r["result"])["items"])[2], "result", "content"); got != "one\nTWO\n" {
			t.Errorf("seen in the batch: %q", got)
		}
	})
}
