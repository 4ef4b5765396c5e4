package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCredential shows who may take an operation back, and how often.
func TestCredential(t *testing.T) {
	t.Parallel()
	root, state := dirs(t)
	second := filepath.Join(filepath.Dir(root), "second")
	if err := os.Mkdir(second, 0o755); err != nil {
		t.Fatal(err)
	}
	d := startOn(t, root, state, nil, "--root", second)
	write(t, filepath.Join(root, "a.txt"), "one\n")
	edit := func(t *testing.T, from, to string) M {
		t.Helper()
		_, r := d.http("POST", "/v1/call", d.Agent, M{"op": "edit_file", "root": "ws", "args": M{"path": "a.txt", "old_string": from, "new_string": to}})
		return must(t, r, "done")
	}
	undo := func(token string, body M) (int, M) {
		if body["root"] == nil {
			body["root"] = "ws"
		}
		return d.http("POST", "/v1/undo", token, body)
	}
	done := edit(t, "one", "two")
	credential := done["undo_credential"].(M)
	still := func(t *testing.T) {
		t.Helper()
		if read(t, filepath.Join(root, "a.txt")) != "two\n" {
			t.Fatal("the file was changed")
		}
	}

	t.Run("S95 an undo token is no right that can be guessed, changed or passed on", func(t *testing.T) {
		t.Run("a credential with any part altered is undo_forged and moves nothing", func(t *testing.T) {
			forged := alterations(credential)
			forged["nothing in it"] = M{}
			forged["a megabyte"] = M{"id": strings.Repeat("x", 1<<20)}
			for name, c := range forged {
				if status, r := undo(d.Agent, M{"credential": c}); status != 403 || code(r) != "undo_forged" || r["effects_executed"] == true {
					t.Errorf("%s: got %d %v, want 403 undo_forged", name, status, r["error"])
				}
			}
			t.Logf("%d alterations", len(forged))
			still(t)
			if exit, _, _ := d.cli("undo", encode(t, forged["nothing in it"])); exit != 4 {
				t.Errorf("on the command line: exit %d, want 4", exit)
			}
		})
		t.Run("an absent operation, a foreign one and one of another root look alike, in text and in time", func(t *testing.T) {
			_, out := d.http("POST", "/v1/tokens", d.reviewer(), M{"role": "agent", "name": "other"})
			other := text(out, "token")
			if other == "" {
				t.Fatalf("token: %v", out)
			}
			neighbour := []byte(text(done, "operation_id"))
			neighbour[len(neighbour)-2] ^= 1
			tries := []struct {
				name, token string
				body        M
			}{
				{"a neighbour's id", d.Agent, M{"operation_id": string(neighbour)}},
				{"another agent with the id", other, M{"operation_id": done["operation_id"]}},
				{"another agent with the credential", other, M{"credential": credential}},
				{"another root with the id", d.Agent, M{"operation_id": done["operation_id"], "root": "second"}},
				{"another root with the credential", d.Agent, M{"credential": credential, "root": "second"}},
			}
			var first string
			var times []time.Duration
			for _, try := range tries {
				status, r := undo(try.token, try.body)
				if status != 404 || code(r) != "undo_unknown" {
					t.Errorf("%s: got %d %v, want 404 undo_unknown", try.name, status, r["error"])
				}
				if answer := encode(t, r["error"]); first == "" {
					first = answer
				} else if answer != first {
					t.Errorf("%s: answered %s, an absent one %s", try.name, answer, first)
				}
				times = append(times, fastest(func() { undo(try.token, try.body) }))
			}
			if slowest := slices.Max(times); slowest > 3*slices.Min(times)+2*time.Millisecond {
				t.Errorf("the times tell them apart: %v", times)
			}
			still(t)
			if exit, _, _ := d.cli("undo", string(neighbour)); exit != 6 {
				t.Errorf("on the command line: exit %d, want 6", exit)
			}
		})
		t.Run("ids carry at least 128 random bits", func(t *testing.T) {
			seen := map[string]bool{}
			for _, id := range []string{text(done, "operation_id"), text(credential, "id")[3:], text(edit(t, "two", "six"), "operation_id"), text(edit(t, "six", "two"), "operation_id")} {
				if !regexp.MustCompile(`^(op_)?[a-z2-7]{26}$`).MatchString(id) { // 26 digits of 5 bits
					t.Errorf("id %q", id)
				}
				seen[strings.TrimPrefix(id, "op_")] = true
			}
			if len(seen) != 3 {
				t.Errorf("ids repeat: %v", seen)
			}
		})
	})
	t.Run("the order of the fields and white space do not matter", func(t *testing.T) {
		body := `{"root": "ws", "credential": ` + backwards(t, credential) + `}`
		if _, r := d.http("POST", "/v1/undo", d.Agent, body); text(r, "status") != "done" {
			t.Fatalf("%s: %v", body, r["error"])
		}
		edit(t, "one", "two")
	})
	t.Run("C98 a credential is used once, and only in its own root", func(t *testing.T) {
		e := edit(t, "two", "three")
		c := e["undo_credential"]
		if status, r := undo(d.Agent, M{"credential": c, "root": "second"}); status != 404 || code(r) != "undo_unknown" {
			t.Fatalf("in another root: %d %v", status, r["error"])
		}
		_, r := undo(d.Agent, M{"credential": c})
		must(t, r, "done")
		if status, r := undo(d.Agent, M{"credential": c}); status != 409 || code(r) != "undo_consumed" {
			t.Fatalf("a second time: %d %v", status, r["error"])
		}
		if exit, _, _ := d.cli("undo", encode(t, c)); exit != 5 {
			t.Errorf("on the command line: exit %d, want 5", exit)
		}
		still(t)
	})
	t.Run("S96 of 20 undos at once one is done, and the first token is spent after redo too", func(t *testing.T) {
		for range 5 {
			c := edit(t, "two", "four")["undo_credential"]
			codes := together(20, func() string {
				_, r, err := d.tryHTTP("POST", "/v1/undo", d.Agent, M{"credential": c, "root": "ws"})
				if err != nil {
					return err.Error()
				}
				return text(r, "status") + " " + code(r)
			})
			if codes["done "] != 1 || codes["failed undo_consumed"] != 19 {
				t.Fatalf("got %v, want one done and 19 undo_consumed", codes)
			}
			still(t)
		}
		e := edit(t, "two", "five")
		_, back := undo(d.Agent, M{"credential": e["undo_credential"]})
		_, redo := undo(d.Agent, M{"credential": must(t, back, "done")["undo_credential"]})
		must(t, redo, "done")
		if read(t, filepath.Join(root, "a.txt")) != "five\n" {
			t.Fatal("the undo of the undo is no redo")
		}
		if status, r := undo(d.Agent, M{"credential": e["undo_credential"]}); status != 409 || code(r) != "undo_consumed" {
			t.Fatalf("the first token after the redo: %d %v", status, r["error"])
		}
		if text(redo, "undo_credential", "id") == text(e, "undo_credential", "id") {
			t.Fatal("the redo gave the first token again")
		}
		_, r := undo(d.Agent, M{"credential": redo["undo_credential"]})
		must(t, r, "done")
		still(t)
	})
	t.Run("an undo that names no root means that of its operation", func(t *testing.T) {
		e := edit(t, "two", "seven")
		for name, body := range map[string]M{"an altered credential": {"credential": renamed(e["undo_credential"].(M), "id", "ID")}, "an unknown id": {"operation_id": "op_none"}} {
			if _, r := d.http("POST", "/v1/undo", d.Agent, body); code(r) != "undo_forged" && code(r) != "undo_unknown" {
				t.Errorf("%s: %v", name, r["error"])
			}
		}
		_, r := d.http("POST", "/v1/undo", d.Agent, M{"credential": e["undo_credential"]})
		must(t, r, "done")
		still(t)
	})
}

