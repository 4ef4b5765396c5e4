package decision

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdpoint/op"
)

// worse are the ways in which a call can become one that asks, each for one reason. None
// of them may ever turn a call that asks into one that runs.
var worse = []struct {
	reason op.Reason
	change func(*Row)
}{
	{op.ReasonUnbound, func(r *Row) { r.Facts.WorkspaceBound = false }},
	{op.ReasonNoPreflight, func(r *Row) { r.Facts.Available = false }},
	{op.ReasonPlanningFailed, func(r *Row) { r.Facts.Planned = false }},
	{op.ReasonPlanningFailed, func(r *Row) { r.Facts.ChangeBytes = -1 }},
	{op.ReasonProtected, func(r *Row) { each(r, func(t *op.Target) { t.Protected = true }) }},
	{op.ReasonProtected, func(r *Row) { each(r, func(t *op.Target) { t.ContainsProtected = true }) }},
	{op.ReasonGuarded, func(r *Row) { each(r, func(t *op.Target) { t.Sensitive = true }) }},
	{op.ReasonGuarded, func(r *Row) { each(r, func(t *op.Target) { t.Ignored = true }) }},
	{op.ReasonSafetyOverride, func(r *Row) { r.Request.AllowSensitive = true }},
	{op.ReasonSafetyOverride, func(r *Row) { r.Request.AllowIgnored = true }},
	{op.ReasonSafetyOverride, func(r *Row) { r.Request.ForceOverwrite = true }},
	{op.ReasonMultipleTargets, func(r *Row) { r.Facts.Targets = append(r.Facts.Targets, r.Facts.Targets...) }},
	{op.ReasonOverwrite, func(r *Row) { r.Facts.Overwrites = true }},
	{op.ReasonBackupRoot, func(r *Row) { r.Request.BackupRoot = "elsewhere" }},
	{op.ReasonBackupDisabled, func(r *Row) { r.Request.Backup = false }},
	{op.ReasonTooLarge, func(r *Row) {
		if r.Facts.ChangeBytes >= 0 {
			r.Facts.ChangeBytes = MaxChange + 1
		}
	}},
	{op.ReasonModeRestricted, func(r *Row) {
		if r.Profile.Mode == op.AutoMode || r.Profile.Mode == op.Yolo {
			r.Profile.Mode = op.Prompt
		}
	}},
}

func each(r *Row, change func(*op.Target)) {
	for i := range r.Facts.Targets {
		change(&r.Facts.Targets[i])
	}
}

