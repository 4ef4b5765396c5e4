package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdpoint/op"

	natsbridge "holdpoint/bridge/nats"
)

func TestNATSOne(t *testing.T) {
	c := newCluster(t, 1)
	m := newMachine(t, t.TempDir())
	defer m.close()
	secret, ada := natsbridge.NewHubSecret(), newSigner(t, "ada")
	ada.enroll(m)
	hub := dial(t, c.url(), c.creds(fleetAccount, "hub", ptr(natsbridge.HubMay())), natsbridge.HubInbox)
	if err := natsbridge.MakeStores(context.Background(), hub, 1, 300*time.Millisecond); err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
	d := newDesk(t, hub, secret)
	m.connect(c.url(), c.creds(fleetAccount, "m", ptr(natsbridge.DaemonMay(m.o.engine.DaemonID(), m.key))), secret.Key())
	agent := natsAgent{t, dial(t, c.url(), c.creds(fleetAccount, "agent", ptr(natsbridge.AgentMay("agent", m.key))), "agent"), m.key, m.agent}
	awaitIn(t, 10*time.Second, func() bool { return len(m.link.State().Serves) == 1 }, "the root to be served")
	m.write("old.txt", "old\n")
	status, got, err := agent.delete("old.txt", "r1")
	if err != nil || status != 202 {
		t.Fatal(status, got, err)
	}
	card, err := d.card(op.ID(word(got, "approval", "id")), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", card.Frozen)
	out, err := d.answer(ada, card, "approve")
	t.Log(out, err)
	if m.has("old.txt") {
		t.Error("still there")
	}
	t.Log(d.state(card.ID, 5*time.Second, "executed"))
	awaitIn(t, 5*time.Second, func() bool { return m.link.State().Audit >= 3 }, "audit")
	t.Log(m.link.State())
}

func ptr[T any](v T) *T { return &v }