// TestCredentialSurvives kills the daemon between a release and its undo.
func TestCredentialSurvives(t *testing.T) {
	t.Parallel()
	d := start(t)
	write(t, filepath.Join(d.Root, "dir", "gone.txt"), "back again\n")
	before := digest(t, d.Root)
	done := must(t, d.approve(must(t, d.call("delete_file", M{"path": "dir", "recursive": true}), "review")), "done")
	d.restart()
	must(t, d.undo(done), "done")
	if digest(t, d.Root) != before {
		t.Fatal("the credential of a released delete did not bring it back after a kill")
	}
}

// alterations gives credentials that each differ from a genuine one in one place.
func alterations(genuine M) map[string]any {
	out := map[string]any{}
	var walk func(at string, v any, put func(any) any)
	walk = func(at string, v any, put func(any) any) {
		switch v := v.(type) {
		case M:
			for k, e := range v {
				with := func(x any) any {
					o := M{}
					for k, e := range v {
						o[k] = e
					}
					delete(o, k)
					if x != nil {
						o[k] = x
					}
					return put(o)
				}
				out[at+"."+k+" removed"] = with(nil)
				out[at+"."+k+" in another case"] = put(renamed(v, k, strings.ToUpper(k[:1])+k[1:]))
				walk(at+"."+k, e, with)
			}
			more := renamed(v, "", "")
			more["further"] = "field"
			out[at+" with a further field"] = put(more)
		case []any:
			out[at+" emptied"] = put([]any{})
			out[at+" doubled"] = put(append(slices.Clone(v), v...))
			for i, e := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), e, func(x any) any {
					l := slices.Clone(v)
					l[i] = x
					return put(l)
				})
			}
		case string:
			changed := []byte(v)
			changed[len(changed)-1] ^= 1
			out[at+" changed"] = put(string(changed))
			out[at+" longer"] = put(v + "0")
			out[at+" of another kind"] = put(float64(1))
		case float64:
			out[at+" changed"] = put(v + 1)
		}
	}
	walk("credential", genuine, func(x any) any { return x })
	return out
}

// renamed copies an object with one key under another name.
func renamed(o M, from, to string) M {
	out := M{}
	for k, v := range o {
		if k == from {
			k = to
		}
		out[k] = v
	}
	return out
}

// backwards writes an object with its keys in falling order and white space between.
func backwards(t *testing.T, o M) string {
	t.Helper()
	var keys []string
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	slices.Reverse(keys)
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%q : %s", k, encode(t, o[k])))
	}
	return "{\n" + strings.Join(parts, " ,\n") + "\n}"
}

func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// together runs f n times at once and counts what came back.
func together(n int, f func() string) map[string]int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	out := map[string]int{}
	for range n {
		wg.Go(func() {
			s := f()
			mu.Lock()
			defer mu.Unlock()
			out[s]++
		})
	}
	wg.Wait()
	return out
}

// fastest gives the shortest of some runs: what the machine is busy with else does not count.
func fastest(f func()) time.Duration {
	best := time.Hour
	for range 30 {
		began := time.Now()
		f()
		best = min(best, time.Since(began))
	}
	return best
}
