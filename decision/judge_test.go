package decision

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdpoint/op"
)

// edit is a call inside the envelope; each test changes what it is about.
func edit() Row {
	p := op.DefaultProfile()
	p.Clearance = 1
	return Row{
		Request: op.Terms{Op: op.EditFile, Backup: true},
		Profile: p,
		Facts: op.Facts{WorkspaceBound: true, Available: true, Planned: true, Mutates: true, ChangeBytes: 10,
			Targets: []op.Target{{Path: "a", Role: op.RoleTarget, Exists: true, Kind: op.File}}},
		Environment: op.Environment{CallerRole: op.Agent, WorkflowID: "wf", ClearanceFloor: 1},
	}
}

// of is a call of any operation that nothing but the operation itself speaks against.
func of(name op.Name) Row {
	r := edit()
	r.Request.Op = name
	switch spec, _ := op.Lookup(name); spec.Class {
	case op.Read:
		r.Facts.Mutates = false
	case op.Process:
		r.Facts.Targets, r.Facts.ProcessTier = nil, op.T3
	}
	switch name {
	case op.WriteFile, op.CopyFile, op.CreateDirectory:
		r.Facts.Targets[0].Exists, r.Facts.Targets[0].Kind, r.Facts.Creates = false, op.Absent, true
	}
	return r
}

func with(r Row, change ...func(*Row)) Row {
	r.Facts.Targets = slices.Clone(r.Facts.Targets)
	for _, c := range change {
		c(&r)
	}
	return r
}

// generous turns on all that could let a call run, apart from the operator's switches for
// processes.
func generous(r *Row) {
	r.Profile.RequireApproval = false
	r.Environment.Remembered = []string{"other"}
	r.Environment.Grants = []op.Grant{{ID: "g", Scope: "session", MaxTier: op.T4}, {ID: "h", Scope: "project", MaxTier: op.T4}}
}

func trusted(r *Row) {
	r.Profile.RequireApproval = false
	r.Environment.Trusted = []op.TrustedPolicy{{ID: "e", WorkflowIDs: []string{"wf"}, CoversAllTargets: true,
		Operations: []op.Name{op.DeleteFile, op.MoveFile, op.RollbackFile, op.BatchFileOps}}}
}

func deleting(r *Row) { r.Facts.Targets[0].Deletes = true }

// expect compares verdict and all reasons, first to last.
func expect(t *testing.T, what string, r Row, verdict op.Verdict, reasons ...op.Reason) op.Decision {
	t.Helper()
	d := judge(r)
	got := append([]op.Reason{d.Reason}, d.Also...)
	if d.Verdict != verdict || len(reasons) > 0 && !slices.Equal(got, reasons) {
		t.Errorf("%s: got %s %v, want %s %v", what, d.Verdict, got, verdict, reasons)
	}
	return d
}

func classes(c op.Class) (out []op.Name) {
	for _, s := range op.Operations() {
		if s.Class == c {
			out = append(out, s.Name)
		}
	}
	return out
}

