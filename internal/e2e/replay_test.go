package e2e

import (
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "modernc.org/sqlite"
)

// replay runs the command against a state, live or not, and gives its answer.
func (d *daemon) replay(args ...string) (int, M, string) {
	d.t.Helper()
	status, out, errs := d.cli(append([]string{"replay", "--json"}, args...)...)
	var got M
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		d.t.Fatalf("replay ended with %d: %q %q", status, out, errs)
	}
	return status, got, errs
}

// alter changes one value of a copied database, past its triggers.
func alter(t *testing.T, state, table, set, id string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(state, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var trigger string
	if err := db.QueryRow("SELECT sql FROM sqlite_schema WHERE name = ?", table+"_terms").Scan(&trigger); err != nil {
		t.Fatal(err)
	}
	// The schema is put back in its place, as a careful hand would, by editing it around.
	for _, q := range []string{"PRAGMA writable_schema = ON", "UPDATE sqlite_schema SET sql = replace(sql, 'BEFORE UPDATE', 'BEFORE UPDATE OF seq') WHERE name = '" + table + "_terms'", "PRAGMA writable_schema = RESET"} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	if r, err := db.Exec("UPDATE " + table + " SET " + set + " WHERE id = '" + id + "'"); err != nil {
		t.Fatal(err)
	} else if n, _ := r.RowsAffected(); n != 1 {
		t.Fatalf("%d rows of %s altered", n, id)
	}
	if _, err := db.Exec("PRAGMA writable_schema = ON"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE sqlite_schema SET sql = ? WHERE name = ?", trigger, table+"_terms"); err != nil {
		t.Fatal(err)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	d := start(t, "--allow-yolo")
	for _, f := range []string{"a.txt", "b.txt", "c.txt", "d.txt"} {
		write(t, filepath.Join(d.Root, f), "one\n")
	}
	edit := func(file, from, to string) M {
		return d.call("edit_file", M{"path": file, "old_string": from, "new_string": to})
	}
	// A day in short: small changes, an undo, cards with each answer, a grant, yolo, a batch.
	small := must(t, edit("a.txt", "one", "two"), "done")
	must(t, d.undo(must(t, edit("b.txt", "one", "two"), "done")), "done")
	released := d.call("delete_file", M{"path": "b.txt"})
	must(t, d.approve(released), "done")
	rejected := d.call("delete_file", M{"path": "c.txt"})
	d.answer(rejected, "reject", "no")
	waiting := must(t, d.call("delete_file", M{"path": "d.txt"}), "review")
	_, status := d.http("GET", "/v1/status", d.Agent, nil)
	key := text(list(status["roots"])[0].(M), "key")
	_, grant := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "agent", "scope": "project", "root": key, "operations": []string{"write_file"}, "count": 9})
	granted := must(t, d.call("write_file", M{"path": "c.txt", "content": "three\n"}), "done")
	if text(granted, "decision", "grant_id") != text(grant, "id") {
		t.Fatalf("got %v", granted)
	}
	d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "yolo", "confirm": true})
	inYolo := must(t, d.call("delete_file", M{"path": "c.txt"}), "done")
	d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "deny"})
	must(t, d.call("view_file", M{"path": "a.txt"}), "review")
	must(t, d.call("batch_file_ops", M{"operations": []M{{"op": "write_file", "args": M{"path": "e.txt", "content": "x"}}, {"op": "write_file", "args": M{"path": "f.txt", "content": "x"}}}}), "review")

	t.Run("X60, X61 replay asks nobody, does nothing and gives the same twice, whatever the mode is now", func(t *testing.T) {
		tree := digest(t, d.Root)
		_, before := d.http("GET", "/v1/approvals", d.reviewer(), nil)
		status, first, errs := d.replay()
		if status != 0 || len(list(first["findings"])) > 0 {
			t.Fatalf("got %d %v %s", status, first["findings"], errs)
		}
		d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "prompt"}) // recorded in yolo and deny, replayed in prompt
		_, second, _ := d.replay()
		for _, part := range []string{"operations", "approvals", "judged", "carried", "decisions", "queue", "waiting", "rules", "findings"} {
			if !equal(first[part], second[part]) {
				t.Errorf("%s: first %v, then %v", part, first[part], second[part])
			}
		}
		_, after := d.http("GET", "/v1/approvals", d.reviewer(), nil)
		if !equal(before, after) || digest(t, d.Root) != tree {
			t.Error("a replay left something behind")
		}
		// Six changes, five judged and one under its card; five cards, each judged.
		if first["operations"] != 6.0 || first["approvals"] != 5.0 || first["judged"] != 10.0 || first["carried"] != 1.0 || first["unjudged"] != 0.0 {
			t.Errorf("got %v", first)
		}
		if queue, _ := first["queue"].(M); queue["pending"] != 3.0 || queue["executed"] != 1.0 || queue["rejected"] != 1.0 {
			t.Errorf("queue: %v", queue)
		}
		if w := list(first["waiting"]); len(w) != 3 || w[0] != text(waiting, "approval", "id") {
			t.Errorf("waiting: %v", w)
		}
		if m := list(first["modes"]); len(m) != 1 || text(m[0].(M), "mode") != "deny" {
			t.Errorf("modes: %v", m)
		}
		if m := list(second["modes"]); len(m) != 1 || text(m[0].(M), "mode") != "prompt" {
			t.Errorf("modes: %v", m)
		}
	})
	t.Run("X28 grants rebuilt from the record are the live ones, with their uses", func(t *testing.T) {
		_, got, _ := d.replay()
		_, live := d.http("GET", "/v1/rules", d.reviewer(), nil)
		rules := list(got["rules"])
		if len(rules) != 1 || text(rules[0].(M), "id") != text(grant, "id") || rules[0].(M)["used"] != 1.0 || rules[0].(M)["carried"] != 1.0 {
			t.Errorf("got %v", rules)
		}
		n := 0
		for _, r := range list(live["rules"]) {
			if text(r.(M), "kind") == "grant" {
				n++
			}
		}
		if n != len(rules) {
			t.Errorf("live: %v", live)
		}
	})
	t.Run("an agent's token may not replay", func(t *testing.T) {
		if status, out := d.http("GET", "/v1/replay", d.Agent, nil); status != 403 {
			t.Errorf("got %d %v", status, out)
		}
	})

	d.stop(syscall.SIGTERM)
	copied := func(t *testing.T) string {
		to := filepath.Join(shortDir(t), "state")
		if out, err := exec.Command("cp", "-a", d.State, to).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		return to
	}
	t.Run("S97 (part) one altered verdict in a copy of the journal is found at that record", func(t *testing.T) {
		for _, c := range []struct{ table, id, set string }{
			{"operations", text(small, "operation_id"), `decision = replace(decision, '"low_impact_scoped_change"', '"granted"')`},
			{"operations", text(inYolo, "operation_id"), `decision = replace(decision, '"auto"', '"review"')`},
			{"approvals", text(rejected, "approval", "id"), `decision = replace(decision, '"review"', '"auto"')`},
		} {
			state := copied(t)
			alter(t, state, c.table, c.set, c.id)
			status, got, errs := d.replay("--state", state, "--socket", filepath.Join(state, "none.sock"))
			if status != 1 || !strings.Contains(errs, c.id) {
				t.Errorf("%s: ended with %d, %q", c.id, status, errs)
			}
			codes := map[string]bool{}
			for _, f := range list(got["findings"]) {
				if text(f.(M), "record") != c.id {
					t.Errorf("%s: also found %v", c.id, f)
				}
				codes[text(f.(M), "code")] = true
			}
			if !codes["altered"] || !codes["verdict"] {
				t.Errorf("%s: got %v", c.id, got["findings"])
			}
		}
	})
	t.Run("one altered row of the decision table is found at that row", func(t *testing.T) {
		table, err := os.ReadFile("../../testdata/decisions/decision-table.json")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(shortDir(t), "table.json")
		var rows []M
		if err := json.Unmarshal(table, &rows); err != nil {
			t.Fatal(err)
		}
		altered := ""
		for _, r := range rows {
			if want, _ := r["want"].(M); altered == "" && want["verdict"] == "auto" && want["reason"] == "low_impact_scoped_change" {
				want["verdict"], want["reason"], altered = "review", "overwrite", text(r, "name")
			}
		}
		enc, _ := json.Marshal(rows)
		write(t, file, string(enc))
		state := copied(t)
		if status, got, errs := d.replay("--state", state, "--socket", filepath.Join(state, "none.sock"), "--table", "../../testdata/decisions/decision-table.json"); status != 0 || got["rows"].(float64) < 146 {
			t.Errorf("the table as it is: %d %v %s", status, got["findings"], errs)
		}
		status, got, errs := d.replay("--state", state, "--socket", filepath.Join(state, "none.sock"), "--table", file)
		found := list(got["findings"])
		if status != 1 || len(found) != 1 || text(found[0].(M), "record") != altered || text(found[0].(M), "kind") != "row" || !strings.Contains(errs, altered) {
			t.Errorf("got %d %v %q, want only %q", status, found, errs, altered)
		}
	})
}

// list is a JSON list, none when it is something else.
func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func equal(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}
