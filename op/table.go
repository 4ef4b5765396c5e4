package op

import "reflect"

// Name is the name of an operation; names are fixed.
type Name string

const (
	ViewFile        Name = "view_file"
	ListDirectory   Name = "list_directory"
	FileTree        Name = "file_tree"
	SearchFiles     Name = "search_files"
	FileInfo        Name = "file_info"
	DiffFile        Name = "diff_file"
	ValidateFile    Name = "validate_file"
	GitStatus       Name = "git_status"
	GitDiff         Name = "git_diff"
	GitLog          Name = "git_log"
	GitShow         Name = "git_show"
	GitBlame        Name = "git_blame"
	PreviewMarkdown Name = "preview_markdown"
	DetectTests     Name = "detect_tests"
	ListBackups     Name = "list_backups"
	WriteFile       Name = "write_file"
	EditFile        Name = "edit_file"
	PatchFile       Name = "patch_file"
	CopyFile        Name = "copy_file"
	CreateDirectory Name = "create_directory"
	BackupFile      Name = "backup_file"
	DeleteFile      Name = "delete_file"
	MoveFile        Name = "move_file"
	RollbackFile    Name = "rollback_file"
	BatchFileOps    Name = "batch_file_ops"
	WorkspaceShell  Name = "workspace_shell"
	WorkspaceTests  Name = "workspace_tests"
	Undo            Name = "undo"

	ListProfiles  Name = "list_profiles"
	SwitchProfile Name = "request_profile_switch"
)

// Class groups operations by what they may do.
type Class uint8

const (
	NoClass     Class = iota
	Read              // changes nothing; never reviewed
	Adaptive          // automatic inside the envelope
	Destructive       // always reviewed
	Batch             // as its parts
	Process           // always reviewed
	Reverting         // undo
	Switching         // asks for another profile; always reviewed, and nothing lifts that
)

var classWords = [...]string{"", "read", "adaptive", "destructive", "batch", "process", "undo", "profile"}

func (c Class) String() string { return classWords[c] }

// Spec is one row of the table of operations: the only definition of its arguments,
// from which checks, help and schemas are made.
type Spec struct {
	Name     Name
	Class    Class
	Tier     Tier
	Switch   string             // the profile's switch, "allow_read"
	Allowed  func(Profile) bool // reads the switch
	Args     reflect.Type       // the argument struct
	Built    bool               // false: known by name, answered not_available
	UndoWith Name               // what takes it back; empty for reads
	Title    string             // for people, as a tool's title
	Summary  string             // one sentence: what it does and when to use it
}

// NeedsApprovalPerCall reports whether each single call waits for a person.
func (s Spec) NeedsApprovalPerCall() bool {
	return s.Class == Destructive || s.Class == Process || s.Class == Switching
}

// Lookup finds an operation by its exact name.
func Lookup(n Name) (Spec, bool) { s, ok := byName[n]; return s, ok }

// Operations returns the table in its fixed order.
func Operations() []Spec { return append([]Spec(nil), table...) }

var (
	allowRead     = func(p Profile) bool { return p.AllowRead }
	allowWrite    = func(p Profile) bool { return p.AllowWrite }
	allowEdit     = func(p Profile) bool { return p.AllowEdit }
	allowPatch    = func(p Profile) bool { return p.AllowPatch }
	allowCopy     = func(p Profile) bool { return p.AllowCopy }
	allowBackup   = func(p Profile) bool { return p.AllowBackup }
	allowDelete   = func(p Profile) bool { return p.AllowDelete }
	allowMove     = func(p Profile) bool { return p.AllowMove }
	allowRollback = func(p Profile) bool { return p.AllowRollback }
	allowBatch    = func(p Profile) bool { return p.AllowBatch }
	allowExec     = func(p Profile) bool { return p.AllowExec }
	allowUndo     = func(p Profile) bool { return p.AllowUndo }
	allowSwitch   = func(p Profile) bool { return p.AllowSwitch }
)

