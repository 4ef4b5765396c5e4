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
	MaxBytes     *int64   `json:"max_bytes" min:"1024" max:"1048576" doc:"bytes of diff at most; 262,144 when absent"`
	Page         string   `json:"page" doc:"next of the page before"`
}
