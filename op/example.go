package op

// Example is a correct call of an operation, for whoever got its form wrong; nil where
// there is no such operation.
func Example(n Name) Object {
	text, known := examples[n]
	if !known {
		return nil
	}
	args, err := ParseJSON([]byte(text))
	if err != nil {
		panic("op: internal error: the example of " + string(n) + " is no object")
	}
	return Object{"op": string(n), "args": args}
}

// malformed are the codes of errors that are about a call's form alone.
var malformed = map[Code]bool{BadRequest: true, EmptyPattern: true, PatchParse: true, PointerError: true}

// WithExample gives the error of a call the correct form, where the form is what is wrong.
func (e *Error) WithExample(n Name) *Error {
	if malformed[e.Code] {
		e.Example = Example(n)
	}
	return e
}

// examples holds for each operation arguments that it takes.
var examples = map[Name]string{
	ViewFile:        `{"path":"src/main.go","start_line":1,"end_line":40}`,
	ListDirectory:   `{"path":"src"}`,
	FileTree:        `{"path":"src"}`,
	SearchFiles:     `{"path":"src","pattern":"func main"}`,
	FileInfo:        `{"path":"src/main.go"}`,
	DiffFile:        `{"path":"src/main.go","content":"package main\n"}`,
	ValidateFile:    `{"path":"config.json"}`,
	GitStatus:       `{}`,
	GitDiff:         `{}`,
	GitLog:          `{}`,
	GitShow:         `{}`,
	GitBlame:        `{"path":"src/main.go"}`,
	PreviewMarkdown: `{"path":"README.md"}`,
	DetectTests:     `{}`,
	ListBackups:     `{"path":"src/main.go"}`,
	WriteFile:       `{"path":"notes.txt","content":"first line\n"}`,
	EditFile:        `{"path":"src/main.go","old_string":"old name","new_string":"new name"}`,
	PatchFile:       `{"patch":"--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-old\n+new\n"}`,
	CopyFile:        `{"source":"notes.txt","destination":"notes-2.txt"}`,
	CreateDirectory: `{"path":"src/new"}`,
	BackupFile:      `{"path":"notes.txt","label":"before"}`,
	DeleteFile:      `{"path":"notes-2.txt"}`,
	MoveFile:        `{"source":"notes.txt","destination":"docs/notes.txt"}`,
	RollbackFile:    `{"path":"notes.txt","last":true}`,
	BatchFileOps:    `{"operations":[{"op":"write_file","args":{"path":"a.txt","content":"a\n"}},{"op":"delete_file","args":{"path":"b.txt"}}]}`,
	WorkspaceShell:  `{"command":"go","args":["build","./..."]}`,
	WorkspaceTests:  `{"command":"go","args":["test","./..."]}`,
	Undo:            `{"operation_id":"op_of_a_reply"}`,
	ListProfiles:    `{}`,
	SwitchProfile:   `{"profile":"wide"}`,
}
