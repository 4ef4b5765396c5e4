package decision_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"holdpoint/decision"
	"holdpoint/op"
)

// The judgement written a second time, from the words of the design and of the decision
// table, and not from the code of the first: as sentences that each stand alone, none of
// them knowing the others. Where both agree on thousands of random calls, a slip would
// have to have been made twice. Each sentence has a name, and can be turned round: a test
// below shows that each of them matters.

// rows of the operations' table: what kind each is, and which switch it has.
var kinds = map[op.Name]string{
	"view_file": "read", "list_directory": "read", "file_tree": "read", "search_files": "read", "file_info": "read", "diff_file": "read",
	"validate_file": "read", "git_status": "read", "git_diff": "read", "git_log": "read", "git_show": "read", "git_blame": "read",
	"preview_markdown": "read", "detect_tests": "read", "list_backups": "read", "list_profiles": "read",
	"write_file": "adaptive", "edit_file": "adaptive", "patch_file": "adaptive", "copy_file": "adaptive", "create_directory": "adaptive", "backup_file": "adaptive",
	"delete_file": "destructive", "move_file": "destructive", "rollback_file": "destructive",
	"batch_file_ops": "batch", "workspace_shell": "process", "workspace_tests": "process", "undo": "undo", "request_profile_switch": "switch",
}

func switchOf(p op.Profile, n op.Name) bool {
	switch n {
	case "write_file", "create_directory":
		return p.AllowWrite
	case "edit_file":
		return p.AllowEdit
	case "patch_file":
		return p.AllowPatch
	case "copy_file":
		return p.AllowCopy
	case "backup_file":
		return p.AllowBackup
	case "delete_file":
		return p.AllowDelete
	case "move_file":
		return p.AllowMove
	case "rollback_file":
		return p.AllowRollback
	case "batch_file_ops":
		return p.AllowBatch
	case "workspace_shell", "workspace_tests":
		return p.AllowExec
	case "undo":
		return p.AllowUndo
	case "request_profile_switch":
		return p.AllowSwitch
	}
	return p.AllowRead
}

// model answers calls; the sentence called turned is taken for its opposite.
type model struct{ turned string }

// is asks one sentence of the model.
func (m model) is(name string, holds bool) bool { return holds != (m.turned == name) }

