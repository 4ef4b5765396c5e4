package decision

import (
	"math/rand/v2"
	"slices"
	"testing"

	"holdpoint/op"
)

func TestLifts(t *testing.T) {
	overwrite := func(r *Row) { r.Facts.Overwrites = true }
	optOut := func(r *Row) { r.Profile.RequireApproval = false }

	t.Run("C102 author opt-out skips review of adaptive operations and of harmless batches", func(t *testing.T) {
		for _, name := range classes(op.Adaptive) {
			expect(t, string(name), with(of(name), overwrite), op.Review, op.ReasonOverwrite)
			expect(t, string(name), with(of(name), overwrite, optOut), op.Auto, op.ReasonAuthorOptOut)
		}
		expect(t, "batch of writes", with(of(op.BatchFileOps), optOut), op.Auto, op.ReasonAuthorOptOut)
	})
	t.Run("C62 opt-out plus an overwrite says author_opt_out", func(t *testing.T) {
		expect(t, "write", with(of(op.WriteFile), overwrite, optOut), op.Auto, op.ReasonAuthorOptOut)
	})
	t.Run("C103 author opt-out never skips a delete, move, rollback or a batch with one", func(t *testing.T) {
		for _, name := range classes(op.Destructive) {
			expect(t, string(name), with(of(name), generous), op.Review, op.ReasonDestructive)
		}
		expect(t, "batch", with(of(op.BatchFileOps), generous, deleting), op.Review, op.ReasonBatch, op.ReasonDestructive)
	})
	t.Run("C104 author opt-out never skips a process", func(t *testing.T) {
		for _, name := range classes(op.Process) {
			expect(t, string(name), with(of(name), generous), op.Review, op.ReasonProcess)
		}
	})
	t.Run("C105 author opt-out never skips a protected target", func(t *testing.T) {
		for _, name := range append(classes(op.Adaptive), op.BatchFileOps) {
			d := expect(t, string(name), with(of(name), generous, func(r *Row) { r.Facts.Targets[0].Protected = true }), op.Review)
			if d.Reason != op.ReasonProtected && !slices.Contains(d.Also, op.ReasonProtected) {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
	t.Run("C106 with everything else permissive and no entry a delete still asks", func(t *testing.T) {
		for _, name := range classes(op.Destructive) {
			r := with(of(name), generous, func(r *Row) {
				r.Environment.ProcessApprovalDisabled, r.Environment.RehearseWithoutReview, r.Facts.ConfinedRehearsal = true, true, true
			})
			expect(t, string(name), r, op.Review, op.ReasonDestructive)
			expect(t, string(name), with(r, trusted), op.Auto, op.ReasonTrusted)
		}
	})
	t.Run("C63 a matching entry plus a delete says trusted_automation, and which", func(t *testing.T) {
		if d := expect(t, "delete", with(of(op.DeleteFile), trusted), op.Auto, op.ReasonTrusted); d.TrustedPolicyID != "e" || d.Tier != op.T4 || !d.Pinned {
			t.Errorf("%+v", d)
		}
	})
	t.Run("C112 the entry and the profile's switch are both required", func(t *testing.T) {
		both := with(of(op.DeleteFile), trusted)
		expect(t, "both", both, op.Auto)
		expect(t, "only the entry", with(both, func(r *Row) { r.Profile.RequireApproval = true }), op.Review)
		for name, change := range map[string]func(*op.TrustedPolicy){
			"no id":         func(p *op.TrustedPolicy) { p.ID = "" },
			"workflow":      func(p *op.TrustedPolicy) { p.WorkflowIDs = []string{"wf2", "*", ""} },
			"operation":     func(p *op.TrustedPolicy) { p.Operations = []op.Name{op.MoveFile, "*"} },
			"targets":       func(p *op.TrustedPolicy) { p.CoversAllTargets = false },
			"nothing named": func(p *op.TrustedPolicy) { *p = op.TrustedPolicy{ID: "e", CoversAllTargets: true} },
		} {
			expect(t, name, with(both, func(r *Row) {
				p := r.Environment.Trusted[0]
				change(&p)
				r.Environment.Trusted = []op.TrustedPolicy{p}
			}), op.Review, op.ReasonDestructive)
		}
		expect(t, "no workflow", with(both, func(r *Row) { r.Environment.WorkflowID = "" }), op.Review)
		for _, names := range [][]op.Name{{op.BatchFileOps}, {op.DeleteFile}, {op.BatchFileOps, op.MoveFile}} {
			expect(t, "half a batch", with(of(op.BatchFileOps), trusted, deleting, func(r *Row) { r.Environment.Trusted[0].Operations = names }), op.Review)
		}
	})
	t.Run("C115 an entry never covers processes or protected targets", func(t *testing.T) {
		expect(t, "process", with(of(op.WorkspaceShell), trusted, func(r *Row) { r.Environment.Trusted[0].Operations = []op.Name{op.WorkspaceShell} }), op.Review, op.ReasonProcess)
		for _, change := range []func(*Row){
			func(r *Row) { r.Facts.Targets[0].Protected = true },
			func(r *Row) { r.Facts.Targets[0].ContainsProtected = true },
		} {
			expect(t, "protected", with(of(op.DeleteFile), trusted, change), op.Review, op.ReasonDestructive, op.ReasonProtected)
		}
	})
	t.Run("C71 a remembered rule covers this identity and no other", func(t *testing.T) {
		remember := func(words ...string) func(*Row) {
			return func(r *Row) { r.Environment.Remembered = words }
		}
		root := func(key string, name op.Name, p op.Path) string {
			return Identity(name, key, []RolePath{{op.RoleTarget, p}}, nil)
		}
		rule := root("r1", op.DeleteFile, "a.txt")
		for _, c := range []struct {
			identity string
			want     op.Verdict
		}{{root("r1", op.DeleteFile, "a.txt"), op.Auto}, {root("r1", op.DeleteFile, "b.txt"), op.Review}, {root("r1", op.MoveFile, "a.txt"), op.Review}, {root("r2", op.DeleteFile, "a.txt"), op.Review}} {
			words := []string{"another"}
			if c.identity == rule {
				words = append(words, op.SameIdentity)
			}
			expect(t, c.identity, with(of(op.DeleteFile), remember(words...)), c.want)
		}
		same := remember(op.SameIdentity)
		expect(t, "a batch", with(of(op.BatchFileOps), same), op.Review, op.ReasonBatch)
		expect(t, "nothing seen", with(of(op.DeleteFile), same, func(r *Row) { r.Facts.Available = false }), op.Review)
		expect(t, "a person's mode", with(of(op.DeleteFile), same, func(r *Row) { r.Profile.Mode = op.Prompt }), op.Review)
		expect(t, "protected", with(edit(), same, func(r *Row) { r.Facts.Targets[0].Protected = true }), op.Auto, op.ReasonRemembered)
	})
	t.Run("U21 at the clearance floor the call asks", func(t *testing.T) {
		expect(t, "equal", with(of(op.DeleteFile), func(r *Row) { r.Profile.Clearance, r.Environment.ClearanceFloor = 3, 3 }), op.Review, op.ReasonDestructive)
	})
	t.Run("U22 below the clearance floor the call is refused", func(t *testing.T) {
		for _, s := range op.Operations() {
			r := with(of(s.Name), generous, trusted, func(r *Row) { r.Profile.Clearance, r.Environment.ClearanceFloor = 2, 3 })
			if s.Class == op.Read {
				expect(t, string(s.Name), r, op.Auto, op.ReasonReadOnly)
				continue
			}
			expect(t, string(s.Name), r, op.Refuse, op.ReasonClearanceTooLow)
		}
	})
	t.Run("U25 without a floor an operation is refused", func(t *testing.T) {
		for _, floor := range []int{0, -1} {
			expect(t, "edit", with(edit(), func(r *Row) { r.Profile.Clearance, r.Environment.ClearanceFloor = 9, floor }), op.Refuse, op.ReasonClearanceTooLow)
		}
	})
}

func TestModesAndGrants(t *testing.T) {
	mode := func(m op.Mode) func(*Row) { return func(r *Row) { r.Profile.Mode = m } }
	leave := func(r *Row) { r.Environment.YoloAllowed = true }
	grants := func(list ...op.Grant) func(*Row) { return func(r *Row) { r.Environment.Grants = list } }
	overwrite := func(r *Row) { r.Facts.Overwrites = true }

	t.Run("X11 the mode is the highest tier that runs without asking", func(t *testing.T) {
		byTier := map[op.Tier]Row{op.T1: of(op.ViewFile), op.T2: edit(), op.T3: of(op.WorkspaceShell), op.T4: of(op.DeleteFile)}
		for m, highest := range map[op.Mode]int{op.Deny: -1, op.Prompt: 1, op.AutoMode: 2, op.Yolo: 4} {
			for tier, r := range byTier {
				want := op.Review
				if tier.Rank() <= highest {
					want = op.Auto
				}
				if d := expect(t, string(m)+" "+string(tier), with(r, mode(m), leave), want); d.Tier != tier {
					t.Errorf("%s %s: tier %s", m, tier, d.Tier)
				}
			}
		}
	})
	t.Run("X12 deny asks for reads and rehearsals too, and so does what is no mode", func(t *testing.T) {
		for _, m := range []op.Mode{op.Deny, "", "AUTO", "off"} {
			expect(t, string(m), with(of(op.ViewFile), mode(m)), op.Review, op.ReasonModeRestricted)
			expect(t, string(m), with(edit(), mode(m), func(r *Row) { r.Request.DryRun = true }), op.Review, op.ReasonModeRestricted)
			expect(t, string(m), with(edit(), mode(m)), op.Review, op.ReasonModeRestricted)
		}
	})
	t.Run("X14 auto covers T2, not T3 and T4", func(t *testing.T) {
		expect(t, "edit", with(edit(), mode(op.AutoMode)), op.Auto)
		expect(t, "shell", with(of(op.WorkspaceShell), mode(op.AutoMode)), op.Review)
		expect(t, "delete", with(of(op.DeleteFile), mode(op.AutoMode)), op.Review)
	})
	t.Run("yolo needs the operator's leave and covers neither protected nor unseen", func(t *testing.T) {
		expect(t, "no leave", with(of(op.DeleteFile), mode(op.Yolo)), op.Review)
		expect(t, "leave without the mode", with(of(op.DeleteFile), leave), op.Review)
		for name, change := range map[string]func(*Row){
			"protected": func(r *Row) { r.Facts.Targets[0].Protected = true }, "guarded": func(r *Row) { r.Facts.Targets[0].Sensitive = true },
			"unseen": func(r *Row) { r.Facts.Available = false }, "unplanned": func(r *Row) { r.Facts.Planned = false },
			"unbound": func(r *Row) { r.Facts.WorkspaceBound = false }, "override": func(r *Row) { r.Request.ForceOverwrite = true },
		} {
			expect(t, name, with(of(op.DeleteFile), mode(op.Yolo), leave, change), op.Review)
		}
	})
	t.Run("X10 no mode, grant or rule lowers a tier", func(t *testing.T) {
		for _, r := range table(t) {
			before := judge(r)
			after := judge(with(r, leave, generous, trusted, func(r *Row) {
				r.Environment.Remembered = []string{op.SameIdentity}
				r.Environment.ProcessApprovalDisabled, r.Environment.RehearseWithoutReview, r.Profile.Mode = true, true, op.Yolo
			}))
			if after.Tier != before.Tier {
				t.Errorf("%s: %s became %s", r.Name, before.Tier, after.Tier)
			}
		}
		d := judge(with(of(op.WorkspaceShell), func(r *Row) { r.Environment.ProcessApprovalDisabled = true }))
		if d.Verdict != op.Auto || d.Tier != op.T3 {
			t.Errorf("an automatic process: %+v", d)
		}
	})
	t.Run("X25 grants add up and lift nothing stricter", func(t *testing.T) {
		a, b := op.Grant{ID: "a", Scope: "session", MaxTier: op.T2}, op.Grant{ID: "b", Scope: "session", MaxTier: op.T2}
		for want, list := range map[string][]op.Grant{"a": {a, b}, "b": {b}} {
			if d := expect(t, want, with(edit(), overwrite, grants(list...)), op.Auto, op.ReasonGranted); d.GrantID != want {
				t.Errorf("grant %q, want %q", d.GrantID, want)
			}
		}
		expect(t, "both revoked", with(edit(), overwrite, grants()), op.Review)
		expect(t, "protected", with(edit(), grants(a, b), func(r *Row) { r.Facts.Targets[0].Protected = true }), op.Review)
		expect(t, "delete", with(of(op.DeleteFile), grants(op.Grant{ID: "a", Scope: "session", MaxTier: op.T4})), op.Review)
	})
	t.Run("X26 session goes before stage before project", func(t *testing.T) {
		scopes := []string{"session", "stage", "project"}
		for first := range scopes {
			var list []op.Grant
			for i := len(scopes) - 1; i >= first; i-- {
				list = append(list, op.Grant{ID: scopes[i], Scope: scopes[i], MaxTier: op.T2})
			}
			if d := judge(with(edit(), overwrite, grants(list...))); d.GrantID != scopes[first] {
				t.Errorf("%v: grant %q", list, d.GrantID)
			}
		}
	})
	t.Run("X30 tier, mode and grants decide together", func(t *testing.T) {
		for _, c := range []struct {
			mode op.Mode
			max  op.Tier
			want op.Verdict
		}{
			{op.Prompt, op.T2, op.Auto}, {op.Prompt, op.T4, op.Auto}, {op.Prompt, op.T1, op.Review}, {op.Deny, op.T2, op.Auto},
			{op.Prompt, "", op.Review}, {op.Prompt, "T9", op.Review}, {op.Prompt, "all", op.Review},
		} {
			g := op.Grant{ID: "g", Scope: "session", MaxTier: c.max}
			expect(t, string(c.mode)+" "+string(c.max), with(edit(), mode(c.mode), grants(g)), c.want)
			for _, bad := range []op.Grant{{ID: "", Scope: "session", MaxTier: c.max}, {ID: "g", Scope: "", MaxTier: c.max}, {ID: "g", Scope: "global", MaxTier: c.max}, {}} {
				expect(t, "no grant", with(edit(), mode(c.mode), grants(bad)), op.Review)
			}
		}
	})
	t.Run("S62 no order of entries, rules and grants beats what must ask", func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		var list []op.Grant
		for _, scope := range []string{"session", "stage", "project"} {
			for _, tier := range []op.Tier{op.T1, op.T2, op.T3, op.T4} {
				list = append(list, op.Grant{ID: scope + string(tier), Scope: scope, MaxTier: tier})
			}
		}
		policies := []op.TrustedPolicy{}
		for _, id := range []string{"x", "y", "z"} {
			policies = append(policies, op.TrustedPolicy{ID: id, WorkflowIDs: []string{"wf"}, CoversAllTargets: true, Operations: []op.Name{op.DeleteFile, op.MoveFile, op.RollbackFile, op.BatchFileOps}})
		}
		for range 300 {
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			rng.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
			all := func(r *Row) {
				r.Profile.RequireApproval = false
				r.Environment.Grants, r.Environment.Trusted, r.Environment.Remembered = list, policies, []string{"near", "nearer"}
			}
			protected := func(r *Row) { r.Facts.Targets[0].Protected = true }
			for _, name := range []op.Name{op.WriteFile, op.EditFile, op.DeleteFile, op.BatchFileOps, op.MoveFile} {
				expect(t, "protected "+string(name), with(of(name), all, protected), op.Review)
				expect(t, "switched off "+string(name), with(of(name), all, func(r *Row) { r.Profile = op.Profile{} }), op.Refuse)
			}
			expect(t, "reviewed class", with(of(op.WorkspaceShell), all), op.Review)
			expect(t, "a person's mode", with(of(op.DeleteFile), all, mode(op.Prompt)), op.Review)
			expect(t, "allowed", with(of(op.DeleteFile), all), op.Auto)
		}
	})
}

func TestProfileSwitch(t *testing.T) {
	t.Run("C129, C131 (part) nothing lifts the asking for a profile, and it is never remembered", func(t *testing.T) {
		for name, change := range map[string]func(*Row){
			"as it is":      func(*Row) {},
			"opted out":     generous,
			"trusted":       trusted,
			"remembered":    func(r *Row) { r.Environment.Remembered = []string{op.SameIdentity} },
			"yolo":          func(r *Row) { r.Profile.Mode, r.Environment.YoloAllowed = op.Yolo, true },
			"granted to T4": func(r *Row) { r.Environment.Grants = []op.Grant{{ID: "g", Scope: "session", MaxTier: op.T4}} },
		} {
			d := expect(t, name, with(of(op.SwitchProfile), change), op.Review, op.ReasonProfileSwitch)
			if !d.Mandatory || !d.TargetBound || !d.OneShot || d.Tier != op.T3 {
				t.Errorf("%s: %+v", name, d)
			}
		}
	})
}
