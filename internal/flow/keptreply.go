package flow

import (
	"context"
	"strings"

	"holdpoint/op"
)

// A reply is kept without its diffs: the operation has one text of all of them. In place of
// each stands where in that text it is, so that a reply that is given again is the same.

// withoutDiffs puts the places of diffs for the diffs themselves.
func withoutDiffs(r op.Reply, all string) op.Reply {
	if m, ok := r.Result.(map[string]any); ok {
		r.Result = slim(m, all)
	}
	return r
}

// slim is withoutDiffs of a result, and of a batch's items as well.
func slim(m map[string]any, all string) map[string]any {
	kept := map[string]any{}
	for k, v := range m {
		switch items, list := v.([]map[string]any); {
		case k == "diff":
			if text, ok := v.(string); ok && (all != "" || text == "") {
				kept[k] = placeOf(text, all)
			}
		case k == "items" && list:
			kept[k] = slimItems(items, all)
		default:
			kept[k] = v
		}
	}
	return kept
}

func slimItems(items []map[string]any, all string) []map[string]any {
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		one := map[string]any{}
		for k, v := range item {
			if r, ok := v.(map[string]any); ok && k == "result" {
				if own, _ := r["diff"].(string); item["operation_id"] != nil {
					v = slim(r, own) // an operation of its own has a text of its own
				} else {
					v = slim(r, all)
				}
			}
			one[k] = v
		}
		out = append(out, one)
	}
	return out
}

// placeOf says where a diff is in the text that is kept: from, to. One that was too long to
// be kept whole is given again as far as it was.
func placeOf(diff, all string) []int {
	if at := strings.Index(all, diff); at >= 0 {
		return []int{at, at + len(diff)}
	}
	return []int{0, len(all)}
}

// withDiffs puts the diffs back into a kept reply. One that cannot be had any more, as of content
// that was forgotten, is left out.
func (e *Engine) withDiffs(ctx context.Context, r op.Reply) op.Reply {
	if m, ok := r.Result.(map[string]any); ok {
		e.putDiffs(ctx, m, r.OperationID)
	}
	return r
}

func (e *Engine) putDiffs(ctx context.Context, result map[string]any, id op.ID) {
	if place, is := result["diff"].([]any); is {
		delete(result, "diff")
		all := e.diffOf(ctx, id)
		if from, to, ok := spanOf(place, all); ok {
			result["diff"] = all[from:to]
		}
	}
	items, _ := result["items"].([]any)
	for _, item := range items {
		one, _ := item.(map[string]any)
		own := id
		if s, ok := one["operation_id"].(string); ok {
			own = op.ID(s)
		}
		if inner, ok := one["result"].(map[string]any); ok {
			e.putDiffs(ctx, inner, own)
		}
	}
}

// diffOf is the text of all diffs of an operation; empty where there is none to be had.
func (e *Engine) diffOf(ctx context.Context, id op.ID) string {
	if id == "" {
		return ""
	}
	o, err := e.jrn.Operation(ctx, id)
	if err != nil {
		return ""
	}
	return string(o.Diff)
}

func spanOf(place []any, all string) (from, to int, ok bool) {
	if len(place) != 2 {
		return 0, 0, false
	}
	for i, dst := range []*int{&from, &to} {
		n, isNumber := place[i].(float64)
		if !isNumber {
			return 0, 0, false
		}
		*dst = int(n)
	}
	return from, to, 0 <= from && from <= to && to <= len(all)
}
