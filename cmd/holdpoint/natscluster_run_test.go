package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"holdpoint/audit"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// knob gives a number of the environment, or the small one of an ordinary run.
func knob(name string, small int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return small
}

// held is one delete that waits, or waited.
type held struct {
	m    *machine
	file string
	id   op.ID
}

// TestFleetCluster puts approvals through a cluster of three while one node is killed and
// another one is cut off, for a while both at once, so that nothing has a quorum.
func TestFleetCluster(t *testing.T) {
	t.Parallel()
	n := knob("HOLDPOINT_FLEET_APPROVALS", 20)
	c := newCluster(t, 3)
	secret, ada := natsbridge.NewHubSecret(), newSigner(t, "ada")
	hub := dial(t, c.url(0), c.creds(fleetAccount, "hub", ptr(natsbridge.HubMay())), natsbridge.HubInbox)
	c.await(func() bool { return natsbridge.MakeStores(context.Background(), hub, 3, time.Second) == nil }, "the buckets and the stream")
	d := newDesk(t, hub, secret)
	// One machine on each node alone, and two that may go elsewhere.
	var machines []*machine
	for i := range 5 {
		m := newMachine(t, filepath.Join(t.TempDir()))
		t.Cleanup(m.close)
		ada.enroll(m)
		at := c.url(i)
		if i > 2 {
			at = c.url()
		}
		m.connect(at, c.creds(fleetAccount, fmt.Sprint("m", i), ptr(natsbridge.DaemonMay(m.o.engine.DaemonID(), m.key))), secret.Key())
		machines = append(machines, m)
	}
	for _, m := range machines {
		c.await(func() bool { return len(m.link.State().Serves) == 1 }, "the roots to be served")
	}
	agents := dial(t, c.url(0), c.creds(fleetAccount, "agents", &natsbridge.Allow{Publish: []string{natsbridge.Subject("*", natsbridge.Call)}, Subscribe: []string{"_INBOX.agents.>"}}), "agents")

	var counts struct{ overNATS, local, answered, byHub, byPerson, lost, late atomic.Int64 }
	one := func(i int) held {
		m := machines[i%len(machines)]
		h := held{m: m, file: fmt.Sprintf("f%d.txt", i)}
		m.write(h.file, fmt.Sprintf("file %d\n", i))
		agent := natsAgent{t, agents, m.key, m.agent}
		status, got, err := agent.delete(h.file, fmt.Sprint("r", i))
		if err != nil { // the machine cannot be reached now: its agent there goes on, and the ledger has one row
			counts.local.Add(1)
			status, got = m.local("POST", "/v1/call", m.agent, map[string]any{"op": "delete_file", "args": map[string]any{"path": h.file}, "request_id": fmt.Sprint("r", i)})
		} else {
			counts.overNATS.Add(1)
		}
		if status != 202 {
			t.Errorf("%d: %d %v", i, status, got)
			return h
		}
		h.id = op.ID(word(got, "approval", "id"))
		if i%7 == 6 {
			return h // nobody answers: it stays as it is
		}
		card, err := d.card(h.id, time.Second)
		if err != nil || i%5 == 4 { // not shown at the hub, or a person is at the machine anyway
			row, err := m.o.journal.Approval(context.Background(), h.id)
			if err == nil {
				_, err = m.o.engine.Answer(context.Background(), op.Caller{Token: "session", Name: "reviewer", Role: op.Operator, LoggedIn: time.Now()}, h.id, journal.Answer{Answer: "approve", ShownDigest: row.ShownDigest})
			}
			if err != nil {
				t.Errorf("%d: local review: %v", i, err)
			}
			counts.byPerson.Add(1)
			return h
		}
		var sends sync.WaitGroup
		for range 1 + i%2 { // every second one is sent twice at once
			sends.Add(1)
			go func() {
				defer sends.Done()
				for range 3 {
					_, err := d.answer(ada, card, "approve")
					switch {
					case err == nil:
						counts.byHub.Add(1)
						return
					case errors.Is(err, op.AlreadyAnswered):
						counts.late.Add(1)
						return
					case !errors.Is(err, op.NotReady):
						t.Errorf("%d: %v", i, err)
						return
					}
					counts.lost.Add(1)
					time.Sleep(50 * time.Millisecond)
				}
			}()
		}
		sends.Wait()
		return h
	}

	all := make([]held, n)
	phase := func(what string, from, to int) {
		began, work, jobs := time.Now(), sync.WaitGroup{}, make(chan int)
		for range 8 {
			work.Add(1)
			go func() {
				defer work.Done()
				for i := range jobs {
					all[i] = one(i)
				}
			}()
		}
		for i := from; i < to; i++ {
			jobs <- i
		}
		close(jobs)
		work.Wait()
		t.Logf("fleet: %-42s %4d calls in %5.1f s", what, to-from, time.Since(began).Seconds())
	}
	phase("three nodes", 0, n/5)
	c.nodes[2].kill()
	phase("one killed", n/5, 2*n/5)
	c.part(1)
	phase("one killed, one cut off: no quorum", 2*n/5, 3*n/5)
	c.heal()
	phase("one killed, the other one back", 3*n/5, 4*n/5)
	c.nodes[2].start()
	phase("all back", 4*n/5, n)

	executed, pending := 0, 0
	for _, m := range machines {
		ops := map[op.ID]int{}
		list, err := m.o.journal.Operations(context.Background(), journal.Filter{Limit: 10 * n})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			ops[o.ApprovalID]++
		}
		for _, h := range all {
			if h.m != m || h.id == "" {
				continue
			}
			row, err := m.o.journal.Approval(context.Background(), h.id)
			switch {
			case err != nil:
				t.Error(err)
			case row.State == journal.Executed && ops[h.id] == 1 && !m.has(h.file):
				executed++
			case row.State == journal.Pending && ops[h.id] == 0 && m.has(h.file):
				pending++
			default:
				t.Errorf("%s: state %s, %d operations, file there: %v", h.id, row.State, ops[h.id], m.has(h.file))
			}
		}
	}
	began := time.Now()
	for _, h := range all {
		want, err := h.m.o.journal.Approval(context.Background(), h.id)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.state(h.id, 40*time.Second, want.State); got != want.State {
			t.Errorf("the bucket says %q of %s, the journal %q: %+v", got, h.id, want.State, h.m.link.State())
		}
	}
	t.Logf("fleet: the bucket says the same as the journals %.1f s after the end", time.Since(began).Seconds())
	lines := 0
	for _, m := range machines {
		lines += sameAudit(t, hub, c, m)
	}
	t.Logf("fleet: %d approvals: %d executed once, %d pending; %d asked over NATS, %d on the machine; %d answers by the hub, %d by a person there, %d found it answered, %d sends without a reply; %d audit lines in the stream, the same as on the machines",
		n, executed, pending, counts.overNATS.Load(), counts.local.Load(), counts.byHub.Load(), counts.byPerson.Load(), counts.late.Load(), counts.lost.Load(), lines)
	if executed+pending != n || executed == 0 || counts.byHub.Load() == 0 {
		t.Errorf("%d executed and %d pending of %d", executed, pending, n)
	}
}