// random makes a row of any shape, most of them plausible.
func random(rng *rand.Rand) Row {
	coin := func(odds int) bool { return rng.IntN(odds) == 0 }
	specs := op.Operations()
	r := of(specs[rng.IntN(len(specs))].Name)
	q, p, f, e := &r.Request, &r.Profile, &r.Facts, &r.Environment
	q.DryRun, q.AllowSensitive, q.AllowIgnored, q.ForceOverwrite = coin(8), coin(8), coin(8), coin(8)
	q.Backup = !coin(6)
	if coin(6) {
		q.BackupRoot = "elsewhere"
	}
	p.RequireApproval, p.Clearance = coin(2), rng.IntN(4)
	p.Mode = []op.Mode{op.Deny, op.Prompt, op.AutoMode, op.AutoMode, op.AutoMode, op.Yolo, ""}[rng.IntN(7)]
	if coin(20) {
		*p = op.Profile{Clearance: 3, Mode: op.AutoMode}
	}
	f.WorkspaceBound, f.Available, f.Planned, f.Mutates = !coin(8), !coin(8), !coin(8), !coin(4)
	f.ProcessTier = []op.Tier{op.T3, op.T4, "", op.T1}[rng.IntN(4)]
	f.ConfinedRehearsal, f.Overwrites, f.Creates = coin(3), coin(6), coin(3)
	f.ChangeBytes = []int64{-1, 0, 10, 10, MaxChange, MaxChange + 1}[rng.IntN(6)]
	f.Targets = nil
	for range rng.IntN(4) {
		t := op.Target{Path: "p", Role: []op.TargetRole{op.RoleTarget, op.RoleTarget, op.RoleSource, op.RoleParent, op.RoleDestination, ""}[rng.IntN(6)],
			Kind:      []op.Kind{op.File, op.File, op.Absent, op.Directory, op.Symlink, op.Fifo, ""}[rng.IntN(7)],
			Protected: coin(8), ContainsProtected: coin(8), Sensitive: coin(8), Ignored: coin(6), Deletes: coin(4)}
		t.Exists = (t.Kind != op.Absent) != coin(10)
		f.Targets = append(f.Targets, t)
	}
	e.CallerRole = []op.Role{op.Agent, op.Reviewer, op.Operator, op.Observer, ""}[rng.IntN(5)]
	e.ProcessApprovalDisabled, e.RehearseWithoutReview, e.YoloAllowed, e.ClearanceFloor = coin(3), coin(3), coin(2), rng.IntN(3)
	if coin(2) {
		trusted(&r)
		p.RequireApproval = coin(3)
		e.Trusted[0].CoversAllTargets = !coin(4)
	}
	if coin(3) {
		e.Remembered = []string{op.SameIdentity}
	}
	for _, scope := range []string{"project", "session", "stage", "x"} {
		if coin(3) {
			e.Grants = append(e.Grants, op.Grant{ID: "g" + scope, Scope: scope, MaxTier: []op.Tier{op.T1, op.T2, op.T4, ""}[rng.IntN(4)]})
		}
	}
	return r
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func TestProperties(t *testing.T) {
	t.Run("a further reason never turns review into auto", func(t *testing.T) {
		rng := seeded(t)
		for range 20000 {
			r := random(rng)
			before := judge(r)
			w := worse[rng.IntN(len(worse))]
			after := judge(with(r, w.change))
			if after.Verdict > before.Verdict {
				t.Fatalf("%s: %+v became %+v\nof %+v", w.reason, before, after, r)
			}
		}
	})
	t.Run("what must ask is lifted by nothing that an author or a grant can give", func(t *testing.T) {
		rng, autos := seeded(t), map[op.Reason]int{}
		for range 50000 {
			r := random(rng)
			d := judge(r)
			if d.Verdict != op.Auto {
				continue
			}
			autos[d.Reason]++
			must := mustAsk(r)
			ok := true
			switch d.Reason {
			case op.ReasonReadOnly, op.ReasonRehearsal:
				ok = r.Profile.Mode != op.Deny && r.Profile.Mode != ""
			case op.ReasonLowImpact, op.ReasonUndo, op.ReasonAuthorOptOut, op.ReasonGranted:
				ok = len(must) == 0
			case op.ReasonTrusted:
				ok = !must["missing"] && !must["protected"] && !must["guarded"] && !must["override"] && !must["process"] && !r.Profile.RequireApproval
			case op.ReasonRemembered:
				ok = !must["missing"] && r.Request.Op != op.BatchFileOps
			case op.ReasonProcessDisabled, op.ReasonConfinedRehearsal:
				ok = must["process"] && len(must) == 1
			case op.ReasonYolo:
				ok = !must["missing"] && !must["protected"] && !must["guarded"] && !must["override"] && r.Environment.YoloAllowed
			default:
				ok = false
			}
			if !ok {
				t.Fatalf("%+v although %v\nof %+v", d, must, r)
			}
		}
		for _, reason := range Reasons() {
			if l := slices.Index(Reasons(), reason); l >= slices.Index(Reasons(), op.ReasonLowImpact) && autos[reason] == 0 {
				t.Errorf("no random call ran by %s, so that nothing was tested: %v", reason, autos)
			}
		}
	})
	t.Run("C13 ten thousand repeats give one answer, inputs untouched", func(t *testing.T) {
		rng := seeded(t)
		for range 20 {
			r := random(rng)
			before, _ := json.Marshal(r)
			want := judge(r)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 125 {
						if got := judge(r); !reflect.DeepEqual(got, want) {
							t.Errorf("got %+v, want %+v", got, want)
						}
					}
				})
			}
			wg.Wait()
			want.Also = append(want.Also, "scribble")
			if after, _ := json.Marshal(r); !bytes.Equal(before, after) {
				t.Errorf("the inputs were changed\nfrom %s\nto   %s", before, after)
			}
		}
	})
	t.Run("C13 the judgement imports nothing that reads files, clocks, networks or chance", func(t *testing.T) {
		pure := map[string][]string{
			"decision.go": {"slices", "holdpoint/op"}, "reasons.go": {"slices", "holdpoint/op"},
			"lifts.go": {"slices", "holdpoint/op"}, "sentence.go": {"holdpoint/op"},
		}
		files, err := filepath.Glob("*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range parsed.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				first, _, _ := strings.Cut(path, "/")
				if slices.Contains([]string{"os", "net", "time", "syscall", "math", "crypto", "runtime", "unsafe", "C"}, first) {
					t.Errorf("%s imports %s", file, path)
				}
				if only, ok := pure[file]; ok && !slices.Contains(only, path) {
					t.Errorf("%s, a part of the judgement, imports %s", file, path)
				}
			}
			delete(pure, file)
		}
		if len(pure) > 0 {
			t.Errorf("not found: %v", slices.Collect(maps.Keys(pure)))
		}
	})
}

