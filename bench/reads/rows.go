package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"holdpoint/fileops"
	"holdpoint/internal/rooted"
	"holdpoint/op"
)

const minute = int64(60_000)

func rowsOf(dir, tree string) ([]row, error) {
	root, err := rooted.Open(tree, rooted.Options{})
	if err != nil {
		return nil, err
	}
	w := workspace{root}
	above, err := rooted.Open(dir, rooted.Options{})
	if err != nil {
		return nil, err
	}
	top := workspace{above}
	large := []string{filepath.Join(dir, "big")}
	small, err := filepath.Glob(filepath.Join(dir, "small", "*"))
	if err != nil {
		return nil, err
	}
	all := op.SearchArgs{ShowHidden: true, IncludeIgnored: true, TimeoutMS: ptr(minute), MaxResults: ptr(int64(1000))}
	rg := []string{"rg", "--no-config", "-n", "--no-heading", "-j", fmt.Sprint(runtime.NumCPU())}
	search := func(name string, goal float64, change func(*op.SearchArgs), theirs ...string) row {
		a := op.SearchArgs{TimeoutMS: ptr(minute), MaxResults: ptr(int64(1000)), Mode: "count"}
		change(&a)
		return row{name, goal, func() (string, error) { return w.results(a) }, append(rg[:len(rg):len(rg)], theirs...)}
	}
	return []row{
		{"walk of all names", 1.3, func() (string, error) {
			a := all
			a.Pattern, a.Glob = "x", "/no such name"
			return found(w.read(&a, "."))
		}, []string{"fdfind", "-uu", "-j", fmt.Sprint(runtime.NumCPU()), "no such name"}},
		{"file_tree, all pages, names", 1.3, func() (string, error) { return w.pages(true, true) }, []string{"fdfind", "-uu", "-j", fmt.Sprint(runtime.NumCPU())}},
		{"file_tree, all pages, sizes", 0, func() (string, error) { return w.pages(true, false) }, []string{"find", ".", "-printf", "%p %s\n"}},
		{"file_tree, git's rules, all pages, names", 0, func() (string, error) { return w.pages(false, true) }, []string{"rg", "--no-config", "--files"}},
		{"file_tree, first page", 0, func() (string, error) {
			out, err := w.read(&op.TreeArgs{}, ".")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(out["entries"].([]fileops.Entry)), " entries"), nil
		}, []string{"rg", "--no-config", "--files", "-q"}},
		search("search, rare literal", 1.3, func(a *op.SearchArgs) { a.Pattern = "rare_needle_4c1d" }, "rare_needle_4c1d"),
		search("search, no match", 1.3, func(a *op.SearchArgs) { a.Pattern = "nowhere_to_be_found" }, "nowhere_to_be_found"),
		search("search, regexp with a literal", 1.3, func(a *op.SearchArgs) { a.Pattern, a.Regex = `rare_needle_[0-9a-f]{4}\b`, true }, `rare_needle_[0-9a-f]{4}\b`),
		search("search, literal, any case", 1.3, func(a *op.SearchArgs) { a.Pattern, a.IgnoreCase = "RARE_Needle_4c1d", true }, "-i", "RARE_Needle_4c1d"),
		search("search, alternation", 1.3, func(a *op.SearchArgs) { a.Pattern, a.Regex = `rare_needle_4c1d|nowhere_to_be|absent_word`, true }, `rare_needle_4c1d|nowhere_to_be|absent_word`),
		search("search, regexp without a literal", 0, func(a *op.SearchArgs) { a.Pattern, a.Regex = `\b[a-z]{9}[0-9]{5}\b`, true }, `\b[a-z]{9}[0-9]{5}\b`),
		search("search, first 200 beside rg's first one", 0, func(a *op.SearchArgs) { a.Pattern, a.Mode, a.MaxResults = "return", "content", ptr(int64(200)) }, "-m", "1", "-q", "return"),
		search("search, common literal, counted", 0, func(a *op.SearchArgs) { a.Pattern = "return" }, "-c", "return"),
		{"hash 10,000 small files", 1.3, func() (string, error) { return first(dir, small) }, append([]string{"b3sum"}, small...)},
		{"the same again, unchanged", 0.2, func() (string, error) { return top.hashAll(dir, small) }, append([]string{"b3sum"}, small...)},
		{"hash one large file", 1.6, func() (string, error) { return first(dir, large) }, append([]string{"b3sum"}, large...)},
	}, nil
}

func ptr[T any](v T) *T { return &v }

func found(out map[string]any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	s := fmt.Sprintf("%v lines in %v files", out["count"], out["files"])
	if why := out["truncated"]; why != nil {
		s += fmt.Sprintf(" (%v)", why)
	}
	return s, nil
}

// results reads all pages of a search that counts, the first of another.
func (w workspace) results(a op.SearchArgs) (string, error) {
	lines, files := int64(0), int64(0)
	for {
		out, err := w.read(&a, ".")
		if err != nil {
			return "", err
		}
		lines, files = lines+out["count"].(int64), files+out["files"].(int64)
		next, _ := out["next"].(string)
		if next == "" || a.Mode != "count" {
			return fmt.Sprintf("%d lines in %d files", lines, files), nil
		}
		a.Page = next
	}
}

// pages reads the whole tree page by page.
func (w workspace) pages(ignored, names bool) (string, error) {
	a := op.TreeArgs{NamesOnly: names, ShowHidden: ignored, IncludeIgnored: ignored, PageSize: ptr(int64(10_000)), TimeoutMS: ptr(minute)}
	n := 0
	for {
		out, err := w.read(&a, ".")
		if err != nil {
			return "", err
		}
		n += len(out["entries"].([]fileops.Entry))
		next, _ := out["next"].(string)
		if next == "" {
			return fmt.Sprint(n, " entries"), nil
		}
		a.Page = next
	}
}

// first hashes files in a workspace that was just opened and knows none of them.
func first(dir string, files []string) (string, error) {
	root, err := rooted.Open(dir, rooted.Options{})
	if err != nil {
		return "", err
	}
	defer root.Close()
	return workspace{root}.hashAll(dir, files)
}

// hashAll looks at files and hashes them with one worker a core.
func (w workspace) hashAll(dir string, files []string) (string, error) {
	var next, bytes atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Value
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(files) {
					return
				}
				rel, _ := filepath.Rel(dir, files[i])
				n, err := w.root.Look(context.Background(), op.Path(rel), true)
				if err == nil {
					var size int64
					_, size, err = n.Digest(context.Background())
					bytes.Add(size)
					n.Close()
				}
				if err != nil {
					failed.Store(err)
				}
			}
		})
	}
	wg.Wait()
	if err, ok := failed.Load().(error); ok {
		return "", err
	}
	return fmt.Sprint(bytes.Load()>>20, " MiB"), nil
}
