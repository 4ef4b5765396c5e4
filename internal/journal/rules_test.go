package journal

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdpoint/op"
)

func TestRules(t *testing.T) {
	j := fresh(t)
	ctx := t.Context()
	grant := Rule{ID: j.NewID("ru_"), Kind: GrantRule, Root: "k", Token: "tk_1", Scope: "project", MaxTier: op.T2, Operations: []op.Name{op.WriteFile},
		Paths: []string{"src/**"}, MaxCount: 5, MaxBytes: 1000, By: "p", Created: time.Unix(9, 0).UTC(), Expires: time.Now().Add(time.Hour).UTC()}
	if err := j.AddRule(ctx, grant); err != nil {
		t.Fatal(err)
	}
	// However many use it at once, no more than its count get through.
	var through atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			switch err := j.UseRule(ctx, grant.ID, 10); {
			case err == nil:
				through.Add(1)
			case !errors.Is(err, op.NotAvailable):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if through.Load() != 5 {
		t.Errorf("%d uses of 5 got through", through.Load())
	}
	list, err := j.RulesFor(ctx, "tk_1")
	if err != nil || len(list) != 1 || list[0].Used != 5 || list[0].UsedBytes != 50 || list[0].Live(time.Now()) {
		t.Fatalf("got %+v, %v", list, err)
	}
	if _, err := j.RevokeRule(ctx, grant.ID, "q"); err != nil {
		t.Fatal(err)
	}
	if list, err = j.RulesFor(ctx, "tk_1"); err != nil || len(list) != 0 {
		t.Errorf("a revoked rule is still handed out: %v, %v", list, err)
	}
	if list, err = j.Rules(ctx); err != nil || len(list) != 1 || list[0].RevokedBy != "q" || list[0].Paths[0] != "src/**" {
		t.Errorf("got %+v, %v", list, err)
	}
}
