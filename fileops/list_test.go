package fileops

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

func TestPage(t *testing.T) {
	t.Run("paging of D76: each name once", func(t *testing.T) {
		const n = 100_000
		entries := make([]Entry, n)
		for i := range entries {
			entries[i] = Entry{Path: op.Path(fmt.Sprintf("d/f%d", n-i)), Type: op.File, Size: int64(i)}
		}
		first := slices.Clone(entries[:3])
		seen, cursor, pages := map[op.Path]int{}, "", 0
		for {
			page, next, total, err := Page(entries, cursor, 997*20)
			if err != nil || total != n {
				t.Fatal(total, err)
			}
			pages++
			for _, e := range page {
				seen[e.Path]++
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(seen) != n || pages != 6 {
			t.Errorf("%d names on %d pages", len(seen), pages)
		}
		for p, k := range seen {
			if k != 1 {
				t.Fatalf("%s shown %d times", p, k)
			}
		}
		if !slices.Equal(entries[:3], first) {
			t.Error("the argument was reordered")
		}
	})
	t.Run("one more than a page", func(t *testing.T) {
		var entries []Entry
		for i := range 201 {
			entries = append(entries, Entry{Path: op.Path(fmt.Sprintf("%03d", i))})
		}
		page, next, total, err := Page(entries, "", 0)
		if len(page) != 200 || next != "199" || total != 201 || err != nil {
			t.Errorf("%d entries, next %q, total %d, %v", len(page), next, total, err)
		}
		page, next, _, _ = Page(entries, next, 0)
		if len(page) != 1 || next != "" {
			t.Errorf("%d entries, next %q", len(page), next)
		}
	})
	t.Run("a cursor outlives its name and its neighbours", func(t *testing.T) {
		list := func(names ...string) (e []Entry) {
			for _, n := range names {
				e = append(e, Entry{Path: op.Path(n)})
			}
			return e
		}
		_, next, _, _ := Page(list("a", "b", "c", "d"), "", 2)
		page, _, _, err := Page(list("a", "aa", "c", "d"), next, 2)
		if err != nil || page[0].Path != "c" || page[1].Path != "d" {
			t.Errorf("%v, %v", page, err)
		}
	})
	t.Run("cursor of D81: names that need an escape", func(t *testing.T) {
		entries := []Entry{{Path: "bad\xff.txt", Type: op.File}, {Path: "line\nbreak", Type: op.File}, {Path: "z"}}
		page, next, _, err := Page(entries, "", 1)
		if err != nil || page[0].Path != "bad\xff.txt" {
			t.Fatal(page, err)
		}
		page, next, _, err = Page(entries, next, 1)
		if err != nil || page[0].Path != "line\nbreak" {
			t.Fatal(page, err)
		}
		text, _ := json.Marshal(page[0])
		if string(text) != `{"path":"raw:%line%0Abreak","type":"file","size":0}` {
			t.Error(string(text))
		}
		if page, _, _, err = Page(entries, next, 1); err != nil || page[0].Path != "z" {
			t.Error(page, err)
		}
	})
	t.Run("a cursor that is none", func(t *testing.T) {
		for _, c := range []string{"raw:%x", "raw:%61", "raw:%%0", "raw:%%zz"} {
			if _, _, _, err := Page([]Entry{{Path: "a"}}, c, 1); !errors.Is(err, op.BadRequest) {
				t.Errorf("%q: %v", c, err)
			}
		}
	})
}

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "a", true}, {"*.go", "a.go", true}, {"*.go", "a.golang", false}, {"[ab]?", "bx", true}, {`\*`, "*", true}, {`\*`, "a", false}, {"?", "\xff", true}, {"a", "a\n", false},
	} {
		if got, err := MatchGlob(c.pattern, c.name); got != c.want || err != nil {
			t.Errorf("%q on %q: %v, %v", c.pattern, c.name, got, err)
		}
	}
	for _, bad := range []string{"[", "a[", `a\`, "**/x", strings.Repeat("a", 3) + "[z-"} {
		if _, err := MatchGlob(bad, "b"); !errors.Is(err, op.BadRequest) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