func (m model) judge(q op.Terms, p op.Profile, f op.Facts, e op.Environment) op.Decision {
	kind := kinds[q.Op]
	some := func(holds func(op.Target) bool) bool { return slices.ContainsFunc(f.Targets, holds) }
	takes := func(t op.Target) bool { return t.Deletes }
	answer := func(v op.Verdict, r op.Reason, tier op.Tier) op.Decision {
		return op.Decision{Verdict: v, Reason: r, Also: []op.Reason{}, Tier: tier}
	}
	rehearsed := m.is("a program has no rehearsal by dry_run", q.DryRun && kind != "process")

	// 1. What is refused before anything is looked at.
	if m.is("an operation must be in the table", kind == "") {
		return answer(op.Refuse, "unknown_operation", "")
	}
	tier := map[string]op.Tier{"read": "T1", "adaptive": "T2", "batch": "T2", "undo": "T2", "process": "T3", "switch": "T3", "destructive": "T4"}[kind]
	if rehearsed {
		tier = "T1"
	}
	if m.is("a switch that is off refuses", !switchOf(p, q.Op)) {
		return answer(op.Refuse, "operation_disabled", tier)
	}

	// 2. Reads and rehearsals.
	idle := f.Available && f.Planned && !f.Mutates && !f.Creates && !f.Overwrites && !some(takes)
	idle = m.is("a batch was seen to change nothing", kind == "batch" && idle)
	deletes := m.is("a part that deletes makes the whole T4", (kind == "batch" || kind == "adaptive") && some(takes))
	switch {
	case tier == "T1":
	case idle:
		tier = "T1"
	case deletes, m.is("a program's part may be T4", kind == "process" && f.ProcessTier == "T4"):
		tier = "T4"
	}
	mode := p.Mode
	if mode != "prompt" && mode != "auto" && mode != "yolo" {
		mode = "deny"
	}
	harmless := op.Reason("")
	if kind == "read" || idle {
		harmless = "read_only"
	} else if rehearsed {
		harmless = "rehearsal"
	}
	if harmless != "" {
		if m.is("deny asks for reads too", mode == "deny") {
			return answer(op.Review, "mode_restricted", tier)
		}
		return answer(op.Auto, harmless, tier)
	}

	// 3. Clearance.
	if m.is("clearance must reach the floor", e.ClearanceFloor < 1 || p.Clearance < e.ClearanceFloor) {
		return answer(op.Refuse, "clearance_too_low", tier)
	}

	// 4. The reasons, in their order.
	written := 0
	for _, t := range f.Targets {
		if t.Role == op.RoleTarget || t.Role == op.RoleDestination {
			written++
		}
	}
	vague := some(func(t op.Target) bool {
		role := t.Role == op.RoleTarget || t.Role == op.RoleDestination || t.Role == op.RoleSource || t.Role == op.RoleParent
		there := t.Kind == op.File || t.Kind == op.Directory || t.Kind == op.Symlink
		return !role || t.Path == "" || !(there && t.Exists || t.Kind == op.Absent && !t.Exists)
	})
	seen := f.Available && written > 0 && !vague
	person := e.CallerRole == op.Reviewer || e.CallerRole == op.Operator
	var reasons []op.Reason
	for _, s := range []struct {
		reason op.Reason
		holds  bool
	}{
		{"workspace_unbound", !f.WorkspaceBound},
		{"preflight_unavailable", kind != "process" && !seen},
		{"planning_failed", kind != "process" && (!f.Planned || f.ChangeBytes < 0)},
		{"mutating_batch", kind == "batch"},
		{"destructive_operation", kind == "destructive" || (kind == "batch" || kind == "adaptive") && some(takes)},
		{"process_execution", kind == "process"},
		{"profile_switch", kind == "switch"},
		{"protected_target", !(kind == "undo" && person) && some(func(t op.Target) bool { return t.Protected || t.ContainsProtected && t.Role != op.RoleParent })},
		{"policy_guarded_target", kind != "undo" && some(func(t op.Target) bool { return t.Sensitive || t.Ignored && kind != "destructive" && !t.Deletes })},
		{"safety_override", q.AllowSensitive || q.AllowIgnored || q.ForceOverwrite},
		{"multiple_targets", kind == "adaptive" && written > 1},
		{"overwrite", kind == "adaptive" && (f.Overwrites || (q.Op == "write_file" || q.Op == "copy_file") && some(func(t op.Target) bool {
			return t.Exists && (t.Role == op.RoleTarget || t.Role == op.RoleDestination)
		}))},
		{"custom_backup_root", kind == "adaptive" && q.BackupRoot != ""},
		{"backup_disabled", (q.Op == "edit_file" || q.Op == "patch_file") && !q.Backup},
		{"change_too_large", kind == "adaptive" && f.ChangeBytes > 65536},
		{"mode_restricted", kind != "undo" && (mode == "prompt" || mode == "deny")},
	} {
		if m.is("reason "+string(s.reason), s.holds) {
			reasons = append(reasons, s.reason)
		}
	}
	ran := func(r op.Reason) op.Decision {
		d := answer(op.Auto, r, tier)
		d.Pinned = seen
		return d
	}

	// 5. Nothing speaks against it.
	if len(reasons) == 0 {
		if kind == "undo" {
			return ran("undo")
		}
		return ran("low_impact_scoped_change")
	}

	// 6. One lift that covers them all.
	within := func(words string) bool {
		return !slices.ContainsFunc(reasons, func(r op.Reason) bool { return !slices.Contains(strings.Fields(words), string(r)) })
	}
	const five = "multiple_targets overwrite custom_backup_root backup_disabled change_too_large"
	if m.is("lift process_approval_disabled", within("process_execution") && e.ProcessApprovalDisabled) {
		return ran("process_approval_disabled")
	}
	if m.is("lift confined_rehearsal", within("process_execution") && e.RehearseWithoutReview && f.ConfinedRehearsal) {
		return ran("confined_rehearsal")
	}
	if within("mutating_batch destructive_operation") && m.is("trust needs require_approval off", !p.RequireApproval) {
		for _, t := range e.Trusted {
			if m.is("trust names the workflow", e.WorkflowID != "" && slices.Contains(t.WorkflowIDs, e.WorkflowID)) &&
				m.is("trust names the operation", slices.Contains(t.Operations, q.Op)) &&
				m.is("trust of a batch names delete_file", kind != "batch" || slices.Contains(t.Operations, "delete_file")) &&
				m.is("trust covers all targets", t.CoversAllTargets) && t.ID != "" {
				d := ran("trusted_automation")
				d.TrustedPolicyID = t.ID
				return d
			}
		}
	}
	if m.is("lift author_opt_out", within("mutating_batch "+five) && !p.RequireApproval) {
		return ran("author_opt_out")
	}
	if m.is("lift remembered_rule", within("destructive_operation process_execution protected_target policy_guarded_target safety_override "+five) &&
		slices.Contains(e.Remembered, "same_identity")) {
		return ran("remembered_rule")
	}
	if within(five + " mode_restricted") {
		order := []string{"session", "stage", "project"}
		if m.turned == "session before stage before project" {
			slices.Reverse(order)
		}
		for _, scope := range order {
			for _, g := range e.Grants {
				high := slices.Index([]op.Tier{"T0", "T1", "T2", "T3", "T4"}, g.MaxTier)
				if g.Scope == scope && g.ID != "" && m.is("a grant must reach the tier", high >= 0 && high >= int(tier[1]-'0')) {
					d := ran("granted")
					d.GrantID = g.ID
					return d
				}
			}
		}
	}
	if m.is("lift yolo_mode", within("mutating_batch destructive_operation process_execution "+five) && mode == "yolo" && e.YoloAllowed) {
		return ran("yolo_mode")
	}

	// 7. A person is asked.
	has := func(words string) bool {
		return slices.ContainsFunc(reasons, func(r op.Reason) bool { return slices.Contains(strings.Fields(words), string(r)) })
	}
	const missing, bound = "workspace_unbound preflight_unavailable planning_failed",
		"destructive_operation process_execution protected_target policy_guarded_target safety_override profile_switch"
	d := answer(op.Review, reasons[0], tier)
	d.Also = append(d.Also, reasons[1:]...)
	d.Mandatory = m.is("mandatory", has(missing+" "+bound))
	d.TargetBound = m.is("target_bound", has("mutating_batch "+bound) && !has(missing))
	d.OneShot = m.is("one_shot", kind == "batch" || has("profile_switch"))
	d.Pinned = seen
	return d
}