// mustAsk finds in the inputs, by another way than the judgement does, what needs a person.
func mustAsk(r Row) map[string]bool {
	out := map[string]bool{}
	f := r.Facts
	kind, _ := op.Lookup(r.Request.Op)
	process, undo := kind.Class == op.Process, kind.Class == op.Reverting
	if !f.WorkspaceBound || !process && (!f.Available || !f.Planned || f.ChangeBytes < 0 || len(f.Targets) == 0) {
		out["missing"] = true
	}
	person := r.Environment.CallerRole == op.Reviewer || r.Environment.CallerRole == op.Operator
	for _, t := range f.Targets {
		if !process && (t.Kind == "" || t.Kind == op.Fifo || t.Role == "" || t.Exists == (t.Kind == op.Absent)) {
			out["missing"] = true
		}
		if t.Protected && !(undo && person) || t.ContainsProtected && t.Role != op.RoleParent && !(undo && person) {
			out["protected"] = true
		}
		if t.Sensitive && !undo {
			out["guarded"] = true
		}
		if t.Ignored && !undo && !t.Deletes && kind.Class != op.Destructive {
			out["guarded"] = true
		}
		if t.Deletes && !undo && !process {
			out["destructive"] = true
		}
	}
	if kind.Class == op.Destructive {
		out["destructive"] = true
	}
	if process {
		out["process"] = true
	}
	if r.Request.AllowSensitive || r.Request.AllowIgnored || r.Request.ForceOverwrite {
		out["override"] = true
	}
	return out
}

