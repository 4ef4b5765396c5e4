package decision

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

func target(p op.Path) []RolePath { return []RolePath{{op.RoleTarget, p}} }

func TestIdentity(t *testing.T) {
	t.Run("C68 each target-bound class has an identity with path and digest", func(t *testing.T) {
		form := regexp.MustCompile(`^[a-z_]+:[^#]*#blake3:[0-9a-f]{64}$`)
		for name, r := range map[string]Row{
			"destructive": of(op.DeleteFile), "batch": of(op.BatchFileOps),
			"protected": with(edit(), func(r *Row) { r.Facts.Targets[0].Protected = true }),
			"guarded":   with(edit(), func(r *Row) { r.Facts.Targets[0].Sensitive = true }),
			"override":  with(edit(), func(r *Row) { r.Request.ForceOverwrite = true }),
			"process":   of(op.WorkspaceShell),
		} {
			if d := judge(r); d.Verdict != op.Review || !d.TargetBound {
				t.Errorf("%s: %+v", name, d)
			}
			paths := Paths(r.Facts)
			if name == "process" {
				paths = []RolePath{{"program", "/bin/true"}}
			}
			got := Identity(r.Request.Op, "key", paths, Flags(r.Request))
			if !form.MatchString(got) || !strings.HasPrefix(got, string(r.Request.Op)+":"+string(paths[0].Path)+"#") {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
	t.Run("C69 operation, root, paths and flags each change it, and nothing else does", func(t *testing.T) {
		base := Identity(op.DeleteFile, "r", target("a"), []string{"x", "y"})
		if again := Identity(op.DeleteFile, "r", target("a"), []string{"y", "x", "y"}); again != base {
			t.Errorf("the same call twice: %s and %s", base, again)
		}
		seen := []string{base}
		for _, other := range []string{
			Identity(op.RollbackFile, "r", target("a"), []string{"x", "y"}),
			Identity(op.DeleteFile, "s", target("a"), []string{"x", "y"}),
			Identity(op.DeleteFile, "r", target("b"), []string{"x", "y"}),
			Identity(op.DeleteFile, "r", []RolePath{{op.RoleSource, "a"}}, []string{"x", "y"}),
			Identity(op.DeleteFile, "r", append(target("a"), target("b")...), []string{"x", "y"}),
			Identity(op.DeleteFile, "r", target("a"), []string{"x"}),
			Identity(op.DeleteFile, "r", target("a"), nil),
			Identity(op.DeleteFile, "r", nil, []string{"x", "y"}),
		} {
			if slices.Contains(seen, other) {
				t.Errorf("%s stands for two calls", other)
			}
			seen = append(seen, other)
		}
		flags := []string{"y", "x"}
		if Identity(op.DeleteFile, "r", nil, flags); flags[0] != "y" {
			t.Error("the caller's flags were sorted in place")
		}
	})
	t.Run("C70 digest input is unambiguous", func(t *testing.T) {
		digest := func(s string) string { return s[strings.LastIndexByte(s, '#')+1:] }
		pair := func(a, b op.Path) []RolePath {
			return []RolePath{{op.RoleSource, a}, {op.RoleTarget, b}}
		}
		seen := map[string]int{}
		for i, c := range []struct {
			name  op.Name
			root  string
			paths []RolePath
			flags []string
		}{
			{op.MoveFile, "r", pair("a", "b"), nil},
			{op.MoveFile, "r", pair("b", "a"), nil},
			{op.MoveFile, "r", pair("a->b", ""), nil},
			{op.MoveFile, "r", pair("", "a->b"), nil},
			{op.MoveFile, "r", pair("a,b", ""), nil},
			{op.MoveFile, "r", target("a->b"), nil},
			{op.MoveFile, "r", target("a,b"), nil},
			{op.MoveFile, "r", append(target("a"), target("b")...), nil},
			{op.MoveFile, "r", append(target("b"), target("a")...), nil},
			{op.MoveFile, "r", target("a\nb"), nil},
			{op.MoveFile, "r", target("a\x00b"), nil},
			{op.MoveFile, "r", target("a\\u{000A}b"), nil},
			{op.MoveFile, "r", target("a\xffb"), nil},
			{op.MoveFile, "r", target("a\\xFFb"), nil},
			{op.MoveFile, "r", target("raw:%a%FFb"), nil},
			{op.MoveFile, "r", target("a#blake3:00"), nil},
			{op.MoveFile, "r", target("ab"), nil},
			{op.MoveFile, "ra", target("b"), nil},
			{op.MoveFile + "r", "", target("ab"), nil},
			{op.MoveFile, "r", nil, []string{"target", "ab"}},
			{op.MoveFile, "r", nil, []string{"targetab"}},
			{op.MoveFile, "r", nil, []string{"target", "a", "b"}},
			{op.MoveFile, "r", target("a"), []string{"b"}},
			{op.MoveFile, "r", target(""), nil},
			{op.MoveFile, "r", nil, nil},
			{op.MoveFile, "r", nil, []string{""}},
		} {
			d := digest(Identity(c.name, c.root, c.paths, c.flags))
			if j, twice := seen[d]; twice {
				t.Errorf("cases %d and %d share an identity", j, i)
			}
			seen[d] = i
		}
	})
	t.Run("C70 random calls of few letters share an identity only when they are equal", func(t *testing.T) {
		rng := seeded(t)
		word := func() string { return strings.Repeat("a", rng.IntN(3)) + strings.Repeat("b", rng.IntN(2)) }
		type key struct{ name, root, paths, flags string }
		seen := map[string]key{}
		for range 20000 {
			var paths []RolePath
			var k key
			for range rng.IntN(3) {
				p := RolePath{op.TargetRole(word()), op.Path(word())}
				paths = append(paths, p)
				k.paths += string(p.Role) + "/" + string(p.Path) + ";"
			}
			flags := map[string]bool{}
			for range rng.IntN(3) {
				flags[word()] = true
			}
			var list []string
			for f := range flags {
				list = append(list, f)
			}
			slices.Sort(list)
			k.flags = strings.Join(append(list, ""), ";")
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			k.name, k.root = word(), word()
			id := Identity(op.Name(k.name), k.root, paths, list)
			if was, ok := seen[id]; ok && was != k {
				t.Fatalf("%q and %q share %s", was, k, id)
			}
			seen[id] = k
		}
		if len(seen) < 1000 {
			t.Errorf("only %d calls", len(seen))
		}
	})
	t.Run("C77 the identity of an overwrite does not cover another path", func(t *testing.T) {
		r := with(of(op.WriteFile), func(r *Row) { r.Facts.Overwrites = true })
		other := with(r, func(r *Row) { r.Facts.Targets[0].Path = "b" })
		a, b := Identity(op.WriteFile, "r", Paths(r.Facts), Flags(r.Request)), Identity(op.WriteFile, "r", Paths(other.Facts), Flags(other.Request))
		if a == b || a != Identity(op.WriteFile, "r", Paths(r.Facts), Flags(r.Request)) {
			t.Errorf("%s and %s", a, b)
		}
	})
	t.Run("the readable half shows nothing that hides, and says what it leaves out", func(t *testing.T) {
		var many []RolePath
		for range shownPaths + 4 {
			many = append(many, RolePath{op.RoleTarget, "x"})
		}
		for want, paths := range map[string][]RolePath{
			"delete_file:a\\u{202E}b\\u{000A}\\xFF#": target("a\u202eb\n\xff"),
			"delete_file:a->b#":                      {{op.RoleSource, "a"}, {op.RoleTarget, "b"}},
			"delete_file:" + strings.Repeat("x,", shownPaths-1) + "x and 4 more#": many,
			"delete_file:#": nil,
		} {
			if got := Identity(op.DeleteFile, "r", paths, nil); !strings.HasPrefix(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
	t.Run("parents are no part of it and every flag is", func(t *testing.T) {
		f := op.Facts{Targets: []op.Target{{Path: "d", Role: op.RoleParent}, {Path: "d/a", Role: op.RoleTarget}, {Path: "s", Role: op.RoleSource}}}
		if got := Paths(f); !slices.Equal(got, []RolePath{{op.RoleTarget, "d/a"}, {op.RoleSource, "s"}}) {
			t.Errorf("%v", got)
		}
		all := op.Terms{DryRun: true, AllowSensitive: true, AllowIgnored: true, ForceOverwrite: true, BackupRoot: "b"}
		if got := Flags(all); !slices.Equal(got, []string{"dry_run", "allow_sensitive", "allow_ignored", "force_overwrite", "no_backup", "backup_root=b"}) {
			t.Errorf("%v", got)
		}
		if got := Flags(op.Terms{Backup: true}); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// The identity is a stored form: a rule remembered today must still match tomorrow.
func TestIdentityIsStable(t *testing.T) {
	got := Identity(op.MoveFile, "0123456789abcdef", []RolePath{{op.RoleSource, "a"}, {op.RoleTarget, "b/c"}}, []string{"allow_ignored"})
	if want := golden(t, "identity.txt"); got != strings.TrimSpace(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSentences(t *testing.T) {
	t.Run("C64 codes keep their spelling and no other ever appears", func(t *testing.T) {
		var want []op.Reason
		for line := range strings.Lines(golden(t, "reasons.txt")) {
			code, _, _ := strings.Cut(line, "\t")
			want = append(want, op.Reason(code))
		}
		if !slices.Equal(Reasons(), want) {
			t.Errorf("got %v, want %v", Reasons(), want)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range 5000 {
			d := judge(random(rng))
			for _, r := range append(d.Also, d.Reason) {
				if !slices.Contains(want, r) {
					t.Fatalf("the code %q appeared", r)
				}
			}
		}
	})
	t.Run("C65 each code has its one sentence", func(t *testing.T) {
		seen := map[string]bool{}
		for line := range strings.Lines(golden(t, "reasons.txt")) {
			code, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got := Sentence(op.Reason(code))
			if got != want || !strings.HasSuffix(got, ".") || seen[got] {
				t.Errorf("%s: got %q, want %q", code, got, want)
			}
			seen[got] = true
		}
		if len(seen) != len(Reasons()) {
			t.Errorf("%d sentences for %d codes", len(seen), len(Reasons()))
		}
		if Sentence("") != "" || Sentence("Overwrite") != "" {
			t.Error("what is no code has a sentence")
		}
	})
}

func golden(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../testdata/decisions", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