// call is one random input. Most are plausible and differ from a plain small change in a
// few ways, so that each sentence decides often; the others are of any shape.
func call(rng *rand.Rand) decision.Row {
	one := func(n int) bool { return rng.IntN(n) == 0 }
	names := []op.Name{"write_file", "edit_file", "patch_file", "copy_file", "create_directory", "backup_file", "delete_file", "move_file",
		"rollback_file", "batch_file_ops", "batch_file_ops", "workspace_shell", "workspace_tests", "undo", "undo", "view_file", "search_files", "request_profile_switch", "no_such"}
	q := op.Terms{Op: names[rng.IntN(len(names))], Backup: true}
	p := op.DefaultProfile()
	p.Clearance, p.AllowSwitch = 3, true
	f := op.Facts{WorkspaceBound: true, Available: true, Planned: true, Mutates: true, ProcessTier: "T3", ChangeBytes: 40}
	e := op.Environment{CallerRole: op.Agent, WorkflowID: "wf", ClearanceFloor: 1}
	target := func(role op.TargetRole) op.Target {
		return op.Target{Path: "a", Role: role, Exists: true, Kind: op.File}
	}
	f.Targets = []op.Target{target(op.RoleTarget)}
	if q.Op == "write_file" || q.Op == "create_directory" {
		f.Targets[0].Exists, f.Targets[0].Kind = false, op.Absent
	}
	if q.Op == "copy_file" || q.Op == "move_file" {
		f.Targets = []op.Target{target(op.RoleSource), {Path: "b", Role: op.RoleDestination, Kind: op.Absent}}
	}
	ways := []func(){
		func() { q.DryRun = true }, func() { q.AllowSensitive = true }, func() { q.AllowIgnored = true }, func() { q.ForceOverwrite = true },
		func() { q.Backup = false }, func() { q.BackupRoot = "elsewhere" },
		func() { p.RequireApproval = false }, func() { p.RequireApproval = false },
		func() { p.Mode = []op.Mode{"deny", "prompt", "yolo", "yolo", "", "wild"}[rng.IntN(6)] },
		func() { p.Clearance = rng.IntN(2) }, func() { e.ClearanceFloor = rng.IntN(5) },
		func() { p = op.Profile{Mode: op.AutoMode, Clearance: 3, AllowRead: one(2), AllowUndo: one(2)} },
		func() { f.WorkspaceBound = false }, func() { f.Available = false }, func() { f.Planned = false }, func() { f.Mutates = false }, func() { f.Mutates = false },
		func() { f.ChangeBytes = []int64{-1, 0, 65535, 65536, 65537}[rng.IntN(5)] },
		func() { f.Overwrites = true }, func() { f.Creates = true }, func() { f.ConfinedRehearsal = true },
		func() { f.ProcessTier = []op.Tier{"T4", "T4", "", "T1"}[rng.IntN(4)] },
		func() { f.Targets = nil }, func() { f.Targets = append(f.Targets, target(op.RoleTarget)) },
		func() { f.Targets = append(f.Targets, target(op.RoleParent)) },
		func() {
			f.Targets = append(f.Targets, op.Target{Path: "d", Role: op.RoleDestination, Exists: true, Kind: op.Directory})
		},
		func() { e.CallerRole = []op.Role{op.Reviewer, op.Operator, op.Observer, ""}[rng.IntN(4)] },
		func() { e.ProcessApprovalDisabled = true }, func() { e.RehearseWithoutReview, f.ConfinedRehearsal = true, !one(3) },
		func() { p.Mode, e.YoloAllowed = op.Yolo, !one(4) },
		func() { e.Remembered = []string{[]string{"same_identity", "same_identity", "other"}[rng.IntN(3)]} },
		func() {
			for _, scope := range []string{"project", "stage", "session", "galaxy"} {
				if !one(3) {
					e.Grants = append(e.Grants, op.Grant{ID: []string{"g-" + scope, "g-" + scope, "g-" + scope, ""}[rng.IntN(4)], Scope: scope,
						MaxTier: []op.Tier{"T2", "T3", "T4", "T1", "", "T9"}[rng.IntN(6)]})
				}
			}
		},
		func() {
			p.RequireApproval = one(4)
			for i := range 1 + rng.IntN(2) {
				e.Trusted = append(e.Trusted, op.TrustedPolicy{ID: fmt.Sprintf("t%d", i), WorkflowIDs: []string{[]string{"wf", "wf", "wf", "other"}[rng.IntN(4)]},
					Operations: [][]op.Name{{q.Op}, {"delete_file"}, {q.Op, "delete_file"}, {q.Op, "delete_file"}}[rng.IntN(4)], CoversAllTargets: !one(4)})
			}
			if one(6) {
				e.WorkflowID = ""
			}
		},
	}
	if len(f.Targets) > 0 {
		for _, mark := range []func(*op.Target){
			func(t *op.Target) { t.Protected = true }, func(t *op.Target) { t.ContainsProtected = true }, func(t *op.Target) { t.Sensitive = true },
			func(t *op.Target) { t.Ignored = true }, func(t *op.Target) { t.Ignored = true }, func(t *op.Target) { t.Deletes = true }, func(t *op.Target) { t.Deletes = true },
			func(t *op.Target) { t.Exists, t.Kind = true, op.File }, func(t *op.Target) { t.Exists = !t.Exists },
			func(t *op.Target) { t.Kind = []op.Kind{op.Fifo, op.Symlink, op.Directory, op.Absent, ""}[rng.IntN(5)] },
			func(t *op.Target) {
				t.Role = []op.TargetRole{op.RoleParent, op.RoleSource, op.RoleDestination, "", "odd"}[rng.IntN(5)]
			},
			func(t *op.Target) { t.Path = "" },
		} {
			ways = append(ways, func() {
				if n := len(f.Targets); n > 0 {
					mark(&f.Targets[rng.IntN(n)])
				}
			})
		}
	}
	for range rng.IntN(6) {
		ways[rng.IntN(len(ways))]()
	}
	if one(3) { // a plain small change with one reason against it, and perhaps a grant
		q = op.Terms{Op: []op.Name{"edit_file", "write_file", "copy_file"}[rng.IntN(3)], Backup: true}
		f = op.Facts{WorkspaceBound: true, Available: true, Planned: true, Mutates: true, ChangeBytes: 40, Targets: []op.Target{target(op.RoleTarget)}}
		p.Mode = op.AutoMode
		[]func(){
			func() { f.Targets = append(f.Targets, target(op.RoleTarget)) }, func() { f.Overwrites = true }, func() { q.BackupRoot = "elsewhere" },
			func() { q.Backup = false }, func() { f.ChangeBytes = 65537 }, func() { p.Mode = op.Prompt },
		}[rng.IntN(6)]()
		if one(2) {
			e.Grants = nil
			for _, scope := range []string{"project", "stage", "session"} {
				if !one(4) {
					e.Grants = append(e.Grants, op.Grant{ID: "g-" + scope, Scope: scope, MaxTier: []op.Tier{"T2", "T4", "T1"}[rng.IntN(3)]})
				}
			}
		}
	}
	switch rng.IntN(12) {
	case 0: // what an entry of the operator's file may cover
		q, p = op.Terms{Op: []op.Name{"delete_file", "batch_file_ops"}[rng.IntN(2)], Backup: true}, op.DefaultProfile()
		f = op.Facts{WorkspaceBound: true, Available: true, Planned: true, Mutates: true, ChangeBytes: 0, Targets: []op.Target{target(op.RoleTarget)}}
		f.Targets[0].Deletes = one(2)
		p.RequireApproval, e.ClearanceFloor, e.WorkflowID = one(6), 1, "wf"
		e.Trusted = []op.TrustedPolicy{{ID: "t", WorkflowIDs: []string{[]string{"wf", "wf", "other"}[rng.IntN(3)]}, CoversAllTargets: !one(4),
			Operations: [][]op.Name{{q.Op, "delete_file"}, {q.Op, "delete_file"}, {"batch_file_ops"}, {"move_file"}}[rng.IntN(4)]}}
	case 1: // a program, or what yolo covers
		q, p, e.ClearanceFloor = op.Terms{Op: []op.Name{"workspace_shell", "delete_file"}[rng.IntN(2)], Backup: true}, op.DefaultProfile(), 1
		f = op.Facts{WorkspaceBound: true, Available: true, Planned: true, Mutates: true, ConfinedRehearsal: one(2), Targets: []op.Target{target(op.RoleTarget)}}
		e.ProcessApprovalDisabled, e.RehearseWithoutReview, e.YoloAllowed = one(4), one(2), one(2)
		if one(2) {
			p.Mode = op.Yolo
		}
	}
	return decision.Row{Request: q, Profile: p, Facts: f, Environment: e}
}

