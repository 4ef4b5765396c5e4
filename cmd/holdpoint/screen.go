package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdpoint/op"
)

// screen is the terminal review: a live list, one card at a time, and the history with
// undo. It asks the daemon like every other command and decides nothing.
type screen struct {
	a   *app
	c   *client
	ctx context.Context

	width, height int
	history       bool // else what waits
	cards         []card
	total         int
	done          []operation
	at            int       // the chosen row
	top           int       // the first row or line that shows
	open          bool      // one card or operation is shown in full
	shown         card      // that card, as it was fetched: an answer is about it
	undoes        operation // or that operation
	text          []string  // the lines of what is open, as wide as the screen
	exact         bool

	asking string // "", approve, reject, undo: what the line at the bottom is for
	typed  string
	busy   bool
	told   string // how the last act ended
}

type (
	cardsMsg struct {
		cards []card
		total int
		err   error
	}
	historyMsg struct {
		list []operation
		err  error
	}
	openMsg struct {
		p    approval
		raw  json.RawMessage
		o    operation // where it is one
		diff string
		err  error
	}
	toldMsg struct{ text string }
	toolMsg struct{ err error }
	tickMsg struct{}
)

// reviewScreen runs the terminal review until the person leaves it.
func (a *app) reviewScreen(ctx context.Context, root string) error {
	return a.asReviewer(ctx, root, func(c *client) error {
		// A wrong token shows now, while the next source can still be asked.
		if _, err := c.get(ctx, "/v1/approvals?state=pending&limit=1", nil); err != nil {
			return err
		}
		s := &screen{a: a, c: c, ctx: ctx, width: 80, height: 24}
		_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(a.In), tea.WithOutput(a.Out)).Run()
		if errors.Is(err, tea.ErrProgramKilled) || errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// Init loads the first list.
func (s *screen) Init() tea.Cmd { return tea.Batch(s.load(), soon()) }

func soon() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// load fetches the list that shows. A poll a second over a local socket costs little and
// needs no stream.
func (s *screen) load() tea.Cmd {
	if s.history {
		return func() tea.Msg {
			var got struct {
				Operations []operation `json:"operations"`
			}
			_, err := s.c.get(s.ctx, "/v1/operations?limit=200", &got)
			return historyMsg{got.Operations, err}
		}
	}
	return func() tea.Msg {
		var got struct {
			Approvals []card `json:"approvals"`
			Total     int    `json:"total"`
		}
		_, err := s.c.get(s.ctx, "/v1/approvals?state=pending&limit=200", &got)
		return cardsMsg{got.Approvals, max(got.Total, len(got.Approvals)), err}
	}
}

// Update takes one message. It never waits: what takes time runs as a command.
func (s *screen) Update(m tea.Msg) (tea.Model, tea.Cmd) {
	switch m := m.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = max(m.Width, 20), max(m.Height, 6)
		s.wrap(strings.Join(s.text, "\n"))
	case tickMsg:
		return s, tea.Batch(s.load(), soon())
	case cardsMsg:
		if m.err == nil && !s.history {
			s.cards, s.total = m.cards, m.total
			s.stay()
		} else if m.err != nil {
			s.told = line(op.AsError(m.err).Message)
		}
	case historyMsg:
		if m.err == nil && s.history {
			s.done = m.list
			s.stay()
		}
	case openMsg:
		s.showOpen(m)
	case toldMsg:
		s.busy, s.told, s.open, s.top = false, m.text, false, 0
		return s, s.load()
	case toolMsg:
		if s.told = ""; m.err != nil {
			e := op.AsError(m.err)
			s.told = line(e.Message) + " " + line(e.Hint)
		}
	case tea.KeyPressMsg:
		if s.asking != "" {
			return s, s.answerKey(m)
		}
		return s, s.key(m.String())
	}
	return s, nil
}

// stay keeps the choice within the list.
func (s *screen) stay() { s.at = max(0, min(s.at, s.rows()-1)) }

func (s *screen) rows() int {
	if s.history {
		return len(s.done)
	}
	return len(s.cards)
}

func (s *screen) key(k string) tea.Cmd {
	step := map[string]int{"j": 1, "down": 1, "k": -1, "up": -1, "pgdown": s.height - 6, "space": s.height - 6, "pgup": 6 - s.height, "home": -1 << 30, "g": -1 << 30, "end": 1 << 30, "G": 1 << 30}[k]
	switch {
	case step != 0 && s.open:
		s.top = max(0, min(s.top+step, len(s.text)-1))
	case step != 0:
		s.at = max(0, min(s.at+step, s.rows()-1))
	case k == "q" || k == "ctrl+c":
		return tea.Quit
	case k == "tab" || k == "h" || k == "w":
		s.history = k == "h" || k == "tab" && !s.history
		s.open, s.at, s.top, s.told = false, 0, 0, ""
		return s.load()
	case k == "esc" || k == "backspace":
		s.open, s.top = false, 0
	case k == "enter" && !s.open && s.rows() > 0:
		s.exact = false
		return s.fetch()
	case k == "e" && s.open && !s.history:
		s.exact = !s.exact
		return s.fetch()
	case k == "t" && s.open && !s.history && s.shown.Diff != "":
		return tea.Exec(inTool{s}, func(err error) tea.Msg { return toolMsg{err} })
	case k == "a" && s.answerable():
		s.ask("approve")
	case k == "r" && s.answerable():
		s.ask("reject")
	case k == "u" && s.open && s.history && !s.busy && s.undoes.Undo == "available":
		s.ask("undo")
	}
	return nil
}

func (s *screen) answerable() bool {
	return s.open && !s.history && s.shown.State == "pending" && !s.busy
}

func (s *screen) ask(what string) { s.asking, s.typed, s.told = what, "", "" }

// fetch reads the chosen card or operation in full.
func (s *screen) fetch() tea.Cmd {
	if s.history {
		o := s.done[s.at]
		return func() tea.Msg {
			var d struct {
				Diff string `json:"diff"`
			}
			_, err := s.c.get(s.ctx, "/v1/operations/"+escapeID(o.ID), &d)
			return openMsg{o: o, diff: d.Diff, err: err}
		}
	}
	id := s.cards[s.at].ID
	return func() tea.Msg {
		p, raw, err := s.c.approval(s.ctx, string(id))
		return openMsg{p: p, raw: raw, err: err}
	}
}

func (s *screen) showOpen(m openMsg) {
	if m.err != nil {
		s.told = line(op.AsError(m.err).Message)
		return
	}
	if s.history != (m.o.ID != "") {
		return // the person went to the other list meanwhile
	}
	s.undoes = m.o
	text := s.operationText(m.o, m.diff)
	if m.p.Card != nil {
		var more struct {
			Drifted string `json:"drifted"`
		}
		json.Unmarshal(m.raw, &more)
		s.shown = *m.p.Card
		text = s.a.cardText(s.shown, s.exact)
		if more.Drifted != "" {
			text = s.a.style("33", "CHANGED since this was asked: "+line(more.Drifted)) + "\n" + text
		}
	}
	s.open, s.top = true, 0
	s.wrap(text)
}

// answerKey takes a key of the line at the bottom. What destroys is approved by the whole
// word yes, so that no single key can.
func (s *screen) answerKey(m tea.KeyPressMsg) tea.Cmd {
	switch k := m.String(); k {
	case "esc", "ctrl+c":
		s.asking = ""
	case "backspace":
		if r := []rune(s.typed); len(r) > 0 {
			s.typed = string(r[:len(r)-1])
		}
	case "enter":
		return s.send()
	default:
		if len(s.typed) < 4000 {
			s.typed += m.Key().Text
		}
	}
	return nil
}

func (s *screen) send() tea.Cmd {
	asking, typed := s.asking, s.typed
	if (asking == "undo" || asking == "approve" && s.shown.destroys()) && typed != "yes" {
		s.asking, s.told = "", "Nothing was done: that takes the word yes."
		return nil
	}
	s.asking, s.busy = "", true
	if asking == "undo" {
		id := s.undoes.ID
		return func() tea.Msg { return toldMsg{s.undo(id)} }
	}
	k := s.shown
	return func() tea.Msg { return toldMsg{s.answer(k, asking, typed)} }
}

func (s *screen) answer(k card, word, typed string) string {
	note := typed
	if word == "approve" {
		note = ""
	}
	var after approval
	body := map[string]any{"answer": word, "note": note, "shown_digest": k.ShownDigest}
	if _, err := s.c.do(s.ctx, http.MethodPost, "/v1/approvals/"+escapeID(k.ID)+"/answer", body, &after); err != nil {
		e := op.AsError(err)
		return line(string(e.Code)) + ": " + line(e.Message) + " " + line(e.Hint)
	}
	switch after.State {
	case "rejected":
		return "Rejected: " + line(k.Title)
	case "executed":
		return "Approved and done: " + line(k.Title)
	case "pending":
		return "Your approval is recorded; it takes another person: " + line(k.Title)
	}
	return "Approved, but it is " + line(after.State) + ": " + line(k.Title)
}

func (s *screen) undo(id op.ID) string {
	got, err := s.c.send(s.ctx, http.MethodPost, "/v1/undo", map[string]any{"operation_id": id})
	if err != nil {
		return line(op.AsError(err).Message)
	}
	var r struct {
		Status string    `json:"status"`
		Error  *op.Error `json:"error"`
	}
	if err := json.Unmarshal(got.body, &r); err != nil || r.Status == "" && r.Error == nil {
		return "the daemon's answer is not understood"
	}
	if r.Error != nil {
		return fmt.Sprintf("Not undone: %s: %s %s", line(string(r.Error.Code)), line(r.Error.Message), line(r.Error.Hint))
	}
	return "Undone: " + line(string(id))
}

// inTool hands the terminal to the person's diff tool while it shows the open card.
type inTool struct{ s *screen }

// Run opens the tool and waits for it.
func (t inTool) Run() error { return t.s.a.showInTool(t.s.ctx, t.s.c, string(t.s.shown.ID), "") }

// SetStdin and its like are of no matter: the tool gets the terminal of this command.
func (inTool) SetStdin(io.Reader)  {}
func (inTool) SetStdout(io.Writer) {}
func (inTool) SetStderr(io.Writer) {}
