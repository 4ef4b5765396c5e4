package op

// Arguments of the operations that read git repositories. Paths and pathspecs count from
// the workspace's root, as everywhere else.

// GitStatusArgs asks what changed since the last commit.
type GitStatusArgs struct {
	Path      string   `json:"path" doc:"a path in the repository; the root when absent"`
	Paths     []string `json:"paths" doc:"only what these pathspecs cover"`
	Untracked string   `json:"untracked" enum:"normal|all|no" doc:"files that git does not know: with a directory as one line (when absent), each, or none"`
	Page      string   `json:"page" doc:"next of the page before"`
	PageSize  *int64   `json:"page_size" min:"1" max:"10000" doc:"entries at most; 1,000 when absent"`
}

// GitDiffArgs compares the index with the files, or what it names instead.
type GitDiffArgs struct {
	Path         string   `json:"path" doc:"a path in the repository; the root when absent"`
	Paths        []string `json:"paths" doc:"only what these pathspecs cover"`
	Staged       bool     `json:"staged" doc:"compare a commit (HEAD when from is absent) with the index"`
	From         string   `json:"from" doc:"a commit on the left side, compared with the files"`
	To           string   `json:"to" doc:"a commit on the right side"`
	ContextLines *int64   `json:"context_lines" min:"0" max:"100" doc:"lines around a change; 3 when absent"`
	NamesOnly    bool     `json:"names_only" doc:"tell which files, without what changed in them"`
	MaxBytes     *int64   `json:"max_bytes" min:"1024" max:"1048576" doc:"bytes of diff at most; 65,536 when absent"`
	Page         string   `json:"page" doc:"next of the page before"`
}

// GitLogArgs lists commits.
type GitLogArgs struct {
	Path     string   `json:"path" doc:"a path in the repository: only commits that changed it; the root when absent"`
	Paths    []string `json:"paths" doc:"only commits that changed what these pathspecs cover"`
	Rev      string   `json:"rev" doc:"where to begin; HEAD when absent"`
	Until    string   `json:"not" doc:"leave out this commit and all before it"`
	PageSize *int64   `json:"page_size" min:"1" max:"1000" doc:"commits at most; 50 when absent"`
	Page     string   `json:"page" doc:"next of the page before"`
}

// GitShowArgs shows one commit with its changes, or a file as a commit has it.
type GitShowArgs struct {
	Path         string   `json:"path" doc:"a path in the repository; the root when absent"`
	Rev          string   `json:"rev" doc:"the commit or tag, or REV:FILE for a file or directory of one, named from the repository's top; HEAD when absent"`
	Paths        []string `json:"paths" doc:"only the changes that these pathspecs cover"`
	ContextLines *int64   `json:"context_lines" min:"0" max:"100" doc:"lines around a change; 3 when absent"`
	NamesOnly    bool     `json:"names_only" doc:"tell which files, without what changed in them"`
	MaxBytes     *int64   `json:"max_bytes" min:"1024" max:"1048576" doc:"bytes of diff or content at most; 65,536 when absent"`
	Page         string   `json:"page" doc:"next of the page before"`
}

// GitBlameArgs asks which commit wrote each line.
type GitBlameArgs struct {
	Path      string `json:"path" req:"true" doc:"the file"`
	Rev       string `json:"rev" doc:"as this commit has it; the file itself when absent"`
	StartLine *int64 `json:"start_line" min:"1" doc:"first line, from 1"`
	EndLine   *int64 `json:"end_line" min:"1" doc:"last line, included"`
}
