package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"holdpoint/fileops"
	"holdpoint/internal/flow"
	"holdpoint/internal/gitread"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// repoFiles is how many files the repository has.
const repoFiles = 100_000

// repository makes a repository of many small files beside the tree, once.
func repository(dir string) (string, error) {
	at := filepath.Join(dir, "repo")
	done := filepath.Join(dir, fmt.Sprintf("made-repo-%d", repoFiles))
	if _, err := os.Stat(done); err == nil {
		return at, nil
	}
	if err := os.RemoveAll(at); err != nil {
		return "", err
	}
	for i := range repoFiles {
		p := filepath.Join(at, fmt.Sprintf("d%02d/e%02d", i/5000, i/100%50), fmt.Sprintf("f%02d.go", i%100))
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				return "", err
			}
		}
		if err := os.WriteFile(p, fmt.Appendf(nil, "package p\n\nconst n = %d\n", i), 0o644); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "-m", "all"}, {"update-index", "--refresh"}} {
		if args[0] == "update-index" {
			time.Sleep(1100 * time.Millisecond) // so that no entry was written in the moment of the index
		}
		c := exec.Command("git", append([]string{"-C", at, "-c", "gc.auto=0", "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return at, os.WriteFile(done, nil, 0o644)
}

// gitRows measures git_status beside git's own on that repository.
func gitRows(dir string) ([]row, error) {
	at, err := repository(dir)
	if err != nil {
		return nil, err
	}
	root, err := rooted.Open(at, rooted.Options{})
	if err != nil {
		return nil, err
	}
	ours := func() (string, error) {
		out, err := gitread.Read(context.Background(), gitread.Options{Root: root, Path: ".", Rules: gitRules{flow.IgnoreRules()}}, &op.GitStatusArgs{})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("clean %v, of %d files", out["clean"], repoFiles), nil
	}
	theirs := []string{"git", "--no-optional-locks", "-C", at, "status", "--porcelain"}
	return []row{{"git_status, nothing changed", 2, ours, theirs}}, nil
}

// gitRules shows the ignore rules to gitread.
type gitRules struct{ fileops.Rules }

func (r gitRules) Within(dir string, lines []string) gitread.Rules {
	return gitRules{r.Rules.Within(dir, lines)}
}
