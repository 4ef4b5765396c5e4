package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// said gives the data of the newest event of a type.
func (d *daemon) said(t *testing.T, kind string) M {
	t.Helper()
	var out M
	for _, e := range d.events(t, d.reviewer(), 0) {
		if text(e, "type") == kind {
			out, _ = e["data"].(M)
		}
	}
	return out
}

func TestRulesMore(t *testing.T) {
	t.Parallel()
	second := filepath.Join(shortDir(t), "other")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--allow-yolo", "--root", second)
	for _, dir := range []string{d.Root, second} {
		write(t, filepath.Join(dir, "a.txt"), "one\n")
		write(t, filepath.Join(dir, "b.txt"), "one\n")
	}
	_, status := d.http("GET", "/v1/status", d.Agent, nil)
	first, other := text(objects(status["roots"])[0], "key"), text(objects(status["roots"])[1], "key")
	put := func(path string, body M) M {
		t.Helper()
		body["agent"] = "agent"
		status, out := d.http("PUT", path, d.reviewer(), body)
		if status != 200 {
			t.Fatalf("%s %v: %d %v", path, body, status, out)
		}
		return out
	}
	n := 0
	over := func(labels M) M { // a write over a file, which asks unless something lifts it
		n++
		call := M{"op": "write_file", "args": M{"path": "a.txt", "content": fmt.Sprintf("%d\n", n)}, "root": first}
		for k, v := range labels {
			call[k] = v
		}
		_, r := d.send(d.Agent, call)
		return r
	}
	revoke := func(rule M) { d.http("DELETE", "/v1/rules/"+text(rule, "id"), d.reviewer(), nil) }

	t.Run("X16 a change of mode tells the old mode, the new one and who did it", func(t *testing.T) {
		one := put("/v1/mode", M{"mode": "prompt", "session": "x16"})
		if e := d.said(t, "mode.changed"); e["old"] != "auto" || e["mode"] != "prompt" || e["by"] != "reviewer" || e["rule_id"] != one["id"] {
			t.Errorf("got %v", e)
		}
		put("/v1/mode", M{"mode": "deny", "session": "x16"})
		if e := d.said(t, "mode.changed"); e["old"] != "prompt" || e["mode"] != "deny" {
			t.Errorf("got %v", e)
		}
		_, rules := d.http("GET", "/v1/rules", d.reviewer(), nil)
		revoke(objects(rules["rules"])[0])
		if e := d.said(t, "mode.changed"); e["old"] != "deny" || e["mode"] != "auto" {
			t.Errorf("got %v", e)
		}
	})
	t.Run("X18 a change of mode leaves what waits and what was done", func(t *testing.T) {
		_, waits := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "b.txt"}, "root": first})
		must(t, waits, "review")
		mode := put("/v1/mode", M{"mode": "yolo", "confirm": true})
		if _, row := d.http("GET", "/v1/approvals/"+idOf(waits), d.reviewer(), nil); text(row, "state") != "pending" {
			t.Errorf("got %v", row["state"])
		}
		if read(t, filepath.Join(d.Root, "b.txt")) != "one\n" {
			t.Error("the mode released it")
		}
		_, now := d.send(d.Agent, M{"op": "delete_file", "args": M{"path": "b.txt"}, "root": other})
		must(t, now, "done")
		revoke(mode)
		must(t, d.undo(now), "done")
		d.http("POST", "/v1/approvals/"+idOf(waits)+"/cancel", d.reviewer(), M{})
	})
	t.Run("X22 a stage grant counts for its stage, and ends by word or by time", func(t *testing.T) {
		g := put("/v1/rules", M{"scope": "stage", "stage": "build", "for": "1s"})
		if e := d.said(t, "grant.added"); e["rule_id"] != g["id"] || e["scope"] != "stage" {
			t.Errorf("event: %v", e)
		}
		if r := over(M{"stage": "build"}); text(must(t, r, "done"), "decision", "grant_id") != text(g, "id") {
			t.Errorf("got %v", r["decision"])
		}
		must(t, over(M{"stage": "deploy"}), "review")
		must(t, over(nil), "review")
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && text(over(M{"stage": "build"}), "status") == "done"; time.Sleep(50 * time.Millisecond) {
		}
		must(t, over(M{"stage": "build"}), "review") // nobody ended it, its time did
		g = put("/v1/rules", M{"scope": "stage", "stage": "build"})
		must(t, over(M{"stage": "build"}), "done")
		revoke(g)
		must(t, over(M{"stage": "build"}), "review")
	})
	t.Run("X24 what an agent writes into the workspace grants nothing", func(t *testing.T) {
		g := `{"rules":[{"kind":"grant","scope":"project","agent":"agent"}],"mode":"yolo","require_approval":false}`
		for _, name := range []string{"grants.json", "holdpoint.json", "holdpoint.toml", ".holdpoint.toml", ".holdpoint/config.toml", ".holdpoint/rules.json", ".config/holdpoint/config.toml"} {
			_, r := d.send(d.Agent, M{"op": "write_file", "args": M{"path": name, "content": g, "create_dirs": true}, "root": first})
			if text(r, "status") == "review" {
				d.http("POST", "/v1/approvals/"+idOf(r)+"/cancel", d.reviewer(), M{})
			}
			write(t, filepath.Join(second, name), g) // or whoever can write there
		}
		must(t, over(nil), "review")
		_, r := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "a.txt", "content": "granted?\n"}, "root": other})
		must(t, r, "review")
		if _, rules := d.http("GET", "/v1/rules", d.reviewer(), nil); len(objects(rules["rules"])) != 0 {
			t.Errorf("rules: %v", rules)
		}
	})
	t.Run("X27 a grant can name one action in one project", func(t *testing.T) {
		g := put("/v1/rules", M{"scope": "project", "root": first, "operations": []string{"write_file"}, "paths": []string{"a.txt"}})
		must(t, over(nil), "done")
		for what, call := range map[string]M{
			"another project": {"op": "write_file", "args": M{"path": "a.txt", "content": "x\n"}, "root": other},
			"another action":  {"op": "copy_file", "args": M{"source": "b.txt", "destination": "a.txt", "overwrite": true}, "root": first},
			"another path":    {"op": "write_file", "args": M{"path": "b.txt", "content": "x\n"}, "root": first},
		} {
			if _, r := d.send(d.Agent, call); text(r, "status") != "review" {
				t.Errorf("%s: got %v", what, r)
			}
		}
		revoke(g)
	})
	t.Run("X29 grants are listed with what is left of them, and end by revoking", func(t *testing.T) {
		g := put("/v1/rules", M{"scope": "session", "session": "s", "count": 3, "bytes": 1 << 20, "for": "10m"})
		must(t, over(M{"session": "s"}), "done")
		must(t, over(M{"session": "s"}), "done")
		code, out, errs := d.cli("rules", "list")
		if code != 0 || !strings.Contains(out, text(g, "id")) || !strings.Contains(out, "used 2 of 3") {
			t.Errorf("got %d %q %q", code, out, errs)
		}
		if code, _, errs := d.cli("rules", "revoke", text(g, "id")); code != 0 {
			t.Fatal(errs)
		}
		must(t, over(M{"session": "s"}), "review")
		if _, out, _ := d.cli("rules", "list"); strings.Contains(out, text(g, "id")) {
			t.Errorf("still listed: %q", out)
		}
		if _, out, _ := d.cli("rules", "list", "--all"); !strings.Contains(out, "ended by reviewer") {
			t.Errorf("not on record: %q", out)
		}
	})
	t.Run("a grant ends when its bytes are used", func(t *testing.T) {
		g := put("/v1/rules", M{"scope": "session", "session": "b", "bytes": 10})
		big := func(size int) M {
			_, r := d.send(d.Agent, M{"op": "write_file", "args": M{"path": "a.txt", "content": strings.Repeat("x", size)}, "root": first, "session": "b"})
			return r
		}
		must(t, big(6), "done")
		must(t, big(5), "review")
		must(t, big(4), "done")
		must(t, big(1), "review")
		revoke(g)
	})
	t.Run("X23 a project grant outlives the daemon, and its loading is told", func(t *testing.T) {
		project := put("/v1/rules", M{"scope": "project", "root": first, "operations": []string{"write_file"}})
		stage := put("/v1/rules", M{"scope": "stage", "stage": "build"})
		for range 2 {
			d.restart()
			if e := d.said(t, "grant.loaded"); e["rule_id"] != project["id"] {
				t.Errorf("got %v", e)
			}
			must(t, over(nil), "done")
		}
		if _, rules := d.http("GET", "/v1/rules", d.reviewer(), nil); strings.Contains(fmt.Sprint(rules), text(stage, "id")) {
			t.Errorf("X22: the stage's grant outlived the daemon: %v", rules)
		}
		revoke(project)
	})
}

