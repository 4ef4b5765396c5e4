package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/crypto/nacl/box"

	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

func ptr[T any](v T) *T { return &v }

// bench is one server, two machines that are linked to it, a hub, and an open user: somebody
// for whom the servers have no walls, such as whoever runs them.
type natsBench struct {
	t      *testing.T
	c      *cluster
	secret natsbridge.HubSecret
	ada    signer
	a, b   *machine
	d      *desk
	open   *natsgo.Conn
}

func newBench(t *testing.T, change ...func(*natsd.Options)) *natsBench {
	x := &natsBench{t: t, c: newCluster(t, 1, change...), secret: natsbridge.NewHubSecret(), ada: newSigner(t, "ada")}
	hub := dial(t, x.c.url(), x.c.creds(fleetAccount, "hub", ptr(natsbridge.HubMay())), natsbridge.HubInbox)
	if err := natsbridge.MakeStores(context.Background(), hub, 1, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	x.d = newDesk(t, hub, x.secret)
	for _, m := range []**machine{&x.a, &x.b} {
		*m = newMachine(t, t.TempDir())
		t.Cleanup((*m).close)
		x.ada.enroll(*m)
		x.link(*m)
	}
	x.open = dial(t, x.c.url(), x.c.creds(fleetAccount, "open", nil), "")
	return x
}

func (x *natsBench) link(m *machine) {
	m.connect(x.c.url(), x.c.creds(fleetAccount, "m", ptr(natsbridge.DaemonMay(m.o.engine.DaemonID(), m.key))), x.secret.Key())
	awaitIn(x.t, 10*time.Second, func() bool { return len(m.link.State().Serves) == 1 }, "the root to be served")
}

// agent makes another agent of a machine, on a connection that may do everything.
func (x *natsBench) agent(m *machine, name string, role op.Role) natsAgent {
	x.t.Helper()
	_, secret, err := m.o.engine.CreateToken(context.Background(), flow.TokenSpec{Name: name, Role: role})
	if err != nil {
		x.t.Fatal(err)
	}
	return natsAgent{x.t, x.open, m.key, secret}
}

// hold makes a delete that waits, asked on the machine itself.
func (x *natsBench) hold(m *machine, name, text string) natsbridge.Seen {
	x.t.Helper()
	m.write(name, text)
	status, got := m.local("POST", "/v1/call", m.agent, map[string]any{"op": "delete_file", "args": map[string]any{"path": name}})
	if status != 202 {
		x.t.Fatal(status, got)
	}
	c, err := x.d.card(op.ID(word(got, "approval", "id")), 10*time.Second)
	if err != nil {
		x.t.Fatal(err)
	}
	return c
}

// waits fails unless a card still waits and its file is there.
func (x *natsBench) waits(m *machine, c natsbridge.Seen, name string) {
	x.t.Helper()
	if row, err := m.o.journal.Approval(context.Background(), c.ID); err != nil || row.State != journal.Pending || !m.has(name) {
		x.t.Errorf("the card no longer waits: %s %v, file there: %v", row.State, err, m.has(name))
	}
}

// refused fails unless an answer was refused with a code.
func refused(t *testing.T, what string, err error, codes ...op.Code) {
	t.Helper()
	for _, c := range codes {
		if errors.Is(err, c) {
			return
		}
	}
	t.Errorf("%s: %v, wanted %v", what, err, codes)
}

func TestNATS(t *testing.T) {
	t.Parallel()
	x := newBench(t)
	ctx := context.Background()
	answer := func(root string, id op.ID, s natsbridge.Signed) error {
		_, err := natsbridge.SendAnswer(ctx, x.open, root, id, s, 5*time.Second)
		return err
	}

	t.Run("an approved delete, end to end", func(t *testing.T) {
		agent := natsAgent{t, dial(t, x.c.url(), x.c.creds(fleetAccount, "agent", ptr(natsbridge.AgentMay("agent", x.a.key))), "agent"), x.a.key, x.a.agent}
		x.a.write("old.txt", "old\n")
		status, got, err := agent.delete("old.txt", "end-to-end")
		if err != nil || status != 202 {
			t.Fatal(status, got, err)
		}
		c, err := x.d.card(op.ID(word(got, "approval", "id")), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := x.d.answer(x.ada, c, "approve"); err != nil || out["state"] != "executed" || x.a.has("old.txt") {
			t.Error(out, err)
		}
		if got := x.d.state(c.ID, 5*time.Second, "executed"); got != "executed" {
			t.Errorf("the hub says %q", got)
		}
		if status, got, err = agent.delete("old.txt", "end-to-end"); err != nil || word(got, "status") != "done" || got["effects_executed"] != true {
			t.Errorf("the same request again: %d %v %v", status, got, err)
		}
		status, got, err = agent.ask("POST", "/v1/undo", map[string]any{"operation_id": got["operation_id"]})
		if err != nil || status != 200 && status != 202 {
			t.Errorf("undo: %d %v %v", status, got, err)
		}
	})

	t.Run("S69 (part) NATS: without a good token every route answers 401, and nothing is queued", func(t *testing.T) {
		before, _ := x.a.o.journal.CountApprovals(ctx, journal.Pending, "")
		for _, token := range []string{"", "hp_wrong", " "} {
			for _, r := range [][2]string{{"POST", "/v1/call"}, {"POST", "/v1/preflight"}, {"POST", "/v1/undo"}, {"POST", "/v1/clean"}, {"POST", "/v1/diff"}, {"GET", "/v1/approvals"}, {"GET", "/v1/approvals/ap_x"},
				{"GET", "/v1/operations"}, {"GET", "/v1/operations/op_x"}, {"GET", "/v1/runs"}, {"GET", "/v1/status"}, {"GET", "/v1/table"}, {"POST", "/v1/approvals/ap_x/cancel"}, {"POST", "/v1/approvals/ap_x/answer"}} {
				status, got, err := natsAgent{t, x.open, x.a.key, token}.ask(r[0], r[1], map[string]any{"op": "delete_file", "args": map[string]any{"path": "a"}})
				if err != nil || status != 401 || word(got, "error", "code") != "unauthenticated" || strings.Contains(fmt.Sprint(got), x.a.root) {
					t.Errorf("%v %q: %d %v %v", r, token, status, got, err)
				}
			}
		}
		if after, _ := x.a.o.journal.CountApprovals(ctx, journal.Pending, ""); after != before {
			t.Errorf("%d cards wait, before %d", after, before)
		}
	})

	t.Run("S73 (part) NATS: a key that is not byte-equal to a known one is refused", func(t *testing.T) {
		for _, body := range []string{`{"op":"view_file","OP":"delete_file","args":{"path":"a"}}`, `{"op":"view_file","args":{"PATH":"a"}}`, `{"op":"view_file","args":{"path":"a","pathſ":"b"}}`, `{"op":"view_file","op":"delete_file","args":{"path":"a"}}`, `{} {}`} {
			r, _ := http.NewRequest("POST", "http://localhost/v1/call", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+x.a.agent)
			got, err := natsbridge.Transport{Conn: x.open, Root: x.a.key}.RoundTrip(r)
			if err != nil || got.StatusCode != 400 {
				t.Errorf("%s: %v %v", body, got, err)
			}
		}
	})

	t.Run("S74 (part) NATS: 50 clients with 20 requests each get their own answers and see nothing foreign", func(t *testing.T) {
		agents := make([]natsAgent, 50)
		for i := range agents {
			m := []*machine{x.a, x.b}[i%2]
			agents[i] = x.agent(m, fmt.Sprint("many", i), op.Agent)
			m.write(fmt.Sprint("marker", i), fmt.Sprintf("marker-%d-\n", i))
		}
		each(len(agents), len(agents), func(i int) {
			mine := fmt.Sprintf("marker-%d-", i)
			if status, got, err := agents[i].ask("POST", "/v1/call", map[string]any{"op": "delete_file", "args": map[string]any{"path": fmt.Sprint("marker", i)}, "intent": mine}); err != nil || status != 202 {
				t.Errorf("%d: %d %v %v", i, status, got, err)
			}
			for k := range 18 {
				id := fmt.Sprintf("many-%d-%d", i, k)
				_, got, err := agents[i].ask("POST", "/v1/call", map[string]any{"op": "view_file", "args": map[string]any{"path": fmt.Sprint("marker", i)}, "request_id": id})
				if err != nil || word(got, "request_id") != id || word(got, "result", "content") != mine+"\n" {
					t.Errorf("%d: %v %v", i, got, err)
				}
			}
			_, got, err := agents[i].ask("GET", "/v1/approvals?mine=true", nil)
			text, _ := json.Marshal(got)
			if err != nil || bytes.Count(text, []byte(`"id":"ap_`)) != 1 || !bytes.Contains(text, []byte(mine)) || bytes.Count(text, []byte("marker-")) != bytes.Count(text, []byte(mine)) {
				t.Errorf("%d: %s %v", i, text, err)
			}
		})
	})

	t.Run("S75 (part) NATS: what another agent asked looks like what never was", func(t *testing.T) {
		c := x.hold(x.a, "theirs.txt", "theirs\n")
		other := x.agent(x.a, "other", op.Agent)
		for _, r := range [][2]string{{"GET", "/v1/approvals/%s"}, {"POST", "/v1/approvals/%s/cancel"}} {
			_, theirs, err1 := other.ask(r[0], fmt.Sprintf(r[1], c.ID), map[string]any{})
			_, unknown, err2 := other.ask(r[0], fmt.Sprintf(r[1], "ap_aaaaaaaaaaaaaaaaaaaaaaaaaa"), map[string]any{})
			if err1 != nil || err2 != nil || fmt.Sprint(theirs) != fmt.Sprint(unknown) || word(theirs, "error", "code") != "not_found" {
				t.Errorf("%v: %v and %v", r, theirs, unknown)
			}
		}
		x.waits(x.a, c, "theirs.txt")
	})

	t.Run("S77 the message's own credential is checked by the daemon, whatever the bus let through", func(t *testing.T) {
		c := x.hold(x.a, "kept.txt", "kept\n")
		// With the agent's own user the bus has a wall.
		agent := dial(t, x.c.url(), x.c.creds(fleetAccount, "agent", ptr(natsbridge.AgentMay("agent2", x.a.key))), "agent2")
		walls := func(subject string) error {
			_, err := agent.Request(subject, []byte("{}"), 300*time.Millisecond)
			return err
		}
		for _, s := range []string{natsbridge.Subject(x.a.key, natsbridge.Answer), natsbridge.Subject(x.b.key, natsbridge.Call)} {
			if err := walls(s); err == nil {
				t.Errorf("the bus carried a message on %s", s)
			}
		}
		// Without the wall the daemon says the same.
		status, got, err := natsAgent{t, x.open, x.a.key, x.a.agent}.ask("POST", "/v1/approvals/"+string(c.ID)+"/answer", map[string]any{"answer": "approve", "shown_digest": c.Digest})
		if err != nil || status != 403 || word(got, "error", "code") != "forbidden" {
			t.Errorf("an agent that approves: %d %v %v", status, got, err)
		}
		refused(t, "an answer without a signature", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", ShownDigest: c.Digest, Proof: json.RawMessage(`{}`)}), op.ProofInvalid)
		_, bound, err := x.a.o.engine.CreateToken(ctx, flow.TokenSpec{Name: "bound", Role: op.Agent, Roots: []string{x.a.key}})
		if err != nil {
			t.Fatal(err)
		}
		status, got, err = natsAgent{t, x.open, x.b.key, bound}.delete("marker1", "")
		if err != nil || status != 401 {
			t.Errorf("a token of another machine: %d %v %v", status, got, err)
		}
		for _, role := range []op.Role{op.Observer, op.Reviewer, op.Operator} {
			person := x.agent(x.a, "person-"+string(role), role)
			for _, r := range [][2]string{{"GET", "/v1/approvals"}, {"GET", "/v1/approvals/" + string(c.ID)}, {"POST", "/v1/approvals/" + string(c.ID) + "/answer"}} {
				if status, got, err := person.ask(r[0], r[1], map[string]any{"answer": "approve", "shown_digest": c.Digest}); err != nil || status != 403 {
					t.Errorf("%s %v: %d %v %v", role, r, status, got, err)
				}
			}
		}
		x.waits(x.a, c, "kept.txt")
	})

	t.Run("a token counts for the root of its subject alone, and no route that administers is served", func(t *testing.T) {
		second := filepath.Join(t.TempDir(), "second")
		if err := os.Mkdir(second, 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := x.a.o.engine.AddRoot(ctx, flow.RootSpec{Name: "second", Dir: second})
		if err != nil {
			t.Fatal(err)
		}
		defer x.a.o.engine.RemoveRoot("second")
		agent := natsAgent{t, x.open, x.a.key, x.a.agent}
		if status, got, err := agent.ask("POST", "/v1/call", map[string]any{"op": "write_file", "root": w.Key, "args": map[string]any{"path": "x", "content": "x"}}); err != nil || word(got, "error", "code") != "unknown_root" {
			t.Errorf("a call for another root: %d %v %v", status, got, err)
		}
		_, secret, err := x.a.o.engine.CreateToken(ctx, flow.TokenSpec{Name: "second", Role: op.Agent, Roots: []string{w.Key}})
		if err != nil {
			t.Fatal(err)
		}
		if status, got, err := (natsAgent{t, x.open, x.a.key, secret}).ask("GET", "/v1/status", nil); err != nil || status != 403 {
			t.Errorf("a token of another root: %d %v %v", status, got, err)
		}
		for _, r := range [][2]string{{"POST", "/v1/login"}, {"POST", "/v1/tokens"}, {"POST", "/v1/reviewers"}, {"PUT", "/v1/rules"}, {"POST", "/v1/roots"}, {"GET", "/v1/audit"}, {"POST", "/v1/forget"}, {"GET", "/v1/events"}, {"POST", "/mcp"}, {"POST", "/v1/call/../tokens"}} {
			if _, _, err := agent.ask(r[0], r[1], nil); !errors.Is(err, op.NotAvailable) {
				t.Errorf("%v was sent: %v", r, err)
			}
			m := &natsgo.Msg{Subject: natsbridge.Subject(x.a.key, natsbridge.Call), Header: natsgo.Header{"Holdpoint-Version": {"1.0"}, "Holdpoint-Method": {r[0]}, "Holdpoint-Path": {r[1]}, "Authorization": {"Bearer " + x.a.agent}}, Data: []byte("{}")}
			got, err := x.open.RequestMsg(m, 5*time.Second)
			if err != nil || !bytes.Contains(got.Data, []byte("not_available")) {
				t.Errorf("%v: %v %v", r, got, err)
			}
		}
	})

	t.Run("messages of an unknown major version are refused by name; fields that joined are passed over in cards and nowhere else", func(t *testing.T) {
		send := func(version, body string) string {
			m := &natsgo.Msg{Subject: natsbridge.Subject(x.a.key, natsbridge.Call), Header: natsgo.Header{"Holdpoint-Method": {"POST"}, "Holdpoint-Path": {"/v1/call"}, "Authorization": {"Bearer " + x.a.agent}}, Data: []byte(body)}
			if version != "" {
				m.Header["Holdpoint-Version"] = []string{version}
			}
			got, err := x.open.RequestMsg(m, 5*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return got.Header.Get("Holdpoint-Status") + " " + string(got.Data)
		}
		const view = `{"op":"list_directory","args":{}}`
		for version, want := range map[string]string{"2.0": `422 {"error":{"code":"not_available"`, "0.9": `422 {"error":{"code":"not_available"`, "x": `422 {"error":{"code":"not_available"`, "": `400 {"error":{"code":"bad_request"`, "1.7": `200 `} {
			if got := send(version, view); !strings.HasPrefix(got, want) {
				t.Errorf("version %q: %s", version, got)
			}
		}
		if got := send("2.0", view); !strings.Contains(got, "version 2.0 of the messages is not spoken here") {
			t.Error(got)
		}
		// A newer agent's field in a request is not guessed at.
		if got := send("1.7", `{"op":"list_directory","args":{},"later":1}`); !strings.HasPrefix(got, "400") {
			t.Error(got)
		}
		refused(t, "a field more in an answer", func() error {
			m := &natsgo.Msg{Subject: natsbridge.Subject(x.a.key, natsbridge.Answer), Header: natsgo.Header{"Holdpoint-Version": {"1.7"}, "Holdpoint-Method": {"POST"}, "Holdpoint-Path": {"/v1/approvals/ap_x/answer"}}, Data: []byte(`{"answer":"approve","later":1,"shown_digest":"x","proof":{}}`)}
			got, err := x.open.RequestMsg(m, 5*time.Second)
			if err != nil {
				return err
			}
			var e struct{ Error *op.Error }
			json.Unmarshal(got.Data, &e)
			return e.Error
		}(), op.BadRequest)
		// A newer machine's card: opened, shown with what this hub has no place for, and
		// answerable, since the digest is of all of it.
		kv := must(must(jetstream.New(x.open))(t).KeyValue(ctx, natsbridge.Cards))(t)
		newer := []byte(`{"id":"ap_newer","root":"` + x.a.key + `","title":"Delete 1 file","lines":["delete file x"],"hologram":"spins"}`)
		put := func(version string, id op.ID, frozen []byte) {
			t.Helper()
			b, err := newerEntry(x.secret.Key(), version, x.a.key, id, frozen)
			if err == nil {
				_, err = kv.Put(ctx, x.a.key+"."+string(id), b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put("1.7", "ap_newer", newer)
		if c, err := x.d.card("ap_newer", 5*time.Second); err != nil || !bytes.Equal(c.Frozen, newer) {
			t.Error(err)
		}
		put("2.0", "ap_major", newer)
		awaitIn(t, 5*time.Second, func() bool {
			c, known, _ := x.d.g.One("ap_major")
			return known && !c.Open && strings.Contains(c.Why, "version 2.0 of the messages is not spoken here")
		}, "a card of an unknown major version to be told so")
		for _, id := range []string{"ap_newer", "ap_major"} {
			kv.Purge(ctx, x.a.key+"."+id)
		}
	})

	t.Run("a reply goes to whoever asked and nowhere else", func(t *testing.T) {
		trap := must(x.open.SubscribeSync("trap.>"))(t)
		m := &natsgo.Msg{Subject: natsbridge.Subject(x.a.key, natsbridge.Call), Reply: "trap.here", Header: natsgo.Header{"Holdpoint-Version": {"1.0"}}, Data: []byte("{}")}
		if err := x.open.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if got, err := trap.NextMsg(300 * time.Millisecond); err == nil {
			t.Errorf("the daemon published %s for a stranger", got.Data)
		}
	})

	t.Run("forgery: a hub, a NATS operator and a stolen agent token approve nothing", func(t *testing.T) {
		c := x.hold(x.a, "target.txt", "target\n")
		first := x.hold(x.a, "first.txt", "first\n")
		real := x.ada.signed(first.ID, first.Digest, "approve", "")
		if err := answer(x.a.key, first.ID, real); err != nil {
			t.Fatal(err)
		}
		eve := newSigner(t, "ada")
		refused(t, "a key that nobody enrolled", answer(x.a.key, c.ID, eve.signed(c.ID, c.Digest, "approve", "")), op.ProofInvalid)
		refused(t, "the same answer again", answer(x.a.key, first.ID, real), op.AlreadyAnswered)
		refused(t, "an answer to another card", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", ShownDigest: c.Digest, Proof: real.Proof}), op.ProofInvalid)
		no := x.ada.signed(c.ID, c.Digest, "reject", "no")
		refused(t, "a reject turned round", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", Note: "no", ShownDigest: c.Digest, Proof: no.Proof}), op.ProofInvalid)
		yes := x.ada.signed(c.ID, c.Digest, "approve", "")
		refused(t, "other words", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", Note: "and the rest too", ShownDigest: c.Digest, Proof: yes.Proof}), op.ProofInvalid)
		refused(t, "to be remembered", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", Remember: true, ShownDigest: c.Digest, Proof: yes.Proof}), op.ProofInvalid)
		refused(t, "another digest", answer(x.a.key, c.ID, natsbridge.Signed{Answer: "approve", ShownDigest: first.Digest, Proof: yes.Proof}), op.ProofInvalid)
		refused(t, "on another machine", answer(x.b.key, c.ID, yes), op.NotFound)
		// Whoever runs the servers writes what they like into the bucket: nothing follows it.
		kv := must(must(jetstream.New(x.open))(t).KeyValue(ctx, natsbridge.Cards))(t)
		key := x.a.key + "." + string(c.ID)
		was := must(kv.Get(ctx, key))(t)
		forged := bytes.Replace(was.Value(), []byte(`"state":"pending"`), []byte(`"state":"approved"`), 1)
		if _, err := kv.Put(ctx, key, forged); err != nil {
			t.Fatal(err)
		}
		x.waits(x.a, c, "target.txt")
		awaitIn(t, time.Minute, func() bool {
			e, err := kv.Get(ctx, key)
			return err == nil && bytes.Contains(e.Value(), []byte(`"state":"pending"`))
		}, "the bucket to say again what the journal says")
		// A revoked key answers nothing any more, whatever was signed before.
		list, err := x.a.o.engine.RevokeReviewer(ctx, op.Caller{Name: "operator", Role: op.Operator, LoggedIn: time.Now()}, "ada")
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		refused(t, "a revoked key", answer(x.a.key, c.ID, yes), op.ProofInvalid)
		x.waits(x.a, c, "target.txt")
		x.ada.enroll(x.a)
		// The guard is the signature alone: with it the same message lands.
		if err := answer(x.a.key, c.ID, yes); err != nil || x.a.has("target.txt") {
			t.Error(err)
		}
	})

	t.Run("reading: the servers, another account and another hub see nothing of a card", func(t *testing.T) {
		const canary = "canary-7731"
		c := x.hold(x.a, canary+".txt", canary+"\n")
		if !bytes.Contains(c.Frozen, []byte(canary)) {
			t.Fatal("the hub itself does not see it")
		}
		// All that lies on the disks of the servers, and in the buckets.
		seen := 0
		filepath.WalkDir(x.c.dir, func(p string, e fs.DirEntry, err error) error {
			if b, bad := os.ReadFile(p); bad == nil && err == nil {
				seen++
				if bytes.Contains(b, []byte(canary)) {
					t.Errorf("%s holds what a card shows", filepath.Base(p))
				}
			}
			return nil
		})
		if seen < 5 {
			t.Errorf("only %d files were looked at", seen)
		}
		e := must(must(must(jetstream.New(x.open))(t).KeyValue(ctx, natsbridge.Cards))(t).Get(ctx, x.a.key+"."+string(c.ID)))(t)
		if bytes.Contains(e.Value(), []byte(canary)) || !bytes.Contains(e.Value(), []byte("sealed")) {
			t.Error("the bucket holds what a card shows")
		}
		wrong := newDesk(t, x.open, natsbridge.NewHubSecret())
		awaitIn(t, 5*time.Second, func() bool { s, known, _ := wrong.g.One(c.ID); return known && !s.Open && len(s.Frozen) == 0 }, "another hub to be told nothing")
		other := dial(t, x.c.url(), x.c.creds(otherAccount, "other", nil), "")
		if _, _, err := (natsAgent{t, other, x.a.key, x.a.agent}).ask("GET", "/v1/approvals?mine=true", nil); err == nil {
			t.Error("another account reaches the machine")
		}
		all := must(other.SubscribeSync("holdpoint.>"))(t)
		if _, err := must(jetstream.New(other, jetstream.WithDefaultTimeout(300*time.Millisecond)))(t).KeyValue(ctx, natsbridge.Cards); err == nil {
			t.Error("another account has the bucket")
		}
		x.hold(x.a, "next.txt", "next\n")
		if m, err := all.NextMsg(200 * time.Millisecond); err == nil && !strings.HasPrefix(m.Subject, "holdpoint."+x.a.key) {
			t.Errorf("another account hears %s", m.Subject)
		}
		// A daemon's user reads nothing of another root.
		spy := dial(t, x.c.url(), x.c.creds(fleetAccount, "b", ptr(natsbridge.DaemonMay("spy", x.b.key))), "spy")
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if kv, err := must(jetstream.New(spy))(t).KeyValue(short, natsbridge.Cards); err == nil {
			if e, err := kv.Get(short, x.a.key+"."+string(c.ID)); err == nil {
				t.Errorf("a daemon's user reads %s", e.Key())
			}
		}
	})

	t.Run("a machine without the hub's key shares no more than that a card waits", func(t *testing.T) {
		x.b.link.Close()
		x.b.connect(x.c.url(), x.c.creds(fleetAccount, "m", ptr(natsbridge.DaemonMay(x.b.o.engine.DaemonID(), x.b.key))), natsbridge.HubKey{})
		defer func() { x.b.link.Close(); x.link(x.b) }()
		x.b.write("quiet.txt", "quiet\n")
		_, got := x.b.local("POST", "/v1/call", x.b.agent, map[string]any{"op": "delete_file", "args": map[string]any{"path": "quiet.txt"}})
		id := op.ID(word(got, "approval", "id"))
		awaitIn(t, 5*time.Second, func() bool {
			c, known, _ := x.d.g.One(id)
			return known && !c.Open && strings.Contains(c.Why, "does not share")
		}, "the card without what it shows")
	})

	t.Run("a second daemon with the same root key does not serve it", func(t *testing.T) {
		conf := x.a.o.linkConfig(x.a.server, x.secret.Key(), "clone")
		conf.Daemon, conf.Beat = "clone", 300*time.Millisecond
		l, err := natsbridge.Open(natsbridge.Options{URL: x.c.url(), Creds: x.c.creds(fleetAccount, "clone", nil)}, conf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		awaitIn(t, time.Minute, func() bool { return strings.Contains(l.State().Fault, "served by another daemon") }, "the second one to step back")
		if s := l.State(); len(s.Serves) != 0 || len(x.a.link.State().Serves) != 1 {
			t.Errorf("%+v", s)
		}
	})

	t.Run("without a server review goes on here, nothing is approved by silence, and what ended is told afterwards", func(t *testing.T) {
		away, here := x.hold(x.a, "away.txt", "away\n"), x.hold(x.a, "here.txt", "here\n")
		signed := x.ada.signed(away.ID, away.Digest, "approve", "")
		x.c.nodes[0].kill()
		awaitIn(t, time.Minute, func() bool { return !x.a.link.State().Connected }, "the connection to be lost")
		if _, err := natsbridge.SendAnswer(ctx, x.d.conn, x.a.key, away.ID, signed, time.Second); !errors.Is(err, op.NotReady) {
			t.Errorf("an answer into the void: %v", err)
		}
		row, err := x.a.o.engine.Answer(ctx, op.Caller{Token: "session", Name: "reviewer", Role: op.Operator, LoggedIn: time.Now()}, here.ID, journal.Answer{Answer: "approve", ShownDigest: here.Digest})
		if err != nil || row.State != journal.Executed || x.a.has("here.txt") {
			t.Fatal(row.State, err)
		}
		// The daemon ends too, and starts again beside the servers.
		x.a.close()
		x.c.nodes[0].start()
		x.a.openState()
		x.link(x.a)
		if got := x.d.state(here.ID, 20*time.Second, "executed"); got != "executed" {
			t.Errorf("the hub says %q", got)
		}
		time.Sleep(300 * time.Millisecond) // nothing that was sent before may arrive now
		x.waits(x.a, away, "away.txt")
		if err := answer(x.a.key, away.ID, signed); err != nil || x.a.has("away.txt") {
			t.Errorf("the same answer, sent now: %v", err)
		}
		sameAudit(t, nil, x.c, x.a)
	})
}

// newerEntry is a card as a machine of another version would mirror it, with a field more.
func newerEntry(hub natsbridge.HubKey, version, root string, id op.ID, frozen []byte) ([]byte, error) {
	shown, err := json.Marshal(map[string]any{"card": json.RawMessage(frozen), "later": true})
	if err != nil {
		return nil, err
	}
	sealed, err := box.SealAnonymous(nil, shown, (*[32]byte)(&hub), rand.Reader)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"v": version, "root": root, "id": id, "state": "pending", "shown_digest": "blake3:" + blake3Hex(frozen), "created_at": time.Now(),
		"sealed": base64.StdEncoding.EncodeToString(sealed), "later": true})
}
