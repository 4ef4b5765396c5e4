package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

// What an agent may have written: terminal control, hidden and reordering characters, and
// line breaks that would forge lines of ours.
const hostile = "bad\r\x1b[2K   command: ls\x07\u200b\u2060\u00ad\ufeff\u180e\u202e\u0085\u009b31m\x7f\u2028\nundo       nothing\ttab"

// dirty finds what must not reach a terminal. Tabs are for clean to judge.
func dirty(s string) (rune, bool) {
	for _, r := range s {
		if r != '\n' && r != '\t' && (op.Invisible(r) || r == '�') {
			return r, true
		}
	}
	return 0, false
}

func clean(t *testing.T, r ran) {
	t.Helper()
	for _, s := range []string{r.out, r.err} {
		if c, found := dirty(s); found {
			t.Errorf("%U reached the terminal in %q", c, s)
		}
		for _, l := range strings.Split(s, "\n") {
			if strings.HasPrefix(l, "undo       nothing") {
				t.Errorf("a forged line: %q", s)
			}
			if strings.Contains(l, "\t") && !strings.HasPrefix(l, "  | ") {
				t.Errorf("a tab outside of a diff: %q", l)
			}
		}
	}
}

// plant fills every text of a JSON document that is "X" with the hostile one.
func plant(text string) string {
	b, err := json.Marshal(hostile)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(text, `"X"`, string(b))
}

// A card and an operation in which every text is hostile, once it is planted.
const (
	hostileCard = `{"id":"X","state":"X","title":"X","op":"X","tier":"X","lines":["X","X"],"reasons":["X",{"code":"X","sentence":"X"}],"diff":"X","undo":"X",
		"intent":"X","agent":"X","workflow":"X","session":"X","warnings":["X",{"code":"X","message":"X"}],"effect":"X","host":"X","dir":"X","root_name":"X","answered_by":"X","reviewer_note":"X","call":{"X":"X"},"expires_at":"2099-01-01T00:00:00Z","shown_digest":"X"}`
	hostileOperation = `{"id":"X","op":"X","time":"2026-01-01T00:00:00Z","agent":"X","session":"X","state":"X","paths":["X","X","X","X"],"undo":"X","approval_id":"X","undoes":"X","undone_by":"X","late":["X"]}`
)

// hostileDaemon answers every endpoint with hostile text wherever a text may be hostile.
func hostileDaemon(t *testing.T) *fake {
	f := newFake(t)
	f.secret("operator", "operator-secret")
	card, operation := hostileCard, hostileOperation
	decision := `{"verdict":"review","reason":"X","also":["X"],"tier":"X","trusted_policy_id":"X","grant_id":"X"}`
	effects := `[{"path":"X","to":"X","change":"X","before":{"state":"X"},"after":{"state":"X"}}]`
	problem := `{"code":"X","message":"X","path":"X","field":"X","hint":"X","current_hash":"X"}`
	for pattern, text := range map[string]string{
		"GET /v1/status": `{"version":"X","roots":[{"name":"X","key":"X","dir":"X","store":"X","warnings":[{"code":"X","message":"X"}]}],"review_auth":"X","warnings":["X",{"code":"X","message":"X"}],"pending":1,
			"policy":{"state":"X","file":"X","error":"X"}}`,
		"GET /v1/approvals":       `{"approvals":[` + card + `]}`,
		"GET /v1/approvals/{id}":  `{"id":"X","state":"pending","note":"X","card":` + card + `}`,
		"GET /v1/operations":      `{"operations":[` + operation + `]}`,
		"GET /v1/operations/{id}": `{"operation":` + operation + `,"effects":` + effects + `,"diff":"X","decision":` + decision + `}`,
		"POST /v1/preflight": `{"decision":` + decision + `,"facts":{"targets":[{"path":"X","role":"X","kind":"X","protected":true,"protected_by":"X","protected_from":"X"}]},
			"preview":{"title":"X","diff":"X","effects":` + effects + `},"warnings":[{"code":"X","message":"X"}],"pins":"X","error":` + problem + `}`,
		"GET /v1/protect":      `{"patterns":[{"pattern":"X","from":"X","group":"X","why":"X"}]}`,
		"GET /v1/protect/test": `{"protected":true,"protected_by":"X","protected_from":"X"}`,
		"GET /v1/audit": `{"records":[{"seq":1,"time":"2026-01-01T00:00:00Z","kind":"X","tool":"X","decision":"X","reason":"X","agent":"X",
			"outcome":"X","operation_id":"X"}]}`,
		"GET /v1/audit/head":             `{"seq":1,"hash":"X"}`,
		"POST /v1/audit/verify":          `{"records":1,"at":2,"error":` + problem + `}`,
		"POST /v1/tokens":                `{"id":"X","token":"X","role":"X"}`,
		"GET /v1/tokens":                 `{"tokens":[{"id":"X","name":"X","role":"X","workflow":"X","profile":"X"}]}`,
		"POST /v1/roots":                 `{"name":"X","key":"X","dir":"X"}`,
		"POST /v1/approvals/{id}/answer": `{"id":"X","state":"rejected","note":"X"}`,
		"POST /v1/undo":                  `{"status":"failed","op":"X","effects":` + effects + `,"effects_executed":true,"warnings":[{"code":"X","message":"X"}],"error":` + problem + `}`,
		"POST /v1/call":                  `{"status":"review","op":"X","decision":` + decision + `,"effects":[],"effects_executed":false,"approval":{"id":"X","identity":"X","title":"X","review_url":"X"}}`,
		"DELETE /v1/tokens/{id}":         `{}`,
	} {
		f.answer(pattern, 200, plant(text))
	}
	return f
}

