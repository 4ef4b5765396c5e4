package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"holdpoint/decision"
	"holdpoint/op"
)

// head is the first line of a recording: what all calls have in common.
type head struct {
	Hour        int            `json:"hour"`
	What        string         `json:"what"`
	Client      string         `json:"client"`
	Profile     op.Profile     `json:"profile"`
	Environment op.Environment `json:"environment"`
}

// made is one recorded call. A read has nothing but its name: no fact changes how it is
// judged in mode auto.
type made struct {
	At      int       `json:"at"` // second of the hour
	Read    op.Name   `json:"read,omitempty"`
	Request *op.Terms `json:"request,omitempty"`
	Facts   op.Facts  `json:"facts,omitzero"`
	Run     string    `json:"run,omitempty"`    // of a program: what kind, "go test"
	Leaves  bool      `json:"leaves,omitempty"` // it changes the workspace
}

// tally is what one hour came to.
type tally struct {
	head
	calls, reads, auto int
	cards              map[op.Reason]int // by the leading reason
	runs               map[string]int    // cards that are programs, by kind
	rehearsed, sets    int               // programs that a rehearsal would run without a card, and those of them whose change set is one
}

func (t tally) total() int {
	n := 0
	for _, c := range t.cards {
		n += c
	}
	return n
}

// withRehearsal counts the cards when programs are rehearsed first: one for each change
// set that is not empty, and none for a run that leaves nothing behind.
func (t tally) withRehearsal() int { return t.total() - t.rehearsed + t.sets }

func report(out io.Writer, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no recordings in %s", dir)
	}
	slices.Sort(files)
	all := tally{cards: map[op.Reason]int{}, runs: map[string]int{}}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "hour\tcalls\treads\tby itself\tcards\twith rehearsal\t  what\t")
	over, worst := 0, 0
	for _, f := range files {
		t, err := judgeHour(f)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t  %s\t\n", t.Hour, t.calls, t.reads, t.auto, t.total(), t.withRehearsal(), t.What)
		if t.withRehearsal() > 6 {
			over++
		}
		worst = max(worst, t.withRehearsal())
		all.calls, all.reads, all.auto = all.calls+t.calls, all.reads+t.reads, all.auto+t.auto
		all.rehearsed, all.sets = all.rehearsed+t.rehearsed, all.sets+t.sets
		for r, n := range t.cards {
			all.cards[r] += n
		}
		for r, n := range t.runs {
			all.runs[r] += n
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n := float64(len(files))
	fmt.Fprintf(out, "\ncards per hour, by the reason that leads (%d hours, %d calls):\n", len(files), all.calls)
	for _, r := range slices.SortedFunc(maps.Keys(all.cards), func(a, b op.Reason) int { return all.cards[b] - all.cards[a] }) {
		fmt.Fprintf(out, "  %5.1f  %s\n", float64(all.cards[r])/n, r)
	}
	fmt.Fprintf(out, "  %5.1f  in all; %.1f with the operator's rehearsal switch on\n", float64(all.total())/n, float64(all.withRehearsal())/n)
	fmt.Fprintf(out, "\nprograms (%d): ", all.cards[op.ReasonProcess])
	var kinds []string
	for _, k := range slices.SortedFunc(maps.Keys(all.runs), func(a, b string) int { return all.runs[b] - all.runs[a] }) {
		kinds = append(kinds, fmt.Sprintf("%s %d", k, all.runs[k]))
	}
	fmt.Fprintf(out, "%s\n%d of them would be rehearsed without a card; %d of those leave a change set, which is a card\n", strings.Join(kinds, ", "), all.rehearsed, all.sets)
	fmt.Fprintf(out, "hours over six cards with rehearsal: %d of %d, the worst has %d\n", over, len(files), worst)
	return nil
}

func judgeHour(file string) (tally, error) {
	t := tally{cards: map[op.Reason]int{}, runs: map[string]int{}}
	f, err := os.Open(file)
	if err != nil {
		return t, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for n := 1; lines.Scan(); n++ {
		into := any(&made{})
		if n == 1 {
			into = &t.head
		}
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			return t, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if m, ok := into.(*made); ok {
			t.add(*m)
		}
	}
	return t, lines.Err()
}

func (t *tally) add(m made) {
	t.calls++
	if m.Read != "" {
		m.Request = &op.Terms{Op: m.Read, Backup: true}
	}
	d := decision.Judge(*m.Request, t.Profile, m.Facts, t.Environment)
	switch {
	case d.Reason == op.ReasonReadOnly:
		t.reads++
	case d.Verdict == op.Auto:
		t.auto++
	default:
		t.cards[d.Reason]++
		if m.Run != "" {
			t.runs[m.Run]++
			t.rehearse(m)
		}
	}
}

// rehearse asks the judgement once more as the operator's switch would have it.
func (t *tally) rehearse(m made) {
	m.Facts.ConfinedRehearsal = true
	env := t.Environment
	env.RehearseWithoutReview = true
	if decision.Judge(*m.Request, t.Profile, m.Facts, env).Reason != op.ReasonConfinedRehearsal {
		return
	}
	t.rehearsed++
	if m.Leaves {
		t.sets++
	}
}