// sameAudit waits until the stream holds a machine's log, and compares each line.
func sameAudit(t *testing.T, _ *natsgo.Conn, c *cluster, m *machine) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(m.state, "audit", audit.FileName))
	if err != nil {
		t.Fatal(err)
	}
	var want [][]byte
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		want = append(want, bytes.Clone(s.Bytes()))
	}
	awaitIn(t, 40*time.Second, func() bool { return m.link.State().Audit >= int64(len(want)) }, fmt.Sprintf("the audit log of %d lines to be copied: %+v", len(want), m.link.State()))
	got := streamLines(t, c, m.o.engine.DaemonID())
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("the stream has %d lines and the log %d, or others", len(got), len(want))
	}
	return len(got)
}

// streamLines reads what the stream holds of a daemon, as the operator of the servers can.
func streamLines(t *testing.T, c *cluster, daemon string) (lines [][]byte) {
	t.Helper()
	conn := must(natsgo.Connect(c.url(), natsgo.UserCredentials(c.creds(fleetAccount, "all", nil))))(t)
	defer conn.Close()
	js := must(jetstream.New(conn))(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s := must(js.Stream(ctx, natsbridge.Audit))(t)
	info := must(s.Info(ctx, jetstream.WithSubjectFilter(natsbridge.AuditSubject(daemon))))(t)
	n := int(info.State.Subjects[natsbridge.AuditSubject(daemon)])
	cons := must(s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{natsbridge.AuditSubject(daemon)}}))(t)
	for len(lines) < n {
		batch := must(cons.Fetch(min(n-len(lines), 500), jetstream.FetchMaxWait(5*time.Second)))(t)
		got := 0
		for m := range batch.Messages() {
			lines, got = append(lines, bytes.Clone(m.Data())), got+1
		}
		if got == 0 {
			t.Fatalf("%d of %d lines came: %v", len(lines), n, batch.Error())
		}
	}
	return lines
}
