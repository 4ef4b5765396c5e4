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
		text := diffText{all: all}
		kept := text.slim(m)
		if _, had := m["diff"]; had && kept["diff"] == nil && all != "" {
			kept["diff"] = []int{0, len(all)} // too long to be kept whole: it is given again as far as it was
		}
		r.Result = kept
	}
	return r
}

// diffText is the text of all diffs of an operation, in their order, and how far they were found.
type diffText struct {
	all  string
	from int
}

// slim is a result without its diffs, and without those of a batch's items.
func (t *diffText) slim(m map[string]any) map[string]any {
	kept, own := map[string]any{}, *t // a diff beside items is that of all of them
	for k, v := range m {
		switch items, list := v.([]map[string]any); {
		case k == "diff":
			if text, ok := v.(string); ok {
				if place := own.placeOf(text); place != nil {
					kept[k] = place
				}
			}
		case k == "items" && list:
			kept[k] = t.slimItems(items)
		default:
			kept[k] = v
		}
	}
	t.from = max(t.from, own.from)
	return kept
}

func (t *diffText) slimItems(items []map[string]any) []map[string]any {
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		one := map[string]any{}
		for k, v := range item {
			if r, ok := v.(map[string]any); ok && k == "result" {
				text := t
				if own, _ := r["diff"].(string); item["operation_id"] != nil {
					text = &diffText{all: own} // an operation of its own has a text of its own
				}
				v = text.slim(r)
			}
			one[k] = v
		}
		out = append(out, one)
	}
	return out
}

// placeOf says where a diff is in the text: from, to; nil where it was cut off.
func (t *diffText) placeOf(diff string) []int {
	at := strings.Index(t.all[t.from:], diff)
	if at < 0 {
		return nil
	}
	at += t.from
	t.from = at + len(diff)
	return []int{at, t.from}
}

// withDiffs puts the diffs back into a kept reply. One that cannot be had any more, as of content
// that was forgotten, is left out.
func (e *Engine) withDiffs(ctx context.Context, r op.Reply) op.Reply {
	if m, ok := r.Result.(map[string]any); ok {
		read := map[op.ID]string{}
		putDiffs(m, r.OperationID, func(id op.ID) string {
			text, known := read[id]
			if !known {
				text = e.diffOf(ctx, id)
				read[id] = text
			}
			return text
		})
	}
	return r
}

func putDiffs(result map[string]any, id op.ID, textOf func(op.ID) string) {
	if place, is := result["diff"].([]any); is {
		delete(result, "diff")
		all := textOf(id)
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
			putDiffs(inner, own, textOf)
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
