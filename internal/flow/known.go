package flow

import (
	"context"
	"crypto/sha256"
	"sync"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// known keeps what every call asks of the journal: whose a token is, and which rules hold
// for it. This process is the only writer of both, and forgets all at each change; whether
// a token or rule still counts at this moment is asked of the copy each time.
type known struct {
	mu     sync.RWMutex
	era    int // grows with each change, so that a reader never keeps what it read before one
	tokens map[[32]byte]journal.Token
	rules  map[op.ID][]journal.Rule
}

// maxKnown bounds the copies; past it all are forgotten.
const maxKnown = 4096

func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.era++
	k.tokens, k.rules = nil, nil
}

// token finds a token by its secret, of which only a digest is kept here.
func (k *known) token(ctx context.Context, secret string, read func() (journal.Token, error)) (journal.Token, error) {
	key := sha256.Sum256([]byte(secret))
	k.mu.RLock()
	t, ok := k.tokens[key]
	era := k.era
	k.mu.RUnlock()
	if ok {
		return t, nil
	}
	t, err := read()
	if err != nil {
		return t, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.era == era {
		if k.tokens == nil || len(k.tokens) > maxKnown {
			k.tokens = map[[32]byte]journal.Token{}
		}
		k.tokens[key] = t
	}
	return t, nil
}

// rulesFor gives the rules of a token that are not revoked.
func (k *known) rulesFor(id op.ID, read func() ([]journal.Rule, error)) ([]journal.Rule, error) {
	k.mu.RLock()
	list, ok := k.rules[id]
	era := k.era
	k.mu.RUnlock()
	if ok {
		return list, nil
	}
	list, err := read()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.era == era {
		if k.rules == nil || len(k.rules) > maxKnown {
			k.rules = map[op.ID][]journal.Rule{}
		}
		k.rules[id] = list
	}
	return list, nil
}
