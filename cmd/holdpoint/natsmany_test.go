package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"

	natsbridge "holdpoint/bridge/nats"
	"holdpoint/op"
)

// TestFleetMany links many daemons, each with its own root, state, journal, key and user, to
// three nodes; each lands a delete that a reviewer approved through the hub.
func TestFleetMany(t *testing.T) {
	t.Parallel()
	n := knob("HOLDPOINT_FLEET_DAEMONS", 10)
	c := newCluster(t, 3)
	secret, ada := natsbridge.NewHubSecret(), newSigner(t, "ada")
	hub := dial(t, c.url(), c.creds(fleetAccount, "hub", ptr(natsbridge.HubMay())), natsbridge.HubInbox)
	c.await(func() bool { return natsbridge.MakeStores(context.Background(), hub, 3, 10*time.Second) == nil }, "the buckets and the stream")
	d := newDesk(t, hub, secret)
	runtime.GC()
	before, began := resident(), time.Now()
	dir := t.TempDir()
	machines := make([]*machine, n)
	each(n, 4, func(i int) {
		m := newMachine(t, filepath.Join(dir, strconv.Itoa(i)))
		machines[i] = m
		ada.enroll(m)
		m.write("old.txt", fmt.Sprintf("machine %d\n", i))
		m.connect(c.url(i%3), c.creds(fleetAccount, fmt.Sprint("m", i), ptr(natsbridge.DaemonMay(m.o.engine.DaemonID(), m.key))), secret.Key(),
			func(cfg *natsbridge.Config) { cfg.Beat = 10 * time.Second })
	})
	defer each(n, 4, func(i int) { machines[i].close() })
	awaitIn(t, 10*time.Minute, func() bool {
		return !slices.ContainsFunc(machines, func(m *machine) bool { return len(m.link.State().Serves) != 1 })
	}, "every root to be served")
	t.Logf("fleet: all %d roots are served %.1f s after the first daemon opened", n, time.Since(began).Seconds())
	opened := time.Since(began)
	grown := resident() - before

	conns := make([]*natsgo.Conn, 3)
	for i := range conns {
		conns[i] = dial(t, c.url(i), c.creds(fleetAccount, "agents", &natsbridge.Allow{Publish: []string{natsbridge.Subject("*", natsbridge.Call)}, Subscribe: []string{"_INBOX.agents.>"}}), "agents")
	}
	var mu sync.Mutex
	var asked, shown, done []time.Duration
	began = time.Now()
	each(n, 8, func(i int) {
		m := machines[i]
		start := time.Now()
		status, got, err := natsAgent{t, conns[(i+1)%3], m.key, m.agent}.delete("old.txt", "r")
		if err != nil || status != 202 {
			t.Errorf("%d: %d %v %v", i, status, got, err)
			return
		}
		held := time.Now()
		card, err := d.card(op.ID(word(got, "approval", "id")), 2*time.Minute)
		if err != nil {
			t.Errorf("%d: %v", i, err)
			return
		}
		seen := time.Now()
		out, err := d.answer(ada, card, "approve")
		if err != nil || out["state"] != "executed" || m.has("old.txt") {
			t.Errorf("%d: %v %v, file there: %v", i, out, err, m.has("old.txt"))
		}
		end := time.Now()
		mu.Lock()
		asked, shown, done = append(asked, held.Sub(start)), append(shown, seen.Sub(held)), append(done, end.Sub(seen))
		mu.Unlock()
	})
	took := time.Since(began)
	awaitIn(t, 5*time.Minute, func() bool {
		return !slices.ContainsFunc(machines, func(m *machine) bool { s := m.link.State(); return s.Audit < 4 || s.Unmirrored > 0 })
	}, "every log to be copied")
	t.Logf("fleet: %d daemons in this process beside three nodes: open in %.1f s, %.1f MiB each of %.0f MiB more; %d approved deletes landed in %.1f s",
		n, opened.Seconds(), float64(grown)/float64(n)/(1<<20), float64(grown)/(1<<20), len(done), took.Seconds())
	for name, list := range map[string][]time.Duration{"call over NATS to its card": asked, "card to the hub": shown, "answer at the hub to the file gone": done} {
		slices.Sort(list)
		if len(list) > 0 {
			t.Logf("fleet: %-36s p50 %v, p95 %v, p99 %v, worst %v", name, percentile(list, 50), percentile(list, 95), percentile(list, 99), list[len(list)-1].Round(time.Microsecond*10))
		}
	}
	if len(done) != n {
		t.Errorf("%d of %d landed", len(done), n)
	}
}

func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)].Round(10 * time.Microsecond)
}

// each does something n times, some at once.
func each(n, atOnce int, do func(i int)) {
	jobs := make(chan int)
	var all sync.WaitGroup
	for range atOnce {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range jobs {
				do(i)
			}
		}()
	}
	for i := range n {
		jobs <- i
	}
	close(jobs)
	all.Wait()
}

// resident is this process's memory in bytes.
func resident() int64 { return residentOf("self") }

func residentOf(pid string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10
}
