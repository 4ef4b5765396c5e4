package op

// Run is what running a program takes, whatever it is for.
type Run struct {
	Command        string   `json:"command" doc:"the program: a name on the search path, or a path"`
	Args           []string `json:"args" doc:"its words, literal: no shell reads them"`
	Script         string   `json:"script" doc:"instead of command: text for a shell, shown whole to the person who releases it"`
	Cwd            string   `json:"cwd" doc:"the directory to run in; the root when absent"`
	Env            Object   `json:"env" doc:"further variables, each a string; the search path and what the loader reads cannot be set"`
	TimeoutMS      *int64   `json:"timeout_ms" min:"1" max:"86400000" doc:"time until all of it is ended; 60,000 when absent, 300,000 for tests; at most 600,000 unless the operator allows more"`
	Network        bool     `json:"network" doc:"may use the network; off when absent"`
	Description    string   `json:"description" doc:"what it is for, in one sentence; shown to the person as your words"`
	WriteProtected bool     `json:"write_protected" doc:"may change protected paths inside the root; read-only when absent"`
}

// ShellArgs runs a command.
type ShellArgs struct {
	Run
	Stdin        string   `json:"stdin" doc:"what it reads; empty input when absent"`
	Pty          bool     `json:"pty" doc:"an interactive session on a terminal"`
	Rehearse     bool     `json:"rehearse" doc:"run it on a copy-on-write view: nothing changes, and what would change waits for a person as a call of its own"`
	ChangeSet    string   `json:"change_set" doc:"run nothing: put into the workspace what this rehearsal of yours left (the daemon asks for that by itself)"`
	Snapshot     []string `json:"snapshot" doc:"patterns, as in an ignore file: what they match is kept before it runs, so that what it does to it can be undone; files that the command names, and those that its rehearsal changed, are kept without"`
	Background   bool     `json:"background" doc:"answer at once and let it run on"`
	RunID        string   `json:"run_id" doc:"start nothing: type stdin into this session of yours"`
	WholeSession bool     `json:"whole_session" doc:"of a pty: whoever releases it lets you type anything until it ends, without asking again"`
	Rows         *int64   `json:"rows" min:"1" max:"1000" doc:"of the terminal; 24 when absent (of a pty)"`
	Cols         *int64   `json:"cols" min:"1" max:"1000" doc:"of the terminal; 80 when absent (of a pty)"`
}

// TestsArgs runs tests and counts them.
type TestsArgs struct{ Run }

// RunOf gives the common part of a process's arguments; nil for other operations.
func RunOf(args any) *Run {
	switch a := args.(type) {
	case *ShellArgs:
		return &a.Run
	case *TestsArgs:
		return &a.Run
	}
	return nil
}