func TestOperations(t *testing.T) {
	t.Run("C24 reads are never reviewed, whatever the facts", func(t *testing.T) {
		for _, name := range classes(op.Read) {
			expect(t, string(name), of(name), op.Auto, op.ReasonReadOnly)
			expect(t, string(name)+" of nothing seen", with(of(name), func(r *Row) { r.Facts = op.Facts{} }), op.Auto, op.ReasonReadOnly)
			expect(t, string(name)+" of a secret", with(of(name), func(r *Row) { r.Facts.Targets[0].Protected, r.Facts.Targets[0].Sensitive = true, true }), op.Auto, op.ReasonReadOnly)
		}
	})
	t.Run("C26 a rehearsal is never reviewed where there is one", func(t *testing.T) {
		for _, s := range op.Operations() {
			r := with(of(s.Name), func(r *Row) { r.Request.DryRun = true })
			switch s.Class {
			case op.Read:
				expect(t, string(s.Name), r, op.Auto, op.ReasonReadOnly)
			case op.Process:
				expect(t, string(s.Name), r, op.Review, op.ReasonProcess)
			default:
				d := expect(t, string(s.Name), r, op.Auto, op.ReasonRehearsal)
				if d.Tier != op.T1 || d.Pinned {
					t.Errorf("%s: %+v", s.Name, d)
				}
			}
		}
	})
	t.Run("C28 the six adaptive operations run inside the envelope and are reviewed outside", func(t *testing.T) {
		outside := map[op.Reason]func(*Row){
			op.ReasonUnbound:         func(r *Row) { r.Facts.WorkspaceBound = false },
			op.ReasonNoPreflight:     func(r *Row) { r.Facts.Available = false },
			op.ReasonPlanningFailed:  func(r *Row) { r.Facts.Planned = false },
			op.ReasonProtected:       func(r *Row) { r.Facts.Targets[0].Protected = true },
			op.ReasonGuarded:         func(r *Row) { r.Facts.Targets[0].Ignored = true },
			op.ReasonSafetyOverride:  func(r *Row) { r.Request.AllowIgnored = true },
			op.ReasonMultipleTargets: func(r *Row) { r.Facts.Targets = append(r.Facts.Targets, r.Facts.Targets[0]) },
			op.ReasonOverwrite:       func(r *Row) { r.Facts.Overwrites = true },
			op.ReasonBackupRoot:      func(r *Row) { r.Request.BackupRoot = "x" },
			op.ReasonTooLarge:        func(r *Row) { r.Facts.ChangeBytes = MaxChange + 1 },
		}
		names := classes(op.Adaptive)
		if len(names) != 6 {
			t.Fatalf("adaptive operations: %v", names)
		}
		for _, name := range names {
			expect(t, string(name), of(name), op.Auto, op.ReasonLowImpact)
			for reason, change := range outside {
				expect(t, string(name), with(of(name), change), op.Review, reason)
			}
		}
	})
	t.Run("C29 delete, move and rollback are always reviewed", func(t *testing.T) {
		for _, name := range classes(op.Destructive) {
			r := with(of(name), generous, func(r *Row) { r.Facts.ChangeBytes = 0 })
			expect(t, string(name), r, op.Review, op.ReasonDestructive)
		}
	})
	t.Run("C30 a batch is reviewed when it mutates and not when it reads", func(t *testing.T) {
		expect(t, "mutating", of(op.BatchFileOps), op.Review, op.ReasonBatch)
		reads := with(of(op.BatchFileOps), func(r *Row) { r.Facts.Mutates = false })
		expect(t, "reading", reads, op.Auto, op.ReasonReadOnly)
		// That it changes nothing must have been seen, and nothing may contradict it.
		for name, change := range map[string]func(*Row){
			"unseen":     func(r *Row) { r.Facts.Available = false },
			"unplanned":  func(r *Row) { r.Facts.Planned = false },
			"creates":    func(r *Row) { r.Facts.Creates = true },
			"overwrites": func(r *Row) { r.Facts.Overwrites = true },
			"deletes":    deleting,
			"no facts":   func(r *Row) { r.Facts = op.Facts{} },
		} {
			expect(t, name, with(reads, change), op.Review)
		}
	})
	t.Run("C33 a switch that is off answers the same whatever the facts", func(t *testing.T) {
		for _, s := range op.Operations() {
			off := with(of(s.Name), generous, func(r *Row) { r.Profile = op.Profile{Clearance: 5, Mode: op.Yolo} })
			want := expect(t, string(s.Name), off, op.Refuse, op.ReasonOperationDisabled)
			first, refused := Refusal(off.Request, off.Profile)
			if !refused || !reflect.DeepEqual(first, want) {
				t.Errorf("%s: before preflight %+v, after %+v", s.Name, first, want)
			}
			for _, facts := range []op.Facts{{}, {Available: true, Targets: []op.Target{{Path: ".env", Protected: true, Deletes: true}}, ProcessTier: op.T4}} {
				if got := Judge(off.Request, off.Profile, facts, op.Environment{}); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: %+v with other facts, want %+v", s.Name, got, want)
				}
			}
			if _, refused := Refusal(op.Terms{Op: s.Name}, op.DefaultProfile()); refused {
				t.Errorf("%s is refused although its switch is on", s.Name)
			}
		}
	})
	t.Run("U23 what is no operation is refused", func(t *testing.T) {
		for _, name := range []op.Name{"", "write_flie", "Write_File", "write_file ", "approve", "*"} {
			d := expect(t, string(name), with(edit(), generous, func(r *Row) { r.Request.Op = name }), op.Refuse, op.ReasonUnknownOperation)
			if d.Tier != "" {
				t.Errorf("%q has tier %s", name, d.Tier)
			}
		}
	})
}

