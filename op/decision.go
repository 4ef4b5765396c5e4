package op

import "fmt"

// Verdict is what a decision says: refuse, hold for a person, or run. Zero refuses.
type Verdict uint8

const (
	Refuse Verdict = iota
	Review
	Auto
)

var verdictWords = [...]string{"refuse", "review", "auto"}

func (v Verdict) String() string {
	if int(v) < len(verdictWords) {
		return verdictWords[v]
	}
	return verdictWords[Refuse]
}

// MarshalText gives the wire word.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText takes a wire word; anything else is an error.
func (v *Verdict) UnmarshalText(b []byte) error {
	for i, w := range verdictWords {
		if w == string(b) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("unknown verdict %q", b)
}

// Reason is one stable code that says why a decision fell.
type Reason string

// Reasons in the order in which they lead.
const (
	ReasonUnknownOperation  Reason = "unknown_operation"
	ReasonOperationDisabled Reason = "operation_disabled"
	ReasonReadOnly          Reason = "read_only"
	ReasonRehearsal         Reason = "rehearsal"
	ReasonClearanceTooLow   Reason = "clearance_too_low"
	ReasonUnbound           Reason = "workspace_unbound"
	ReasonNoPreflight       Reason = "preflight_unavailable"
	ReasonPlanningFailed    Reason = "planning_failed"
	ReasonBatch             Reason = "mutating_batch"
	ReasonDestructive       Reason = "destructive_operation"
	ReasonProcess           Reason = "process_execution"
	ReasonProfileSwitch     Reason = "profile_switch"
	ReasonProtected         Reason = "protected_target"
	ReasonGuarded           Reason = "policy_guarded_target"
	ReasonSafetyOverride    Reason = "safety_override"
	ReasonMultipleTargets   Reason = "multiple_targets"
	ReasonOverwrite         Reason = "overwrite"
	ReasonBackupRoot        Reason = "custom_backup_root"
	ReasonBackupDisabled    Reason = "backup_disabled"
	ReasonTooLarge          Reason = "change_too_large"
	ReasonModeRestricted    Reason = "mode_restricted"

	ReasonLowImpact         Reason = "low_impact_scoped_change"
	ReasonUndo              Reason = "undo"
	ReasonAuthorOptOut      Reason = "author_opt_out"
	ReasonTrusted           Reason = "trusted_automation"
	ReasonRemembered        Reason = "remembered_rule"
	ReasonGranted           Reason = "granted"
	ReasonProcessDisabled   Reason = "process_approval_disabled"
	ReasonConfinedRehearsal Reason = "confined_rehearsal"
	ReasonYolo              Reason = "yolo_mode"
)

// Decision is the one judgement of a call. Only decision.Judge makes one.
type Decision struct {
	Verdict         Verdict  `json:"verdict"`
	Reason          Reason   `json:"reason"`
	Also            []Reason `json:"also"` // the further reasons, in order; never nil on the wire
	Tier            Tier     `json:"tier"`
	Mandatory       bool     `json:"mandatory"`
	TargetBound     bool     `json:"target_bound"`
	OneShot         bool     `json:"one_shot"`
	TrustedPolicyID string   `json:"trusted_policy_id"`
	GrantID         string   `json:"grant_id"`
	Pinned          bool     `json:"pinned"` // facts were pinned and are re-checked before any effect
}

// Terms is what the judgement needs to know of the call itself.
type Terms struct {
	Op             Name   `json:"op"`
	DryRun         bool   `json:"dry_run"`
	AllowSensitive bool   `json:"allow_sensitive"`
	AllowIgnored   bool   `json:"allow_ignored"`
	ForceOverwrite bool   `json:"force_overwrite"`
	Backup         bool   `json:"backup"`
	BackupRoot     string `json:"backup_root"`
}

// Profile is the static side of a caller: switches and limits that the operator set.
// The zero Profile allows nothing.
type Profile struct {
	RequireApproval bool `json:"require_approval"`
	AllowRead       bool `json:"allow_read"`
	AllowWrite      bool `json:"allow_write"`
	AllowEdit       bool `json:"allow_edit"`
	AllowPatch      bool `json:"allow_patch"`
	AllowCopy       bool `json:"allow_copy"`
	AllowBackup     bool `json:"allow_backup"`
	AllowDelete     bool `json:"allow_delete"`
	AllowMove       bool `json:"allow_move"`
	AllowRollback   bool `json:"allow_rollback"`
	AllowBatch      bool `json:"allow_batch"`
	AllowExec       bool `json:"allow_exec"`
	AllowUndo       bool `json:"allow_undo"`
	AllowSwitch     bool `json:"allow_switch"`
	Clearance       int  `json:"clearance"`
	Mode            Mode `json:"mode"`
}

// DefaultProfile has every switch on, asks for approval, and runs in mode auto.
func DefaultProfile() Profile {
	return Profile{RequireApproval: true, AllowRead: true, AllowWrite: true, AllowEdit: true, AllowPatch: true,
		AllowCopy: true, AllowBackup: true, AllowDelete: true, AllowMove: true, AllowRollback: true,
		AllowBatch: true, AllowExec: true, AllowUndo: true, AllowSwitch: true, Clearance: 1, Mode: AutoMode}
}

// Environment is what the daemon alone knows: identity, operator configuration, rules.
// Nothing in it comes from the call.
type Environment struct {
	CallerRole              Role            `json:"caller_role"`
	WorkflowID              string          `json:"workflow_id"`
	ProcessApprovalDisabled bool            `json:"process_approval_disabled"`
	SessionReleased         bool            `json:"session_released"` // it types into a session whose card let the caller type anything
	RehearseWithoutReview   bool            `json:"rehearse_without_review"`
	YoloAllowed             bool            `json:"yolo_allowed"`
	ClearanceFloor          int             `json:"clearance_floor"` // 0 means that the operation has none, which refuses
	Trusted                 []TrustedPolicy `json:"trusted"`
	Remembered              []string        `json:"remembered"` // "same_identity" covers this call; anything else does not
	Grants                  []Grant         `json:"grants"`
}

// TrustedPolicy is one entry of the trusted-automation file, as far as it concerns a call.
type TrustedPolicy struct {
	ID               string   `json:"id"`
	WorkflowIDs      []string `json:"workflow_ids"`
	Operations       []Name   `json:"operations"`
	CoversAllTargets bool     `json:"covers_all_targets"`
}

// SameIdentity is the one word in Environment.Remembered that covers a call.
const SameIdentity = "same_identity"

// Grant lifts the author's reasons for a while; a person made it.
type Grant struct {
	ID      string `json:"id"`
	Scope   string `json:"scope"` // session, stage, project: in this order
	MaxTier Tier   `json:"max_tier"`
}