var table = []Spec{
	{ViewFile, Read, T1, "allow_read", allowRead, args[ViewArgs](), true, "", "View a file", "Shows a file or a part of it, with its hash."},
	{ListDirectory, Read, T1, "allow_read", allowRead, args[ListArgs](), true, "", "List a directory", "Lists what a directory holds, in pages."},
	{FileTree, Read, T1, "allow_read", allowRead, args[TreeArgs](), true, "", "Show a tree", "Lists a directory and what lies below it."},
	{SearchFiles, Read, T1, "allow_read", allowRead, args[SearchArgs](), true, "", "Search files", "Finds text in files."},
	{FileInfo, Read, T1, "allow_read", allowRead, args[InfoArgs](), true, "", "File facts", "Tells whether a path exists and what stands there."},
	{DiffFile, Read, T1, "allow_read", allowRead, args[DiffArgs](), true, "", "Compare", "Compares a file with another or with given text."},
	{ValidateFile, Read, T1, "allow_read", allowRead, args[ValidateArgs](), true, "", "Validate a file", "Checks the syntax of a document."},
	{GitStatus, Read, T1, "allow_read", allowRead, args[GitStatusArgs](), true, "", "Git status", "Shows what changed since the last commit."},
	{GitDiff, Read, T1, "allow_read", allowRead, args[GitDiffArgs](), true, "", "Git diff", "Shows changes against the index or a commit."},
	{GitLog, Read, T1, "allow_read", allowRead, args[GitLogArgs](), true, "", "Git log", "Lists commits."},
	{GitShow, Read, T1, "allow_read", allowRead, args[GitShowArgs](), true, "", "Git show", "Shows one commit."},
	{GitBlame, Read, T1, "allow_read", allowRead, args[GitBlameArgs](), true, "", "Git blame", "Shows who last changed each line."},
	{PreviewMarkdown, Read, T1, "allow_read", allowRead, args[PreviewArgs](), true, "", "Preview Markdown", "Renders a Markdown file."},
	{DetectTests, Read, T1, "allow_read", allowRead, args[DetectArgs](), true, "", "Detect tests", "Finds out how the project runs its tests."},
	{ListBackups, Read, T1, "allow_read", allowRead, args[BackupsArgs](), true, "", "List backups", "Lists the snapshots of a file."},
	{WriteFile, Adaptive, T2, "allow_write", allowWrite, args[WriteArgs](), true, Undo, "Write a file", "Creates a file, or replaces a whole one. Use edit_file to change a part."},
	{EditFile, Adaptive, T2, "allow_edit", allowEdit, args[EditArgs](), true, Undo, "Edit a file", "Replaces exact text in a file."},
	{PatchFile, Adaptive, T2, "allow_patch", allowPatch, args[PatchArgs](), true, Undo, "Patch files", "Applies a unified diff or JSON Pointer operations."},
	{CopyFile, Adaptive, T2, "allow_copy", allowCopy, args[CopyArgs](), true, Undo, "Copy a file", "Copies a file, or a directory with all below it, to a new path."},
	{CreateDirectory, Adaptive, T2, "allow_write", allowWrite, args[MakeDirArgs](), true, Undo, "Create a directory", "Creates a directory and its missing parents."},
	{BackupFile, Adaptive, T2, "allow_backup", allowBackup, args[BackupArgs](), true, Undo, "Back up a file", "Keeps a snapshot of a file."},
	{DeleteFile, Destructive, T4, "allow_delete", allowDelete, args[DeleteArgs](), true, Undo, "Delete", "Moves a file or directory to quarantine; waits for a person."},
	{MoveFile, Destructive, T4, "allow_move", allowMove, args[MoveArgs](), true, Undo, "Move", "Moves or renames; never replaces; waits for a person."},
	{RollbackFile, Destructive, T4, "allow_rollback", allowRollback, args[RollbackArgs](), true, Undo, "Roll back a file", "Brings a snapshot back; waits for a person."},
	{BatchFileOps, Batch, T4, "allow_batch", allowBatch, args[BatchArgs](), true, Undo, "Batch", "Several operations as one; waits for a person when it changes anything."},
	{WorkspaceShell, Process, T3, "allow_exec", allowExec, args[ShellArgs](), true, "", "Run a command", "Runs a program with literal words, or a script; waits for a person."},
	{WorkspaceTests, Process, T3, "allow_exec", allowExec, args[TestsArgs](), true, "", "Run tests", "Runs the tests by an explicit command and counts them; waits for a person."},
	{Undo, Reverting, T2, "allow_undo", allowUndo, args[UndoArgs](), true, Undo, "Undo", "Takes an operation back if nothing changed since."},
	{ListProfiles, Read, T1, "allow_read", allowRead, args[ProfilesArgs](), true, "", "List profiles", "Lists the profiles you may ask for."},
	{SwitchProfile, Switching, T3, "allow_switch", allowSwitch, args[SwitchArgs](), true, "", "Ask for a profile", "Asks a person to put you under another profile; waits for them."},
}

var byName = func() map[Name]Spec {
	m := make(map[Name]Spec, len(table))
	for _, s := range table {
		m[s.Name] = s
	}
	return m
}()

func args[T any]() reflect.Type { return reflect.TypeFor[T]() }
