package protected

// LooksLikeGitDir reports whether a directory with these names could be taken by git for
// a repository of its own, whose config may name programs to run. It is true as soon as
// the marks are there, before git would accept it: HEAD with objects and refs, or with
// config or commondir. The write that completes the shape is to be protected, and so is
// each write in a directory that has it.
func LooksLikeGitDir(names []string) bool {
	has := map[string]bool{}
	for _, n := range names {
		has[ntfs(fold(n))] = true
	}
	return has["head"] && (has["config"] || has["commondir"] || has["objects"] && has["refs"])
}

// SameName reports whether some file system could take two names for one.
func SameName(a, b string) bool { return a == b || ntfs(fold(a)) == ntfs(fold(b)) }
