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