func TestEnvelope(t *testing.T) {
	t.Run("C36 one target is automatic, several are not", func(t *testing.T) {
		more := func(role op.TargetRole) Row {
			return with(of(op.CopyFile), func(r *Row) {
				r.Facts.Targets = append(r.Facts.Targets, op.Target{Path: "b", Role: role, Exists: false, Kind: op.Absent})
			})
		}
		expect(t, "target", more(op.RoleTarget), op.Review, op.ReasonMultipleTargets)
		expect(t, "destination", more(op.RoleDestination), op.Review, op.ReasonMultipleTargets)
		expect(t, "source", more(op.RoleSource), op.Auto)
		expect(t, "a parent made on the way", more(op.RoleParent), op.Auto)
	})
	t.Run("C39 each safety flag alone sends the call to review", func(t *testing.T) {
		for name, flag := range map[string]func(*Row){
			"allow_sensitive": func(r *Row) { r.Request.AllowSensitive = true },
			"allow_ignored":   func(r *Row) { r.Request.AllowIgnored = true },
			"force_overwrite": func(r *Row) { r.Request.ForceOverwrite = true },
		} {
			for _, op1 := range append(classes(op.Adaptive), op.Undo) {
				d := expect(t, name, with(of(op1), flag, generous), op.Review, op.ReasonSafetyOverride)
				if !d.Mandatory || !d.TargetBound {
					t.Errorf("%s: %+v", name, d)
				}
			}
		}
	})
	t.Run("C40 to replace what exists is overwrite, also where only the target shows it", func(t *testing.T) {
		for _, name := range []op.Name{op.WriteFile, op.CopyFile} {
			exists := with(of(name), func(r *Row) { r.Facts.Targets[0].Exists, r.Facts.Targets[0].Kind = true, op.File })
			expect(t, string(name), exists, op.Review, op.ReasonOverwrite)
			expect(t, string(name), with(exists, func(r *Row) { r.Facts.Overwrites = true }), op.Review, op.ReasonOverwrite)
		}
		expect(t, "an edit", edit(), op.Auto)
		expect(t, "the source of a copy", with(of(op.CopyFile), func(r *Row) {
			r.Facts.Targets = append(r.Facts.Targets, op.Target{Path: "s", Role: op.RoleSource, Exists: true, Kind: op.File})
		}), op.Auto)
	})
	t.Run("C41 an edit or patch without backup is backup_disabled", func(t *testing.T) {
		for _, name := range classes(op.Adaptive) {
			r := with(of(name), func(r *Row) { r.Request.Backup = false })
			if name == op.EditFile || name == op.PatchFile {
				expect(t, string(name), r, op.Review, op.ReasonBackupDisabled)
			} else {
				expect(t, string(name), r, op.Auto, op.ReasonLowImpact)
			}
		}
	})
	t.Run("C43 65,536 bytes are automatic and one more is not", func(t *testing.T) {
		for _, name := range classes(op.Adaptive) {
			for bytes, want := range map[int64]op.Verdict{0: op.Auto, 1: op.Auto, 65535: op.Auto, 65536: op.Auto, 65537: op.Review, 1 << 40: op.Review, -1: op.Review, -1 << 40: op.Review} {
				expect(t, string(name), with(of(name), func(r *Row) { r.Facts.ChangeBytes = bytes }), want)
			}
		}
	})
	t.Run("C45 every pair of reasons is reviewed, and both are listed in order", func(t *testing.T) {
		for i, a := range worse {
			for _, b := range worse[i+1:] {
				r := with(edit(), a.change, b.change)
				if r.Facts.ChangeBytes < 0 && b.reason == op.ReasonTooLarge {
					continue // a size is not unknown and too large at once
				}
				d := judge(r)
				got := append([]op.Reason{d.Reason}, d.Also...)
				if d.Verdict != op.Review || !slices.Contains(got, a.reason) || !slices.Contains(got, b.reason) {
					t.Errorf("%s and %s: %s %v", a.reason, b.reason, d.Verdict, got)
				}
				if !slices.IsSortedFunc(got, func(x, y op.Reason) int { return slices.Index(Reasons(), x) - slices.Index(Reasons(), y) }) {
					t.Errorf("out of order: %v", got)
				}
			}
		}
	})
	t.Run("C66 the leading reason is the same a thousand times and all are listed", func(t *testing.T) {
		r := with(of(op.DeleteFile), func(r *Row) { r.Facts.Targets[0].Protected, r.Request.ForceOverwrite = true, true })
		for range 1000 {
			expect(t, "protected delete by force", r, op.Review, op.ReasonDestructive, op.ReasonProtected, op.ReasonSafetyOverride)
		}
	})
	t.Run("C61 an edit inside the envelope says low_impact_scoped_change", func(t *testing.T) {
		d := expect(t, "edit", edit(), op.Auto, op.ReasonLowImpact)
		if d.Mandatory || d.TargetBound || d.OneShot || !d.Pinned || d.Tier != op.T2 {
			t.Errorf("%+v", d)
		}
	})
}

