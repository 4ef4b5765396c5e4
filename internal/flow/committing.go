package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"holdpoint/fileops"
	"holdpoint/internal/gitread"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// committed is what a git commit among the commands would record, as far as that can be told
// before the script runs: read from the repository, no git is run for it. The card shows it and it is
// pinned: something else in the index when it is released is stale_precondition.
type committed struct {
	lines []string
	diff  string
}

const maxCommitDiff = 1 << 20

// commits looks for one; the zero value where there is none.
func (e *Engine) commits(ctx context.Context, c *call, p *process) (out committed) {
	staging := false
	for _, cmd := range p.reading.Commands {
		dir, words := gitWords(p.dir, cmd.Words)
		switch {
		case len(words) == 0:
		case words[0] == "add", words[0] == "rm", words[0] == "mv", words[0] == "stage":
			staging = true
		case words[0] == "commit":
			return e.preview(ctx, c, dir, words[1:], staging)
		}
	}
	return out
}

// gitWords gives the words of a git command from its verb on, and where it works; nil for any
// other program.
func gitWords(dir string, words []string) (string, []string) {
	if len(words) == 0 || path.Base(words[0]) != "git" {
		return dir, nil
	}
	for words = words[1:]; len(words) > 0 && strings.HasPrefix(words[0], "-"); words = words[1:] {
		if len(words) == 1 || words[0] != "-C" && words[0] != "-c" {
			continue
		}
		if words[0] == "-C" {
			if to := words[1]; filepath.IsAbs(to) {
				dir = to
			} else {
				dir = filepath.Join(dir, to)
			}
		}
		words = words[1:]
	}
	return dir, words
}

func (e *Engine) preview(ctx context.Context, c *call, dir string, words []string, staging bool) (out committed) {
	at, ok := c.inside(dir)
	if !ok {
		return committed{lines: []string{"it commits outside of this workspace, which is not previewed"}}
	}
	most := int64(maxCommitDiff)
	args := &op.GitDiffArgs{Path: op.Escape(string(at)), Staged: true, MaxBytes: &most}
	for i, w := range words {
		switch {
		case w == "--":
			args.Paths = words[i+1:]
		case w == "-a", w == "--all", strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.Contains(strings.SplitN(w, "m", 2)[0], "a"):
			args.Staged, args.From = false, "HEAD"
		case w == "--amend":
			out.lines = append(out.lines, "it AMENDS the commit before, whose own changes are not in the preview")
		}
		if w == "--" {
			break
		}
	}
	if len(args.Paths) > 0 {
		args.Staged, args.From = false, "HEAD"
	}
	if staging {
		args.Staged, args.From = false, "HEAD"
		out.lines = append(out.lines, "the script stages before it commits: the preview is of all changed files that git tracks, without new ones")
	}
	o, _ := e.gitOptions(c, fileops.Scene{Args: args, Targets: []op.Target{{Path: at}}})
	got, err := gitread.Read(ctx, o, args)
	if err != nil && args.From == "HEAD" && op.AsError(err).Code == op.NotFound { // the first commit of all
		args.Staged, args.From = true, ""
		got, err = gitread.Read(ctx, o, args)
	}
	if err != nil {
		out.lines = append(out.lines, "what it would commit cannot be previewed: "+op.AsError(err).Message)
		return out
	}
	out.diff, _ = got["diff"].(string)
	files, _ := got["files"].([]map[string]any)
	line := fmt.Sprintf("would commit %d changed files, shown below and pinned", len(files))
	if got["truncated"] != nil || got["next"] != nil {
		line += "; more than these do not fit here"
	}
	out.lines = append(out.lines, line)
	body, err := json.Marshal(got)
	if err != nil {
		return out
	}
	c.pin(op.Target{Path: at.Join(".git").Join("(what would be committed)"), Asked: "commit", Role: op.RoleSource, Kind: op.File, Exists: true, Hash: rooted.HashBytes(body)})
	return out
}