var hostileCommands = [][]string{
	{"status"}, {"root", "list"}, {"review", "list"}, {"review", "show", "ap_1"}, {"review", "show", "ap_1", "--exact"}, {"review", "reject", "ap_1"},
	{"review", "approve", "ap_1"}, {"log"}, {"show", "op_1"}, {"preflight", "view_file", "path=a"}, {"policy", "explain", "view_file", "path=a"},
	{"protect", "list"}, {"protect", "test", hostile}, {"audit", "tail"}, {"audit", "head"}, {"audit", "verify"}, {"token", "list"},
	{"token", "create", "--role", "agent", "--name", "a"}, {"token", "revoke", hostile}, {"undo", "op_1"}, {"undo", "--since", "10000d"}, {"call", "view_file", "path=a"},
	{"call", "view_file", hostile}, {"call", hostile}, {hostile}, {"review", hostile}, {"call", "view_file", "--" + strings.ReplaceAll(hostile, "\n", "")}, {"root", "add", "."},
}

func TestHostileTextIsInert(t *testing.T) {
	if _, found := dirty(hostile); !found {
		t.Fatal("the case does not look for what it plants")
	}
	f := hostileDaemon(t)
	all := func(t *testing.T, run func(args ...string) ran, json bool, escaped string) {
		for _, args := range hostileCommands {
			if json {
				args = append(args[:len(args):len(args)], "--json")
			}
			r := run(args...)
			clean(t, r)
			own := args[0] == "undo" || args[len(args)-1] == hostile || args[len(args)-1] == "head" // quoted by Go, nothing matches, or JSON
			if !own && !strings.Contains(r.out+r.err, escaped) {
				t.Errorf("%q does not show what was there: %q %q", args, r.out, r.err)
			}
		}
	}
	t.Run("S65 hidden characters are shown as escapes", func(t *testing.T) {
		all(t, func(args ...string) ran {
			var dialog [][2]string
			if strings.HasPrefix(strings.Join(args, " "), "review approve") {
				dialog = [][2]string{{"Type yes to approve: ", "no\r"}}
			}
			return f.terminal(nil, dialog, args...)
		}, false, `\u{200B}`)
	})
	t.Run("S66 control characters are shown as escapes", func(t *testing.T) {
		all(t, f.process, false, `\u{001B}[2K`)
	})
	t.Run("S65 (part), S66 (part) no field of the terminal review is more than text: list, card, exact call, questions, answers, history, operation", func(t *testing.T) {
		hostileScreen(t)
	})
	t.Run("json", func(t *testing.T) { all(t, f.run, true, "") })
}

// hostileScreen takes the model of the terminal review through all that it can show of a
// daemon whose every text is hostile.
func hostileScreen(t *testing.T) {
	var k card
	var o operation
	if err := errors.Join(json.Unmarshal([]byte(plant(hostileCard)), &k), json.Unmarshal([]byte(plant(hostileOperation)), &o)); err != nil {
		t.Fatal(err)
	}
	s := &screen{a: &app{Streams: Streams{Env: func(string) string { return "" }}, now: time.Now}, ctx: t.Context(), width: 4000, height: 200}
	own := regexp.MustCompile("\x1b\\[[0-9;]*m")
	shows := func(what string) {
		t.Helper()
		text := own.ReplaceAllString(s.View().Content, "")
		if c, found := dirty(text); found {
			t.Errorf("%s: %U reached the terminal in %q", what, c, text)
		}
		if !strings.Contains(text, `\u{200B}`) || !strings.Contains(text, `\u{001B}[2K`) {
			t.Errorf("%s does not show what was there: %q", what, text)
		}
		for l := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(l, "undo       nothing") {
				t.Errorf("%s: a forged line: %q", what, text)
			}
		}
	}
	s.Update(cardsMsg{cards: []card{k}, total: 1})
	shows("the list")
	raw := json.RawMessage(plant(`{"drifted":"X"}`))
	for _, s.exact = range []bool{false, true} {
		s.Update(openMsg{p: approval{ID: k.ID, State: k.State, Card: &k}, raw: raw})
		shows("the card")
	}
	for _, s.asking = range []string{"approve", "reject"} {
		s.typed = hostile
		shows("the question to " + s.asking)
	}
	s.shown.Effect, s.asking, s.typed = "write", "approve", ""
	shows("the question of one step")
	s.open, s.asking = false, ""
	s.Update(toldMsg{line(hostile)})
	shows("how it ended")
	s.history = true
	s.Update(historyMsg{list: []operation{o}})
	shows("the history")
	s.Update(openMsg{o: o, diff: hostile})
	shows("an operation")
}

// The tool's own colors are the only sequences, and hostile text does not add to them.
func TestOwnStyling(t *testing.T) {
	f := hostileDaemon(t)
	own := regexp.MustCompile("\x1b\\[(0|1|31|32|36)m")
	for _, args := range hostileCommands {
		r := f.runWith(with{tty: true, in: "no\n"}, args...)
		r.out, r.err = own.ReplaceAllString(r.out, ""), own.ReplaceAllString(r.err, "")
		clean(t, r)
	}
}

func TestJSONKeepsItsMeaning(t *testing.T) {
	f := newFake(t)
	quoted, _ := json.Marshal(hostile + "\U000e0001 <&> é")
	whole := `{"status":"done","op":"view_file","effects":[],"effects_executed":false,"result":{"content":` + string(quoted) + `}}`
	f.answer("POST /v1/call", 200, strings.ReplaceAll(whole, `\u200b`, "\u200b"))
	r := f.run("call", "view_file", "path=a", "--json").wants(t, 0)
	clean(t, r)
	if strings.Count(r.out, "\n") != 1 {
		t.Errorf("not one line: %q", r.out)
	}
	sameJSON(t, r.out, whole)
}
