package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"holdpoint/op"
)

// gitResult is what the readings of git answer, as far as people are shown it.
type gitResult struct {
	Repository string          `json:"repository"`
	Branch     string          `json:"branch"`
	Head       string          `json:"head"`
	InProgress string          `json:"in_progress"`
	Entries    []gitEntry      `json:"entries"`
	Files      []gitEntry      `json:"files"`
	Commits    json.RawMessage `json:"commits"`
	Lines      []gitLines      `json:"lines"`
	Diff       string          `json:"diff"`
	Content    *string         `json:"content"`
	Undecided  []op.Path       `json:"undecided"`
	Unmerged   []op.Path       `json:"unmerged"`
	Next       json.RawMessage `json:"next"`
	NextArg    string          `json:"next_arg"`
	gitCommit
}

type gitEntry struct {
	Path   op.Path `json:"path"`
	From   op.Path `json:"from"`
	Status string  `json:"status"`
	Name   string  `json:"name"`
}

type gitCommit struct {
	Commit  string `json:"commit"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
	Date    string `json:"date"` // of a commit in a blame
	Author  struct {
		Name  string `json:"name"`
		Email string `json:"email"`
		Date  string `json:"date"`
	} `json:"author"`
	Committer struct {
		Date string `json:"date"`
	} `json:"committer"`
}

type gitLines struct {
	Line    int    `json:"line"`
	EndLine int    `json:"end_line"`
	Commit  string `json:"commit"`
	Text    string `json:"text"`
}

// showGit prints a reading of git; false where it has another shape.
func (a *app) showGit(name op.Name, raw json.RawMessage) bool {
	var g gitResult
	if json.Unmarshal(raw, &g) != nil {
		return false
	}
	switch name {
	case op.GitStatus:
		a.showGitStatus(g)
	case op.GitLog:
		var list []gitCommit
		if json.Unmarshal(g.Commits, &list) != nil {
			return false
		}
		for _, c := range list {
			fmt.Fprintf(a.Out, "%s %s %s  %s\n", a.bold(short(c.Commit)), day(c.Committer.Date), line(c.Author.Name), line(c.Subject))
		}
	case op.GitBlame:
		if !a.showGitBlame(g) {
			return false
		}
	case op.GitShow, op.GitDiff:
		if !a.showGitDiff(g) {
			return false
		}
	default:
		return false
	}
	for _, p := range g.Unmerged {
		fmt.Fprintf(a.Err, "note: unmerged: %s\n", showPath(p))
	}
	for _, p := range g.Undecided {
		fmt.Fprintf(a.Err, "note: only a program of the configuration could tell whether it changed: %s\n", showPath(p))
	}
	if len(g.Next) > 0 {
		arg := g.NextArg
		if arg == "" {
			arg = "page"
		}
		fmt.Fprintf(a.Err, "note: there is more; add %s=%s\n", line(arg), line(strings.Trim(string(g.Next), `"`)))
	}
	return true
}

func (a *app) showGitStatus(g gitResult) {
	at := "at " + short(g.Head)
	switch {
	case g.Branch != "" && g.Head == "":
		at = "on " + g.Branch + ", no commit yet"
	case g.Branch != "":
		at = "on " + g.Branch + ", " + at
	}
	if g.InProgress != "" {
		at += ", in the middle of a " + g.InProgress
	}
	fmt.Fprintln(a.Out, line(at))
	for _, e := range g.Entries {
		from := ""
		if e.From != "" {
			from = showPath(e.From) + " -> "
		}
		fmt.Fprintf(a.Out, "%s %s%s\n", line(e.Status), from, showPath(e.Path))
	}
	if len(g.Entries) == 0 && len(g.Undecided) == 0 {
		fmt.Fprintln(a.Out, "Nothing changed.")
	}
}

func (a *app) showGitDiff(g gitResult) bool {
	if g.Content != nil {
		fmt.Fprint(a.Out, block(*g.Content, plain))
		return true
	}
	if g.Files == nil {
		return false
	}
	if g.Commit != "" {
		fmt.Fprintf(a.Out, "%s\n%s <%s>, %s\n\n    %s\n", a.bold("commit "+line(g.Commit)), line(g.Author.Name), line(g.Author.Email), line(g.Author.Date), line(g.Subject))
		if g.Body != "" {
			fmt.Fprint(a.Out, block("\n"+g.Body, plain))
		}
		fmt.Fprintln(a.Out)
	}
	if g.Diff != "" {
		fmt.Fprint(a.Out, block(g.Diff, a.diffLine))
		return true
	}
	if len(g.Files) == 0 && g.Commit == "" && len(g.Undecided) == 0 {
		fmt.Fprintln(a.Out, "Nothing changed.")
	}
	for _, e := range g.Files {
		fmt.Fprintf(a.Out, "%s %s\n", line(e.Status), showPath(e.Path))
	}
	return true
}

func (a *app) showGitBlame(g gitResult) bool {
	commits := map[string]gitCommit{}
	if json.Unmarshal(g.Commits, &commits) != nil {
		return false
	}
	for _, l := range g.Lines {
		c := commits[l.Commit]
		who := "not committed"
		if l.Commit != "" {
			who = day(c.Date) + " " + c.Author.Name
		}
		n := l.Line
		for text := range strings.Lines(l.Text) {
			fmt.Fprintf(a.Out, "%-8s %-28.28s %5d  %s\n", short(l.Commit), line(who), n, line(strings.TrimSuffix(text, "\n")))
			n++
		}
	}
	return true
}

func short(hash string) string { return line(hash[:min(len(hash), 8)]) }
func day(date string) string   { return line(date[:min(len(date), 10)]) }
