package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/op"
)

// within fails the test, with what every goroutine waits for, when nothing moves for a
// minute.
func within(t *testing.T, moved *atomic.Int64, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	for last := int64(-1); ; {
		select {
		case <-done:
			return
		case <-time.After(time.Minute):
			if now := moved.Load(); now != last {
				last = now
				continue
			}
			stacks := make([]byte, 4<<20)
			t.Fatalf("nothing moved for a minute\n%s", stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// TestWalksReadOn: whoever walks the whole record and reads further rows on the way needs no
// second connection for it, so that as many as there are connections do not wait for each other.
func TestWalksReadOn(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	for range 3 {
		added(t, j, held(j, ""))
		begun(t, j, sample(j, ""))
	}
	const walkers = 6 // more than connections
	var moved atomic.Int64
	var inside, all sync.WaitGroup
	errs := make(chan error, walkers)
	inside.Add(walkers)
	within(t, &moved, func() {
		for n := range walkers {
			all.Go(func() {
				first := sync.OnceFunc(func() { inside.Done(); inside.Wait() })
				if n%2 == 0 {
					errs <- j.EachApproval(ctx, func(a Approval, intact bool) error {
						first()
						_, err := j.Approval(ctx, a.ID)
						return err
					})
					return
				}
				errs <- j.EachOperation(ctx, func(o Operation, intact bool) error {
					first()
					_, err := j.Operation(ctx, o.ID)
					return err
				})
			})
		}
		all.Wait()
	})
	for range walkers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestWalkPages: walks meet every row once and in order, over the ends of pages too.
func TestWalkPages(t *testing.T) {
	j := fresh(t)
	for range 2*aPage + 1 {
		begun(t, j, sample(j, ""))
	}
	var up, down []int64
	if err := j.EachOperation(t.Context(), func(o Operation, intact bool) error { up = append(up, o.Seq); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := j.WalkOperations(t.Context(), Filter{Root: "root1"}, func(o Operation) bool { down = append(down, o.Seq); return true }); err != nil {
		t.Fatal(err)
	}
	n := 2*aPage + 1
	if len(up) != n || len(down) != n {
		t.Fatalf("%d and %d rows of %d", len(up), len(down), n)
	}
	for i := range n {
		if up[i] != int64(i+1) || down[i] != int64(n-i) {
			t.Fatalf("row %d: %d upwards, %d downwards", i, up[i], down[i])
		}
	}
	count := 0
	if err := j.WalkOperations(t.Context(), Filter{After: 5}, func(o Operation) bool { count++; return count < aPage+3 }); err != nil || count != aPage+3 {
		t.Errorf("stopped after %d, %v", count, err)
	}
	if list, err := j.Operations(t.Context(), Filter{After: int64(n - 2)}); err != nil || len(list) != 2 {
		t.Errorf("%d above, %v", len(list), err)
	}
}

// TestPanicWithin: a panic in a transaction does not leave everybody else waiting.
func TestPanicWithin(t *testing.T) {
	dir := t.TempDir() + "/state"
	j := open(t, dir)
	ctx := context.Background()
	before := begun(t, j, sample(j, ""))
	var moved atomic.Int64
	within(t, &moved, func() {
		if err := j.write(ctx, durable, func(t *tx) error { panic("a mistake") }); !errors.Is(err, op.IOError) || !strings.Contains(fmt.Sprint(errors.Unwrap(err)), "a mistake") {
			t.Errorf("the panic came back as %v", err)
		}
		if err := j.Begin(ctx, sample(j, "")); !errors.Is(err, op.IOError) {
			t.Errorf("after it: %v", err)
		}
		if _, err := j.Operation(ctx, before); err != nil {
			t.Errorf("reading: %v", err)
		}
		j.Close()
	})
	if j = open(t, dir); j != nil {
		begun(t, j, sample(j, ""))
	}
}

// TestManyAtOnce has everything asked of one journal at the same time, with a log of intents
// so small that it is begun anew all the while. What was acknowledged is there at once and
// after opening anew, and nobody waits for ever. HOLDPOINT_STRESS is how often each does it.
func TestManyAtOnce(t *testing.T) {
	rounds := 10
	if s := os.Getenv("HOLDPOINT_STRESS"); s != "" {
		if _, err := fmt.Sscan(s, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("D81 (part) all is kept, relaxed %v", relaxed), func(t *testing.T) {
			s := &stress{t: t, dir: t.TempDir() + "/state", rounds: rounds, ended: map[op.ID]OpState{}}
			s.run(relaxed)
		})
	}
}

// stress is one run of it.
type stress struct {
	t      *testing.T
	dir    string
	j      *Journal
	rounds int
	phase  int // request ids are of one
	moved  atomic.Int64
	mu     sync.Mutex // guards ended
	ended  map[op.ID]OpState
}

func (s *stress) run(relaxed bool) {
	var err error
	if s.j, err = Open(s.dir, Options{CreatedOK: true, Relaxed: relaxed}); err != nil {
		s.t.Fatal(err)
	}
	s.j.w.queueing.Lock()
	s.j.w.ahead.size = 4 << 10
	epoch := s.j.w.ahead.epoch
	s.j.w.queueing.Unlock()
	for range 2 { // what waits for a flush keeps intents from going ahead: by turns there is none of it, little and much
		within(s.t, &s.moved, func() { s.work(1, s.edit, nil) })
		within(s.t, &s.moved, func() { s.work(3, s.edit, nil) })
		within(s.t, &s.moved, func() { s.work(8, s.write, s.hold) })
	}
	if n := s.j.w.ahead.epoch - epoch; n < 2 || s.j.w.ahead.count.Load() == 0 {
		s.t.Errorf("the log of intents was begun anew %d times, with %d records: this shows nothing", n, s.j.w.ahead.count.Load())
	}
	within(s.t, &s.moved, func() {
		if err := s.j.Close(); err != nil {
			s.t.Error(err)
		}
	})
	s.j = open(s.t, s.dir)
	for id, want := range s.ended {
		if o, err := s.j.Operation(context.Background(), id); err != nil || o.State != want {
			s.t.Fatalf("%s: %q, %v, want %q", id, o.State, err, want)
		}
	}
	if bad, err := s.j.Check(context.Background()); err != nil || len(bad) > 0 {
		s.t.Errorf("check: %v %v", bad, err)
	}
}

// work runs callers side by side, with others who look, until they are done.
func (s *stress) work(most int, write, hold func(n, i int) error) {
	s.phase++
	var writers, others sync.WaitGroup
	stop := make(chan struct{})
	for n := range most {
		writers.Go(func() { s.again(func(i int) error { return write(n, i) }) })
	}
	for n := range 3 {
		if hold != nil {
			writers.Go(func() { s.again(func(i int) error { return hold(n, i) }) })
		}
	}
	for n := range 4 {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(3 * time.Millisecond): // the writers are what counts
				}
				if err := s.look(n, i, hold != nil); err != nil {
					s.t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	others.Wait()
}

func (s *stress) again(do func(i int) error) {
	for i := range s.rounds {
		if err := do(i); err != nil {
			s.t.Error(err)
			return
		}
		s.moved.Add(1)
	}
}

// edit is what most calls are: an intent that goes ahead, and an end that nobody waits for.
func (s *stress) edit(n, i int) error {
	if i%4 == 0 { // what is flushed for another reason opens the way for those that go ahead
		if err := s.j.PutAudit(context.Background(), fmt.Sprintf("e%d.%d.%d", s.phase, n, i), []byte("line")); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	o := edit(s.j)
	if err := s.j.Begin(context.Background(), o); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	s.j.CommitLater(o.ID, []byte("reply"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[o.ID] = Committed
	return nil
}

// write begins an operation, mostly of the kind that goes ahead, ends it in one of the ways
// there are, and reads it back.
func (s *stress) write(n, i int) error {
	ctx, j := context.Background(), s.j
	o := edit(j)
	if i%5 == 4 {
		o = sample(j, fmt.Sprintf("r%d.%d.%d", s.phase, n, i))
	}
	if err := j.Begin(ctx, o); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	want := Committed
	var err error
	switch (n + i) % 7 {
	case 0:
		want, err = Aborted, j.Abort(ctx, o.ID, "stale")
	case 1:
		err = j.Commit(ctx, o.ID, []byte("reply"), "")
	case 2:
		want = Intent
	case 3:
		j.CommitLater(o.ID, []byte("reply"))
		u := sample(j, "")
		u.Undoes = o.ID
		if err = j.Begin(ctx, u); err == nil {
			want, err = Undone, j.Commit(ctx, u.ID, nil, o.ID)
		}
	default:
		j.CommitLater(o.ID, []byte("reply"))
	}
	if err != nil {
		return fmt.Errorf("end: %w", err)
	}
	got, err := j.Operation(ctx, o.ID)
	if err != nil || got.State != want {
		return fmt.Errorf("read at once: %q, %w, want %q", got.State, err, want)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[o.ID] = want
	return nil
}

// hold takes a card through its life, with audit lines put and taken in between.
func (s *stress) hold(n, i int) error {
	ctx, j := context.Background(), s.j
	a := held(j, fmt.Sprintf("h%d.%d.%d", s.phase, n, i))
	key := fmt.Sprintf("k%d.%d.%d", s.phase, n, i)
	if err := errors.Join(j.AddApproval(ctx, a), j.PutAudit(ctx, key, []byte("line"))); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	if i%3 == 0 {
		_, err := j.Cancel(ctx, a.ID, "agent")
		return err
	}
	if _, err := j.Answer(ctx, a.ID, Answer{Answer: "approve", By: "kim"}, time.Now()); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if err := errors.Join(j.Claim(ctx, a.ID), j.Finish(ctx, a.ID, Executed, "", []byte("{}")), j.ClearAudit(ctx, key)); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if row, err := j.Approval(ctx, a.ID); err != nil || row.State != Executed {
		return fmt.Errorf("read at once: %q, %w", row.State, err)
	}
	return nil
}

// look reads in every way; one of the callers goes away in the middle.
func (s *stress) look(n, i int, settings bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	j := s.j
	switch (n + i) % 6 {
	case 0:
		_, err := j.Operations(ctx, Filter{Limit: 20})
		return err
	case 1:
		return j.EachApproval(ctx, func(a Approval, intact bool) error {
			_, err := j.Approval(ctx, a.ID)
			return err
		})
	case 2:
		return j.WalkOperations(ctx, Filter{State: Committed}, func(o Operation) bool { return true })
	case 3:
		_, err := j.Unsettled(ctx)
		return err
	case 4:
		_, err := j.Outbox(ctx)
		return err
	}
	if !settings {
		return nil
	}
	time.AfterFunc(time.Duration(i%5)*100*time.Microsecond, cancel)
	err := j.SetMeta(ctx, fmt.Sprintf("looked %d", n), fmt.Sprint(i))
	if errors.Is(err, op.Cancelled) {
		err = nil
	}
	return err
}
