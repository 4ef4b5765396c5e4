package client

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one thing that happened. It holds ids, never content.
type Event struct {
	Seq   int64          `json:"seq"`
	Type  string         `json:"type"`
	Time  time.Time      `json:"time"`
	Root  string         `json:"root"`
	Agent string         `json:"agent"`
	Data  map[string]any `json:"data"`
}

// Events hands each event after a number to each, in order, until ctx ends or each gives
// an error, and gives that. When the connection ends it goes on where it was: no event
// comes twice, and none is left out while the daemon still remembers it.
func (c *Client) Events(ctx context.Context, after int64, each func(Event) error) error {
	for {
		err := c.stream(ctx, &after, each)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !IsLost(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream reads one connection to its end.
func (c *Client) stream(ctx context.Context, after *int64, each func(Event) error) error {
	r, err := c.request(ctx, http.MethodGet, "/v1/events", nil)
	if err != nil {
		return err
	}
	if *after > 0 {
		r.Header.Set("Last-Event-ID", strconv.FormatInt(*after, 10))
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return lost(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return failure(resp.StatusCode, nil)
	}
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			continue // of a newer daemon
		}
		if err := each(e); err != nil {
			return err
		}
		*after = e.Seq
	}
	return nil
}