// sentences are the names of all that the model can be made to take for its opposite.
func sentences() []string {
	out := []string{"a program has no rehearsal by dry_run", "an operation must be in the table", "a switch that is off refuses",
		"a batch was seen to change nothing", "a part that deletes makes the whole T4", "a program's part may be T4", "deny asks for reads too",
		"clearance must reach the floor", "lift process_approval_disabled", "lift confined_rehearsal", "trust needs require_approval off",
		"trust names the workflow", "trust names the operation", "trust of a batch names delete_file", "trust covers all targets",
		"lift author_opt_out", "lift remembered_rule", "session before stage before project", "a grant must reach the tier", "lift yolo_mode",
		"mandatory", "target_bound", "one_shot"}
	for _, r := range strings.Fields("workspace_unbound preflight_unavailable planning_failed mutating_batch destructive_operation process_execution profile_switch " +
		"protected_target policy_guarded_target safety_override multiple_targets overwrite custom_backup_root backup_disabled change_too_large mode_restricted") {
		out = append(out, "reason "+r)
	}
	return out
}

const randomCalls = 4000

func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	rows := make([]decision.Row, randomCalls)
	judged := make([]op.Decision, randomCalls)
	reasons := map[op.Reason]int{}
	for i := range rows {
		rows[i] = call(rng)
		judged[i] = decision.Judge(rows[i].Request, rows[i].Profile, rows[i].Facts, rows[i].Environment)
		reasons[judged[i].Reason]++
	}
	agree := func(m model) (int, op.Decision) {
		for i, r := range rows {
			if d := m.judge(r.Request, r.Profile, r.Facts, r.Environment); !reflect.DeepEqual(d, judged[i]) {
				return i, d
			}
		}
		return -1, op.Decision{}
	}
	t.Run("four thousand random calls get the verdict of an independent model", func(t *testing.T) {
		if i, d := agree(model{}); i >= 0 {
			t.Fatalf("call %d\ngot  %+v\nwant %+v\nof   %+v", i, judged[i], d, rows[i])
		}
		for _, r := range decision.Reasons() {
			if reasons[r] == 0 {
				t.Errorf("no call had the reason %s first, so that it was not tested: %v", r, reasons)
			}
		}
	})
	t.Run("any one sentence turned round is noticed", func(t *testing.T) {
		for _, s := range sentences() {
			if i, _ := agree(model{turned: s}); i < 0 {
				t.Errorf("%q turned round changes no verdict of the %d", s, randomCalls)
			}
		}
	})
	t.Run("the model gives the table's answers too", func(t *testing.T) {
		n := tableRows(t, func(r decision.Row) {
			got := model{}.judge(r.Request, r.Profile, r.Facts, r.Environment)
			got.Pinned = false
			want := *r.Want
			want.Also = append([]op.Reason{}, want.Also...)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", r.Name, got, want)
			}
		})
		if n < 146 {
			t.Errorf("only %d rows", n)
		}
	})
}
