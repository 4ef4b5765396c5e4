package op

// Subject is one path that a call names, with its role. Follow tells whether a final
// symlink is walked: write, edit and reads go through a link, delete and move act on it.
type Subject struct {
	Arg    string // the argument, "path"
	Asked  string // as written
	Role   TargetRole
	Follow bool
}

// Subjects lists the paths that a call's arguments name, in the order of the arguments.
func Subjects(args any) []Subject {
	at := func(arg, asked string, role TargetRole, follow bool) Subject {
		return Subject{arg, asked, role, follow}
	}
	switch a := args.(type) {
	case *ViewArgs:
		return []Subject{at("path", a.Path, RoleTarget, true)}
	case *ListArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *TreeArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *SearchArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *GitStatusArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *GitDiffArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *GitLogArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *GitShowArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *GitBlameArgs:
		return []Subject{at("path", a.Path, RoleTarget, true)}
	case *DetectArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *PreviewArgs:
		return []Subject{at("path", a.Path, RoleTarget, true)}
	case *ValidateArgs:
		if a.Content == nil {
			return []Subject{at("path", a.Path, RoleTarget, true)}
		}
	case *InfoArgs:
		return []Subject{at("path", a.Path, RoleTarget, false)}
	case *DiffArgs:
		list := []Subject{at("path", a.Path, RoleTarget, true)}
		if a.ComparePath != nil {
			list = append(list, at("compare_path", *a.ComparePath, RoleTarget, true))
		}
		return list
	case *WriteArgs:
		return append([]Subject{at("path", a.Path, RoleTarget, true)}, backupPlace(a.BackupRoot)...)
	case *EditArgs:
		return append([]Subject{at("path", a.Path, RoleTarget, true)}, backupPlace(a.BackupRoot)...)
	case *BackupArgs:
		return append([]Subject{at("path", a.Path, RoleTarget, true)}, backupPlace(a.BackupRoot)...)
	case *BackupsArgs:
		return []Subject{at("path", orRoot(a.Path), RoleTarget, true)}
	case *RollbackArgs:
		return []Subject{at("path", a.Path, RoleTarget, true)}
	case *MakeDirArgs:
		return []Subject{at("path", a.Path, RoleTarget, true)}
	case *CopyArgs:
		return []Subject{at("source", a.Source, RoleSource, true), at("destination", a.Destination, RoleTarget, false)}
	case *DeleteArgs:
		return []Subject{at("path", a.Path, RoleTarget, false)}
	case *MoveArgs:
		return []Subject{at("source", a.Source, RoleSource, false), at("destination", a.Destination, RoleTarget, false)}
	}
	return nil
}

// TermsOf gives what the judgement needs of a call's arguments.
func TermsOf(name Name, dryRun bool, args any) Terms {
	t := Terms{Op: name, DryRun: dryRun, Backup: true}
	safety := func(s Safety) {
		t.AllowSensitive, t.AllowIgnored = s.AllowSensitive, s.AllowIgnored
		t.ForceOverwrite = s.ForceOverwrite || s.HardLinks == "break"
	}
	switch a := args.(type) {
	case *WriteArgs:
		safety(a.Safety)
		t.Backup, t.BackupRoot = Or(a.Backup, true), customRoot(a.BackupRoot)
	case *EditArgs:
		safety(a.Safety)
		t.Backup, t.BackupRoot = Or(a.Backup, true), customRoot(a.BackupRoot)
	case *BackupArgs:
		t.AllowSensitive, t.AllowIgnored, t.BackupRoot = a.AllowSensitive, a.AllowIgnored, customRoot(a.BackupRoot)
	case *RollbackArgs:
		safety(a.Safety)
	case *CopyArgs:
		safety(a.Safety)
	case *DeleteArgs:
		safety(a.Safety)
	case *MoveArgs:
		safety(a.Safety)
	case *PatchArgs:
		safety(a.Safety)
		t.Backup, t.BackupRoot = Or(a.Backup, true), customRoot(a.BackupRoot)
	case *BatchArgs:
		termsOfBatch(&t, a)
	case *UndoArgs:
		t.ForceOverwrite = a.Force
	case *ShellArgs:
		t.ForceOverwrite = a.WriteProtected
	case *TestsArgs:
		t.ForceOverwrite = a.WriteProtected
	}
	return t
}

// DefaultBackups is the name of the place where backups go unless a call names another.
const DefaultBackups = "default"

// backupPlace is the directory that a call wants its backup in; no subject for the usual
// place, which is in no workspace.
func backupPlace(root string) []Subject {
	if root == "" || root == DefaultBackups {
		return nil
	}
	return []Subject{{"backup_root", root, RoleParent, false}}
}

func customRoot(root string) string {
	if root == DefaultBackups {
		return ""
	}
	return root
}

func orRoot(p string) string {
	if p == "" {
		return "."
	}
	return p
}