func TestMissingFacts(t *testing.T) {
	// The ways to lose one fact that the judgement can see; a row's JSON can lose more.
	lost := map[string]func(*Row){
		"workspace_bound": func(r *Row) { r.Facts.WorkspaceBound = false },
		"available":       func(r *Row) { r.Facts.Available = false },
		"planned":         func(r *Row) { r.Facts.Planned = false },
		"change_bytes":    func(r *Row) { r.Facts.ChangeBytes = -1 },
		"targets":         func(r *Row) { r.Facts.Targets = nil },
		"all":             func(r *Row) { r.Facts = op.Facts{} },
		"path":            func(r *Row) { r.Facts.Targets[0].Path = "" },
		"role":            func(r *Row) { r.Facts.Targets[0].Role = "" },
		"kind":            func(r *Row) { r.Facts.Targets[0].Kind = "" },
		"exists":          func(r *Row) { r.Facts.Targets[0].Exists = !r.Facts.Targets[0].Exists },
		"content":         func(r *Row) { r.Facts.Targets[0].Kind = op.Fifo },
		"only parents":    func(r *Row) { each(r, func(t *op.Target) { t.Role = op.RoleParent }) },
	}
	// generousAll is the set-up in which as much as possible runs by itself.
	generousAll := func(r *Row) {
		generous(r)
		trusted(r)
		r.Profile.Mode, r.Environment.YoloAllowed, r.Environment.Remembered = op.Yolo, true, []string{op.SameIdentity}
	}
	changing := func(s op.Spec) bool { return s.Class != op.Read && s.Class != op.Process && s.Class != op.Switching }

	t.Run("C16 each fact that is missing sends a call to review", func(t *testing.T) {
		for _, s := range op.Operations() {
			if !changing(s) {
				continue
			}
			expect(t, string(s.Name), with(of(s.Name), generousAll), op.Auto)
			for name, lose := range lost {
				d := expect(t, string(s.Name)+" without "+name, with(of(s.Name), generousAll, lose), op.Review)
				if !d.Mandatory || d.TargetBound || !slices.Contains(missingFacts, d.Reason) {
					t.Errorf("%s without %s: %+v", s.Name, name, d)
				}
			}
		}
	})
	t.Run("C16 a row that leaves any fact out is reviewed", func(t *testing.T) {
		for _, r := range append(table(t), edit(), of(op.WriteFile)) {
			s, _ := op.Lookup(r.Request.Op)
			if judge(r).Verdict != op.Auto || !changing(s) || judge(r).Reason == op.ReasonRehearsal || judge(r).Reason == op.ReasonReadOnly {
				continue
			}
			facts := toMap(t, r)["facts"].(map[string]any)
			drop := func(what string, take func(map[string]any)) {
				m := toMap(t, r)
				take(m["facts"].(map[string]any))
				if got := judgeMap(t, m); got.Verdict != op.Review {
					t.Errorf("%s, without %s: %+v", r.Name, what, got)
				}
			}
			for k := range facts {
				drop(k, func(f map[string]any) { delete(f, k) })
				drop(k, func(f map[string]any) { f[k] = nil })
			}
			for i := range r.Facts.Targets {
				for _, k := range []string{"path", "role", "exists", "kind", "protected", "sensitive", "ignored"} {
					drop(k, func(f map[string]any) { delete(f["targets"].([]any)[i].(map[string]any), k) })
				}
			}
		}
	})
	t.Run("C16 random omissions never give an automatic call", func(t *testing.T) {
		rng, tried := seeded(t), 0
		for range 80000 {
			r := random(rng)
			d := judge(r)
			s, _ := op.Lookup(r.Request.Op)
			if d.Verdict != op.Auto || !changing(s) || d.Reason == op.ReasonRehearsal || d.Reason == op.ReasonReadOnly {
				continue
			}
			tried++
			m := toMap(t, r)
			facts := m["facts"].(map[string]any)
			keys := slices.Sorted(maps.Keys(facts))
			for range 1 + rng.IntN(3) {
				delete(facts, keys[rng.IntN(len(keys))])
			}
			if got := judgeMap(t, m); got.Verdict != op.Review {
				t.Fatalf("%+v became %+v with only %v", d, got, facts)
			}
		}
		if tried < 100 {
			t.Errorf("only %d calls were automatic before", tried)
		}
	})
}

func toMap(t *testing.T, r Row) map[string]any {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func judgeMap(t *testing.T, m map[string]any) op.Decision {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	row, err := parseRow(data)
	if err != nil {
		t.Fatal(err)
	}
	return judge(row)
}