func TestDecisionForm(t *testing.T) {
	t.Run("C15 one of three verdicts with one known reason", func(t *testing.T) {
		for _, r := range table(t) {
			d := judge(r)
			if d.Verdict > op.Auto || !slices.Contains(Reasons(), d.Reason) || d.Also == nil {
				t.Errorf("%s: %+v", r.Name, d)
			}
			for _, a := range d.Also {
				if !slices.Contains(Reasons(), a) || d.Verdict != op.Review {
					t.Errorf("%s: %+v", r.Name, d)
				}
			}
		}
		if zero := Judge(op.Terms{}, op.Profile{}, op.Facts{}, op.Environment{}); zero.Verdict != op.Refuse {
			t.Errorf("nothing at all: %+v", zero)
		}
	})
	t.Run("pinned says that there is something to check again", func(t *testing.T) {
		for name, c := range map[string]struct {
			row  Row
			want bool
		}{
			"edit":             {edit(), true},
			"delete":           {of(op.DeleteFile), true},
			"undo":             {of(op.Undo), true},
			"read":             {of(op.ViewFile), false},
			"read in deny":     {with(of(op.ViewFile), func(r *Row) { r.Profile.Mode = op.Deny }), false},
			"rehearsal":        {with(edit(), func(r *Row) { r.Request.DryRun = true }), false},
			"refused":          {with(edit(), func(r *Row) { r.Profile.AllowEdit = false }), false},
			"clearance":        {with(edit(), func(r *Row) { r.Environment.ClearanceFloor = 9 }), false},
			"nothing seen":     {with(edit(), func(r *Row) { r.Facts.Available = false }), false},
			"unknown kind":     {with(edit(), func(r *Row) { r.Facts.Targets[0].Kind = op.Unknown }), false},
			"unplanned":        {with(edit(), func(r *Row) { r.Facts.Planned = false }), true},
			"process, no pins": {of(op.WorkspaceShell), false},
		} {
			if got := judge(c.row).Pinned; got != c.want {
				t.Errorf("%s: pinned %v, want %v", name, got, c.want)
			}
		}
	})
	t.Run("only batches and profile switches are one-shot", func(t *testing.T) {
		for _, s := range op.Operations() {
			d := judge(of(s.Name))
			if d.OneShot != (s.Class == op.Batch || s.Class == op.Switching) {
				t.Errorf("%s: %+v", s.Name, d)
			}
		}
		denied := judge(with(of(op.BatchFileOps), func(r *Row) { r.Facts.Mutates, r.Profile.Mode = false, op.Deny }))
		if denied.OneShot || denied.TargetBound || denied.Reason != op.ReasonModeRestricted {
			t.Errorf("a reading batch in mode deny: %+v", denied)
		}
	})
	t.Run("a deleting part makes any call destructive", func(t *testing.T) {
		d := expect(t, "patch", with(of(op.PatchFile), deleting, generous), op.Review, op.ReasonDestructive)
		if d.Tier != op.T4 {
			t.Errorf("tier %s", d.Tier)
		}
		expect(t, "undo of a creation", with(of(op.Undo), deleting), op.Auto, op.ReasonUndo)
	})
	t.Run("in a batch, deleting what git ignores is no guarded change", func(t *testing.T) {
		ignored := func(r *Row) { r.Facts.Targets[0].Ignored = true }
		expect(t, "delete", with(of(op.BatchFileOps), ignored, deleting), op.Review, op.ReasonBatch, op.ReasonDestructive)
		expect(t, "write", with(of(op.BatchFileOps), ignored), op.Review, op.ReasonBatch, op.ReasonGuarded)
		expect(t, "trusted", with(of(op.BatchFileOps), ignored, deleting, trusted), op.Auto, op.ReasonTrusted)
	})
	t.Run("a process ranks T3 unless a part of it says T4 or cannot be ranked", func(t *testing.T) {
		for part, want := range map[op.Tier]op.Tier{"": op.T3, op.T1: op.T3, op.T3: op.T3, op.T4: op.T4, "T5": op.T4, "x": op.T4} {
			if d := judge(with(of(op.WorkspaceShell), func(r *Row) { r.Facts.ProcessTier = part })); d.Tier != want {
				t.Errorf("part %q: %s, want %s", part, d.Tier, want)
			}
		}
	})
	t.Run("a protected source or parent counts, an open parent's other children do not", func(t *testing.T) {
		add := func(x op.Target) Row {
			return with(edit(), func(r *Row) { r.Facts.Targets = append(r.Facts.Targets, x) })
		}
		expect(t, "source", add(op.Target{Path: "b", Role: op.RoleSource, Exists: true, Kind: op.File, Protected: true}), op.Review, op.ReasonProtected)
		expect(t, "parent", add(op.Target{Path: ".git", Role: op.RoleParent, Exists: true, Kind: op.Directory, Protected: true}), op.Review, op.ReasonProtected)
		expect(t, "parent's child", add(op.Target{Path: ".", Role: op.RoleParent, Exists: true, Kind: op.Directory, ContainsProtected: true}), op.Auto)
		expect(t, "sensitive source", add(op.Target{Path: "b", Role: op.RoleSource, Exists: true, Kind: op.File, Sensitive: true}), op.Review, op.ReasonGuarded)
	})
}

