package journal

import (
	"encoding/json"
	"math"
	"time"

	"holdpoint/op"
)

// cells reads the values of a row in order. A value that cannot be read leaves err set:
// the digest held, so somebody wrote what this program does not know.
type cells struct {
	v   []any
	err error
}

func take[T any](c *cells) (out T) {
	if len(c.v) == 0 {
		return out
	}
	out, _ = c.v[0].(T)
	c.v = c.v[1:]
	return out
}

func (c *cells) str() string     { return take[string](c) }
func (c *cells) id() op.ID       { return op.ID(c.str()) }
func (c *cells) num() int64      { return take[int64](c) }
func (c *cells) flag() bool      { return c.num() != 0 }
func (c *cells) when() time.Time { return fromNanos(c.num()) }

// blob gives nil for no bytes.
func (c *cells) blob() []byte {
	if b := take[[]byte](c); len(b) > 0 {
		return b
	}
	return nil
}

func (c *cells) json(into any) {
	if s := c.str(); s != "" && c.err == nil {
		c.err = json.Unmarshal([]byte(s), into)
	}
}

// Times are kept as nanoseconds since 1970, 0 for the zero time. What lies beyond the year
// 2261 becomes the last moment that fits, so that a far end never turns into one passed.
func nanos(t time.Time) int64 {
	switch {
	case t.IsZero():
		return 0
	case t.Year() > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

func fromNanos(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// full gives bytes that are never NULL in the database.
func full(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("journal: internal error: " + err.Error()) // only for types that have no JSON form
	}
	return string(b)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// stepForm is a step as stored. Names on disk need not be UTF-8, which JSON cannot hold:
// each kind of name goes through the reversible escape of op.Path.
type stepForm struct {
	op.Step
	Slot   op.Path   `json:"slot,omitempty"`
	Copy   op.Path   `json:"copy,omitempty"`
	Before stateForm `json:"before"`
	After  stateForm `json:"after"`
}

type stateForm struct {
	bare
	Target op.Path `json:"target,omitempty"`
}

// bare is a state without its own way to write itself, which knows nothing of the escape.
type bare op.State

func formOf(steps []op.Step) []stepForm {
	out := make([]stepForm, len(steps))
	for i, s := range steps {
		out[i] = stepForm{s, op.Path(s.Slot), op.Path(s.Copy), stateForm{bare(s.Before), op.Path(s.Before.Target)}, stateForm{bare(s.After), op.Path(s.After.Target)}}
	}
	return out
}

func stepsOf(forms []stepForm) []op.Step {
	out := make([]op.Step, len(forms))
	for i, f := range forms {
		s := f.Step
		s.Slot, s.Copy, s.Before, s.After = string(f.Slot), string(f.Copy), op.State(f.Before.bare), op.State(f.After.bare)
		s.Before.Target, s.After.Target = string(f.Before.Target), string(f.After.Target)
		out[i] = s
	}
	return out
}