// Two hundred requests on record, two of them turned down: whoever is about to allow one of
// their kind for good learns of both before anything is saved.
func TestRememberedReach(t *testing.T) {
	t.Parallel()
	d := start(t)
	var turned []string
	var last M
	for i := range 200 {
		file := []string{"a.txt", "b.txt"}[i%2]
		write(t, filepath.Join(d.Root, file), "x\n")
		held := must(t, d.call("delete_file", M{"path": file}), "review")
		switch {
		case i == 199:
			last = held
		case i == 41 || i == 121: // of b.txt
			d.answer(held, "reject", fmt.Sprintf("no, %d", i))
			turned = append(turned, idOf(held))
		case i%10 < 2:
			must(t, d.approve(held), "done")
		default:
			d.http("POST", "/v1/approvals/"+idOf(held)+"/cancel", d.Agent, M{})
		}
	}
	_, reach := d.http("GET", "/v1/approvals/"+idOf(last)+"/reach", d.reviewer(), nil)
	states, _ := reach["states"].(M)
	if reach["logged"] != 200.0 || reach["covered"] != 100.0 || reach["rejected"] != 2.0 || states["rejected"] != 2.0 || states["executed"] != 18.0 || states["cancelled"] != 79.0 || states["pending"] != 1.0 {
		t.Errorf("got %v", reach)
	}
	down := objects(reach["turned_down"])
	if len(down) != 2 || text(down[0], "id") != turned[0] || text(down[1], "id") != turned[1] || text(down[1], "note") != "no, 121" || text(down[0], "by") != "reviewer" {
		t.Errorf("turned down: %v", down)
	}
	if _, rules := d.http("GET", "/v1/rules", d.reviewer(), nil); len(objects(rules["rules"])) != 0 {
		t.Errorf("something was saved: %v", rules)
	}
	code, _, errs := d.cli("review", "approve", idOf(last), "--remember")
	if code != 0 || !strings.Contains(errs, "Of 200 requests on record it would have let 100 run, and people turned 2 of those down") ||
		!strings.Contains(errs, turned[0]) || !strings.Contains(errs, "no, 121") {
		t.Errorf("got %d %q", code, errs)
	}
	if e := d.said(t, "rule.added"); e["covered"] != 100.0 || e["rejected"] != 2.0 {
		t.Errorf("event: %v", e)
	}
	write(t, filepath.Join(d.Root, "b.txt"), "x\n")
	must(t, d.call("delete_file", M{"path": "b.txt"}), "done")
	write(t, filepath.Join(d.Root, "a.txt"), "x\n")
	must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
}

