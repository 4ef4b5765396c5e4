package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"holdpoint/op"
)

// elsewhere is what the daemon says changed since a moment and is not in a list of
// operations: what others did, and what other programs changed.
type elsewhere struct {
	Since    time.Time        `json:"since"`
	Total    int              `json:"total"`
	Changes  []elsewhereEntry `json:"changes"`
	Complete bool             `json:"complete"`
	Why      string           `json:"why,omitempty"`
}

type elsewhereEntry struct {
	Path      string    `json:"path"`
	What      string    `json:"what"`
	Time      time.Time `json:"time"`
	Count     int       `json:"count,omitempty"`
	Operation op.ID     `json:"operation_id,omitempty"`
	Agent     string    `json:"agent,omitempty"`
}

// elsewhere asks for it. That it cannot be had is said, and is no failure of the command.
func (a *app) elsewhere(ctx context.Context, c *client, root string, since time.Time, ours []op.ID) *elsewhere {
	body := map[string]any{"root": root, "since": since.UTC().Format(time.RFC3339Nano), "operations": append([]op.ID{}, ours...)}
	if root == "" {
		delete(body, "root")
	}
	var e elsewhere
	if _, err := c.do(ctx, http.MethodPost, "/v1/elsewhere", body, &e); err != nil {
		fmt.Fprintf(a.Err, "note: what else changed could not be looked at: %s\n", line(op.AsError(err).Message))
		return nil
	}
	return &e
}

// elsewhereOf asks for the window of operations, newest first, that are taken back.
func (a *app) elsewhereOf(ctx context.Context, c *client, path string, ids []op.ID) *elsewhere {
	if len(ids) == 0 {
		return nil
	}
	var got struct {
		Operation operation `json:"operation"`
	}
	if _, err := c.get(ctx, "/v1/operations/"+escapeID(ids[len(ids)-1]), &got); err != nil {
		fmt.Fprintf(a.Err, "note: what else changed could not be looked at: %s\n", line(op.AsError(err).Message))
		return nil
	}
	e := a.elsewhere(ctx, c, got.Operation.Root, got.Operation.Time, ids)
	return e.below(path)
}

// below narrows to what lies at or below a path.
func (e *elsewhere) below(path string) *elsewhere {
	if e == nil || path == "" {
		return e
	}
	kept := *e
	kept.Changes = []elsewhereEntry{}
	for _, c := range e.Changes {
		if op.Path(cleanPath(c.Path)).Within(op.Path(cleanPath(path))) {
			kept.Changes = append(kept.Changes, c)
		}
	}
	kept.Total -= len(e.Changes) - len(kept.Changes)
	return &kept
}

// showElsewhere lists it, without the paths that were told of already.
func (a *app) showElsewhere(e *elsewhere, told map[string]bool) {
	if e == nil {
		return
	}
	rows := [][]string{}
	for _, c := range e.Changes {
		if told[c.Path] {
			continue
		}
		what := line(c.What)
		if c.Agent != "" {
			what += " by " + line(c.Agent)
		}
		if c.Count > 0 {
			what += fmt.Sprintf(" (%s)", plural(int64(c.Count), "path"))
		}
		rows = append(rows, []string{"  " + showPath(op.Path(c.Path)), what, line(string(c.Operation))})
	}
	if len(rows) > 0 {
		fmt.Fprintf(a.Out, "Not ours, since %s:\n", a.clock(e.Since))
		table(a.Out, rows)
	}
	if more := e.Total - len(e.Changes); more > 0 {
		fmt.Fprintf(a.Out, "  and %d more\n", more)
	}
	if !e.Complete {
		fmt.Fprintf(a.Out, "  Not everything was looked at: %s.\n", line(e.Why))
	}
}

// withElsewhere puts it into a document that is printed as JSON.
func withElsewhere(raw json.RawMessage, e *elsewhere) json.RawMessage {
	b, err := json.Marshal(e)
	end := len(raw) - 1
	for end > 0 && raw[end] != '}' {
		end--
	}
	if e == nil || err != nil || end <= 0 {
		return raw
	}
	out := append(append(json.RawMessage{}, raw[:end]...), `,"not_ours":`...)
	return append(append(out, b...), '}')
}

// logElsewhere tells of each root of a log what else changed in its window.
func (a *app) logElsewhere(ctx context.Context, c *client, w wanted, list []operation) []*elsewhere {
	var roots []string
	ours, since := map[string][]op.ID{}, map[string]time.Time{}
	for _, o := range list {
		if ours[o.Root] == nil {
			roots = append(roots, o.Root)
		}
		ours[o.Root], since[o.Root] = append(ours[o.Root], o.ID), o.Time
	}
	if len(list) == 0 && !w.since.IsZero() {
		roots = []string{w.root}
	}
	var out []*elsewhere
	for _, r := range roots {
		from := since[r]
		if !w.since.IsZero() && (w.limit == 0 || len(list) < w.limit) {
			from = w.since
		}
		if e := a.elsewhere(ctx, c, r, from, ours[r]).below(w.path); e != nil {
			out = append(out, e)
		}
	}
	return out
}
