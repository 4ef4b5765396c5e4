package main

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// wrap breaks what is open at the width of the screen; nothing of it is cut.
func (s *screen) wrap(text string) {
	if text == "" {
		s.text = nil
		return
	}
	s.text = strings.Split(strings.TrimRight(ansi.Hardwrap(strings.ReplaceAll(text, "\t", "    "), s.width, true), "\n"), "\n")
}

// View draws head, body and foot. Every text in it has been made visible before.
func (s *screen) View() tea.View {
	body := s.listLines
	if s.open {
		body = s.openLines
	}
	room := s.height - 3
	lines := append([]string{s.head()}, body(room)...)
	for len(lines) < room+1 {
		lines = append(lines, "")
	}
	lines = append(lines, s.cut(s.told), s.foot())
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "Holdpoint review"
	return v
}

func (s *screen) head() string {
	name := fmt.Sprintf("Waiting for a person: %d", s.total)
	if s.history {
		name = "What was done, newest first"
	}
	return s.a.bold(s.cut("Holdpoint  " + name))
}

// cut shortens a line of a list, which says so by its last sign; the open form is never cut.
func (s *screen) cut(text string) string { return ansi.Truncate(text, s.width, "…") }

func (s *screen) listLines(room int) []string {
	if s.rows() == 0 {
		return []string{"", "  Nothing here. New requests appear by themselves."}
	}
	from := max(0, min(s.at-room/2, s.rows()-room))
	var out []string
	for i := from; i < min(from+room, s.rows()); i++ {
		mark := "  "
		if i == s.at {
			mark = "> "
		}
		text := s.cut(mark + s.rowText(i))
		if i == s.at {
			text = s.a.style("7", text)
		}
		out = append(out, text)
	}
	if left := s.total - len(s.cards); !s.history && left > 0 && len(out) > 0 && from+room >= s.rows() {
		out[len(out)-1] = s.cut(fmt.Sprintf("  and %d more, which come as these are answered", left+1))
	}
	return out
}

func (s *screen) rowText(i int) string {
	if s.history {
		o := s.done[i]
		return fmt.Sprintf("%-9s %-16s %s  %s  %s", s.a.clock(o.Time), line(string(o.Op)), paths(o.Paths), line(o.Undo), line(o.Agent))
	}
	k := s.cards[i]
	first := ""
	if len(k.Lines) > 0 {
		first = line(k.Lines[0])
	}
	return fmt.Sprintf("%s  %-24s %s  %s", line(string(k.Tier)), line(k.Title), first, joined(", ", line(k.Agent), s.a.until(k.ExpiresAt)))
}

func (s *screen) openLines(room int) []string {
	s.top = max(0, min(s.top, len(s.text)-room))
	out := append([]string(nil), s.text[s.top:min(s.top+room, len(s.text))]...)
	if left := len(s.text) - s.top - room; left > 0 {
		out[len(out)-1] = s.a.style("33", s.cut(fmt.Sprintf("-- %d more lines below: space --", left+1)))
	}
	return out
}

func (s *screen) foot() string {
	switch {
	case s.asking == "approve" && s.shown.destroys():
		return s.cut(s.a.bold(line(s.shown.Title)+"? Type yes and Enter: ") + line(s.typed))
	case s.asking == "approve":
		return s.cut(s.a.bold("Approve: " + line(s.shown.Title) + "? Enter approves, Esc does not"))
	case s.asking == "reject":
		return s.cut(s.a.bold("Words for the agent, Enter rejects: ") + line(s.typed))
	case s.asking == "undo":
		return s.cut(s.a.bold("Put it back as it was? Type yes and Enter: ") + line(s.typed))
	case s.busy:
		return "one moment"
	case s.open && s.history:
		return s.cut("u undo   j k scroll   Esc list   q quit")
	case s.open:
		return s.cut("a approve: " + line(s.shown.Title) + "   r reject   e exact call   t diff tool   j k scroll   Esc list   q quit")
	case s.history:
		return s.cut("Enter open   j k choose   w waiting   q quit")
	}
	return s.cut("Enter open   j k choose   h history   q quit")
}

// operationText words one operation of the history.
func (s *screen) operationText(o operation, diff string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.a.bold(line(string(o.Op))))
	for _, row := range [][2]string{{"operation", line(string(o.ID))}, {"when", s.a.clock(o.Time)}, {"asked by", line(o.Agent)}, {"undo", line(o.Undo)}} {
		fmt.Fprintf(&b, "%-10s %s\n", row[0], row[1])
	}
	for _, p := range o.Paths {
		fmt.Fprintf(&b, "  * %s\n", showPath(p))
	}
	if diff != "" {
		b.WriteString(block(diff, s.a.diffLine))
	}
	return b.String()
}
