// Package protected says which paths are protected, sensitive or ignored.
//
// It works on path strings alone. It does not resolve links (ask once for each spelling:
// Both), does not see that a hard link gives a protected file a second name (preflight
// counts names), and does not look below a directory (whoever deletes or moves one asks
// for each path in it). Of the short names of NTFS it knows those of .git and .gitmodules.
//
// Two matchers judge protection and either may say yes: one written here, equal to git's
// own, and the library go-gitignore, fed with re-written lines. What can only add, like an
// operator's pattern, is never able to take a built-in one away: negated lines do not get in.
package protected