// What lies below all tiers, what stands at its top, and the forms of an answer.
func TestTiersAndAnswers(t *testing.T) {
	t.Parallel()
	d := start(t)
	write(t, filepath.Join(d.Root, "a.txt"), "one\n")
	t.Run("X3 what touches no workspace is answered in every mode, and with no workspace there", func(t *testing.T) {
		ask := func(t *testing.T) {
			t.Helper()
			for _, path := range []string{"/healthz", "/readyz", "/v1/status", "/v1/table"} {
				if status, out := d.http("GET", path, d.Agent, nil); status != 200 {
					t.Errorf("%s: %d %v", path, status, out)
				}
			}
		}
		for _, mode := range []string{"deny", "prompt", "auto"} {
			d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": mode})
			ask(t)
		}
		away := d.Root + ".away"
		if err := os.Rename(d.Root, away); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/healthz", "/v1/status", "/v1/table"} {
			if status, out := d.http("GET", path, d.Agent, nil); status != 200 {
				t.Errorf("%s without a workspace: %d %v", path, status, out)
			}
		}
		if err := os.Rename(away, d.Root); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("X64 without the operator's leave there is no yolo", func(t *testing.T) {
		status, out := d.http("PUT", "/v1/mode", d.reviewer(), M{"agent": "agent", "mode": "yolo", "confirm": true})
		if status != 403 || code(out) != "forbidden" {
			t.Errorf("got %d %v", status, out)
		}
		must(t, d.call("delete_file", M{"path": "a.txt"}), "review")
		_, rules := d.http("GET", "/v1/rules", d.reviewer(), nil)
		if strings.Contains(fmt.Sprint(rules), "yolo") {
			t.Errorf("rules: %v", rules)
		}
	})
	t.Run("X34 a person approves, with words or without, rejects, or grants", func(t *testing.T) {
		over := func(content string) M { return d.call("write_file", M{"path": "a.txt", "content": content}) }
		if done := must(t, d.answer(must(t, over("two\n"), "review"), "approve", "and then the tests"), "done"); !strings.Contains(fmt.Sprint(done["warnings"]), "and then the tests") {
			t.Errorf("the words are not in %v", done)
		}
		if no := d.answer(must(t, over("three\n"), "review"), "reject", "not that"); text(no, "status") != "refused" || code(no) != "rejected" || !strings.Contains(fmt.Sprint(no), "not that") {
			t.Errorf("got %v", no)
		}
		status, out := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "agent", "scope": "session", "session": "s", "operations": []string{"write_file"}})
		if status != 200 {
			t.Fatalf("grant: %d %v", status, out)
		}
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "write_file", "args": M{"path": "a.txt", "content": "four\n"}, "session": "s"})
		if must(t, r, "done"); text(r, "decision", "reason") != "granted" || read(t, filepath.Join(d.Root, "a.txt")) != "four\n" {
			t.Errorf("got %v", r)
		}
	})
}

