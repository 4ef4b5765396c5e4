package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// hurt names the rows of the queue that were found not to be as they were written. Nobody
// can answer such a row and nothing carries it out; it hides no other and stops nothing.
type hurt struct {
	mu  sync.Mutex // guards ids
	ids []op.ID
}

func (h *hurt) add(left *journal.Damaged) {
	if left == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range left.Rows {
		if !slices.Contains(h.ids, id) {
			h.ids = append(h.ids, id)
		}
	}
}

// warning words them for status; ids only for who may see all rows.
func (h *hurt) warning(by op.Caller) *op.Warning {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ids) == 0 {
		return nil
	}
	message := fmt.Sprintf("%d rows of the queue are not as they were written: nobody can answer them and nothing carries them out", len(h.ids))
	if by.Role.Includes(op.Observer) && len(by.Roots) == 0 {
		var names []string
		for _, id := range h.ids {
			names = append(names, op.Visible(string(id), false))
		}
		message += ": " + strings.Join(names, ", ") + "; holdpoint verify lists what is damaged"
	}
	return &op.Warning{Code: string(op.StateCorrupt), Message: message}
}

// rows lists rows of the queue. Those that are not as they were written are left out.
func (e *Engine) rows(ctx context.Context, f journal.ApprovalFilter) ([]journal.Approval, error) {
	rows, _, err := e.listed(ctx, f)
	return rows, err
}

// listed is rows, and tells which were left out; never nil without an error.
func (e *Engine) listed(ctx context.Context, f journal.ApprovalFilter) ([]journal.Approval, *journal.Damaged, error) {
	rows, err := e.jrn.Approvals(ctx, f)
	left, err := journal.Intact(err)
	if e.hurt.add(left); left == nil {
		left = &journal.Damaged{}
	}
	return rows, left, err
}
