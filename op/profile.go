package op

import (
	"reflect"
	"slices"
	"strconv"
)

// ProfilesArgs asks which profiles the caller may ask for.
type ProfilesArgs struct{}

// SwitchArgs asks for another profile.
type SwitchArgs struct {
	Profile string `json:"profile" req:"true" doc:"the profile to ask for, as list_profiles names it"`
}

// Switch is one switch of a profile by its name in configuration and on the wire.
type Switch struct {
	Name string
	On   *bool
}

// Switches gives the switches of a profile in their fixed order, for reading and setting.
func (p *Profile) Switches() []Switch {
	return []Switch{{"require_approval", &p.RequireApproval}, {"allow_read", &p.AllowRead}, {"allow_write", &p.AllowWrite}, {"allow_edit", &p.AllowEdit},
		{"allow_patch", &p.AllowPatch}, {"allow_copy", &p.AllowCopy}, {"allow_backup", &p.AllowBackup}, {"allow_delete", &p.AllowDelete},
		{"allow_move", &p.AllowMove}, {"allow_rollback", &p.AllowRollback}, {"allow_batch", &p.AllowBatch}, {"allow_exec", &p.AllowExec},
		{"allow_undo", &p.AllowUndo}, {"allow_switch", &p.AllowSwitch}}
}

// CheckPart checks some of an operation's arguments, by their own names alone; that others
// are missing is no matter. at names the place for an error.
func CheckPart(spec Spec, part Object, at string) error {
	args := reflect.New(spec.Args).Elem()
	fields := Fields(spec.Args)
	for _, name := range sortedKeys(part) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return Fail(BadRequest, "unknown argument "+strconv.Quote(name)).In(at + "." + name).Do(nearest(name, fields))
		}
		if _, err := set(args.FieldByIndex(fields[i].Index), part[name], fields[i], at+"."+name, Object{}); err != nil {
			return err
		}
	}
	return nil
}