// The command line and HTTP answer alike: once, for the session, or no.
func TestAnswersAlike(t *testing.T) {
	t.Parallel()
	d := start(t)
	file := filepath.Join(d.Root, "a.txt")
	type end struct{ state, effect, answered string }
	ask := func(session string) M {
		t.Helper()
		write(t, file, "one\n")
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "write_file", "args": M{"path": "a.txt", "content": "two\n"}, "session": session})
		return r
	}
	ended := func(held M) end {
		_, row := d.http("GET", "/v1/approvals/"+idOf(held), d.reviewer(), nil)
		return end{text(row, "state"), read(t, file), text(row, "card", "answered_by")}
	}
	t.Run("C140 approve, reject and approve for a session come to the same by command line and by HTTP", func(t *testing.T) {
		held := must(t, ask(""), "review")
		d.answer(held, "approve", "")
		byHTTP := ended(held)
		held = must(t, ask(""), "review")
		if exit, _, errs := d.cli("review", "approve", idOf(held)); exit != 0 {
			t.Fatal(errs)
		}
		if byCLI := ended(held); byCLI != byHTTP || byCLI != (end{"executed", "two\n", "reviewer"}) {
			t.Errorf("approve: %v by command line, %v by HTTP", byCLI, byHTTP)
		}
		held = must(t, ask(""), "review")
		d.answer(held, "reject", "no")
		byHTTP = ended(held)
		held = must(t, ask(""), "review")
		if exit, _, errs := d.cli("review", "reject", idOf(held), "--note", "no"); exit != 0 {
			t.Fatal(errs)
		}
		if byCLI := ended(held); byCLI != byHTTP || byCLI != (end{"rejected", "one\n", "reviewer"}) {
			t.Errorf("reject: %v by command line, %v by HTTP", byCLI, byHTTP)
		}
		status, one := d.http("PUT", "/v1/rules", d.reviewer(), M{"agent": "agent", "scope": "session", "session": "h", "operations": []string{"write_file"}})
		exit, out, errs := d.cli("rules", "grant", "--scope", "session", "--agent", "agent", "--session", "c", "--operation", "write_file", "--json")
		if status != 200 || exit != 0 {
			t.Fatalf("%d %v, %d %s", status, one, exit, errs)
		}
		for _, session := range []string{"h", "c"} {
			if r := ask(session); text(r, "status") != "done" || text(r, "decision", "reason") != "granted" {
				t.Errorf("session %s: %v", session, r)
			}
		}
		must(t, ask("another"), "review")
		if !strings.Contains(out, `"scope"`) {
			t.Errorf("the rule: %s", out)
		}
	})
}