func TestRows(t *testing.T) {
	line := `{"name":"n","request":{"op":"edit_file","backup":true},"profile":{"allow_edit":true,"clearance":1,"mode":"auto"},` +
		`"facts":{"workspace_bound":true,"available":true,"planned":true,"mutates":true,"process_tier":"","confined_rehearsal":false,"change_bytes":1,"overwrites":false,"creates":false,` +
		`"targets":[{"path":"a","role":"target","exists":true,"kind":"file","protected":false,"sensitive":false,"ignored":false}]},"environment":{"clearance_floor":1}}`
	run := func(in string) (string, error) {
		var out strings.Builder
		err := JudgeRows(strings.NewReader(in), &out)
		return out.String(), err
	}
	const auto = `{"verdict":"auto","reason":"low_impact_scoped_change","also":[],"tier":"T2","mandatory":false,"target_bound":false,"one_shot":false,"trusted_policy_id":"","grant_id":"","pinned":true}` + "\n"
	for in, want := range map[string]string{
		line:                                 auto,
		"\n" + line + "\r\n\n" + line + "\n": auto + auto,
		"[" + line + "]":                     auto,
		" [\n" + line + "\n,\n" + line + "\n]\n\n": auto + auto,
		"": "", "[]": "", "\n\n": "",
	} {
		if got, err := run(in); err != nil || got != want {
			t.Errorf("%.40q: %v\ngot  %s\nwant %s", in, err, got, want)
		}
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"unknown field":     {`"planned"`, `"plannned"`, `unknown field "facts.plannned"`},
		"wrong case":        {`"op"`, `"OP"`, `unknown field "request.OP"`},
		"field twice":       {`"planned":true`, `"planned":false,"planned":true`, `"planned" appears twice`},
		"wrong type":        {`"planned":true`, `"planned":"true"`, "facts.planned must be true or false"},
		"wrong element":     {`"role":"target"`, `"role":1`, "facts.targets[0].role must be a string"},
		"null element":      {`"targets":[`, `"targets":[null,`, "facts.targets[0] must not be null"},
		"fraction":          {`"change_bytes":1`, `"change_bytes":1.5`, "whole numbers"},
		"too large":         {`"change_bytes":1`, `"change_bytes":9007199254740993`, "2^53"},
		"unknown in target": {`"exists"`, `"exist"`, `unknown field "facts.targets[0].exist"`},
		"no operation":      {`"op":"edit_file",`, ``, "the operation is missing"},
		"bad verdict":       {`"name":"n"`, `"want":{"verdict":"maybe"}`, "maybe"},
		"not an object":     {line, `7`, "not a JSON object"},
		"not closed":        {`"environment":{"clearance_floor":1}}`, `"environment":{`, "expected a key"},
		"trailing":          {line, line + ` {}`, "data after"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(line, c.from, c.to, 1)
			for prefix, in := range map[string]string{"line 2: ": line + "\n" + bad, "line 3: ": "\n[" + line + ",\n" + bad + "]"} {
				if name == "not closed" && prefix == "line 3: " || name == "trailing" && prefix == "line 3: " {
					continue // another fault there
				}
				got, err := run(in)
				if err == nil || !strings.HasPrefix(op.AsError(err).Message, prefix) || !strings.Contains(err.Error(), c.want) || op.AsError(err).Code != op.BadRequest {
					t.Errorf("got %v, want %s%s", err, prefix, c.want)
				}
				if got != auto {
					t.Errorf("the row before was answered %q", got)
				}
			}
		})
	}
	for _, in := range []string{"[" + line, "[" + line + "] x", "[" + line + line + "]", "[" + line + ",]", "[,]"} {
		if _, err := run(in); err == nil || !strings.HasPrefix(op.AsError(err).Message, "line 1: ") {
			t.Errorf("%.30q...: %v", in, err)
		}
	}
	// What the profile leaves out is strict: approval is required, every switch is off.
	if got, _ := run(strings.Replace(line, `"change_bytes":1`, `"change_bytes":70000`, 1)); !strings.Contains(got, `"change_too_large"`) {
		t.Errorf("require_approval left out: %s", got)
	}
	if got, _ := run(strings.Replace(line, `"change_bytes":1,`, ``, 1)); !strings.Contains(got, `"also":["planning_failed"]`) {
		t.Errorf("change_bytes left out: %s", got)
	}
	if got, _ := run(strings.Replace(line, `"allow_edit":true,`, ``, 1)); !strings.Contains(got, `"operation_disabled"`) {
		t.Errorf("allow_edit left out: %s", got)
	}
}
