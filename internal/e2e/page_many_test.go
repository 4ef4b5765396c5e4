package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/internal/ports"
	"holdpoint/op"
)

// TestPageManyCards puts thousands of cards into the queue and works with the page. All
// but the first are written straight into the journal, as the daemon writes them: asking
// for each would take longer and prove no more.
func TestPageManyCards(t *testing.T) {
	cards := 10_000
	if raceEnabled {
		cards = 2_500
		t.Log("with the race detector, which is for races and not for times, only 2,500; make test runs this once more without it")
	}
	addr := ports.Addr(t)
	d := start(t, "--listen", addr)
	first := d.held("first.txt", "x")
	for i := range 3 {
		write(t, filepath.Join(d.Root, fmt.Sprintf("f%d.txt", i)), "x")
	}
	d.stop(syscall.SIGTERM)
	fill(t, d.State, op.ID(first), cards-1)
	d.run()
	limit := 100 * time.Millisecond
	if raceEnabled {
		limit *= 6 // the race detector's own cost
	}
	t.Run("ten thousand cards: a page of the list comes within its time", func(t *testing.T) {
		d.reviewer() // logging in is slow by design
		var took []time.Duration
		for range 7 {
			from := time.Now()
			code, got := d.http("GET", "/v1/approvals?state=pending&limit=100", d.reviewer(), nil)
			took = append(took, time.Since(from))
			if list, _ := got["approvals"].([]any); code != 200 || len(list) != 100 || got["total"] != float64(cards) || got["next"] == nil {
				t.Fatalf("got %d, %d cards of %v, next %v", code, len(list), got["total"], got["next"])
			}
		}
		slices.Sort(took)
		t.Logf("the first 100 of %d cards: fastest %v, middle %v, slowest %v", cards, took[0], took[len(took)/2], took[len(took)-1])
		if took[0] > limit {
			t.Errorf("took at best %v, want %v", took[0], limit)
		}
	})
	t.Run("all pages together are each card once", func(t *testing.T) {
		seen := map[string]bool{}
		for next, pages := "0", 0; next != "<nil>"; pages++ {
			_, got := d.http("GET", "/v1/approvals?state=pending&limit=1000&next="+next, d.reviewer(), nil)
			for _, c := range got["approvals"].([]any) {
				seen[text(c.(M), "id")] = true
			}
			if next = fmt.Sprint(got["next"]); got["next"] != nil {
				next = fmt.Sprintf("%.0f", got["next"])
			}
			if pages > 11 {
				t.Fatal("the pages do not end")
			}
		}
		if len(seen) != cards {
			t.Errorf("got %d cards, want %d", len(seen), cards)
		}
	})
	t.Run("a new call is held among them without delay", func(t *testing.T) {
		from := time.Now()
		must(t, d.call("delete_file", M{"path": "f0.txt"}), "review")
		took := time.Since(from)
		t.Log("held in ", took)
		if took > 20*limit {
			t.Errorf("took %v", took)
		}
	})
	b := openBrowser(t, addr)
	t.Run("the page shows the first hundred, counts the rest, shows more and opens any", func(t *testing.T) {
		b.signIn("#/approvals/" + first)
		b.lists(100)
		if got, want := b.get(`(document.getElementById('count').textContent + '|' + document.getElementById('more').textContent).replaceAll(',', '')`),
			fmt.Sprintf("%d|Show 100 more (%d not shown)", cards+1, cards-99); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		b.click("#more")
		b.lists(200)
		b.shows("first.txt")
		from := time.Now()
		b.to("#/")
		b.shows("Choose a card to read it.") // before that the open card is where keys go on from
		b.keys("j")
		b.keys("j")
		b.waits("the second has the focus", `document.activeElement === document.querySelectorAll('#list a.row')[1]`)
		t.Logf("two steps by key in %v", time.Since(from))
		b.click("#list li:first-child a.row")
		b.shows("Delete 1 file")
		b.click("#approve")
		b.click("#confirm")
		b.shows("This card is done.")
		b.waits("the count went down", fmt.Sprintf(`document.getElementById('count').textContent.replaceAll(',', '') === '%d'`, cards))
		b.lists(199)
		if there(filepath.Join(d.Root, "first.txt")) {
			t.Error("the file is still there")
		}
	})
	t.Run("a flood of new cards is counted, and does not grow the page", func(t *testing.T) {
		for i := 1; i < 3; i++ {
			must(t, d.call("delete_file", M{"path": fmt.Sprintf("f%d.txt", i)}), "review")
		}
		b.waits("they are counted", fmt.Sprintf(`document.getElementById('count').textContent.replaceAll(',', '') === '%d'`, cards+2))
		b.lists(199)
	})
}

// fill copies one pending row n times under other ids, paths and digests.
func fill(t *testing.T, state string, id op.ID, n int) {
	t.Helper()
	j, err := journal.Open(state, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx := context.Background()
	like, err := j.Approval(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	work := make(chan int)
	var all sync.WaitGroup
	for range 64 { // the journal flushes many at once
		all.Go(func() {
			for i := range work {
				a := like
				a.ID, a.RequestID, a.Created = j.NewID("ap_"), "", time.Now()
				a.Card = bytes.ReplaceAll(like.Card, []byte(id), []byte(a.ID))
				a.CallDigest, a.Identity = fmt.Sprint("blake3:", i), fmt.Sprintf("delete_file:many/%d.txt#blake3:%d", i, i)
				a.Pins = []op.Pin{{Path: op.Path(fmt.Sprintf("many/%d.txt", i)), Kind: op.File, Hash: "blake3:0"}}
				if err := j.AddApproval(ctx, a); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	from := time.Now()
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	t.Logf("%d rows written in %v", n, time.Since(from))
}
