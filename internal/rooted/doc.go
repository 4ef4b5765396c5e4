// Package rooted is the only way to the files of a workspace: it resolves names, looks,
// stages, holds what was seen, replaces it by compare-and-swap, and takes things away
// into a store from which they can come back.
//
// It acts through handles. A workspace is one directory held open; a path is walked by
// the kernel beneath that handle (openat2), or name by name where the kernel cannot, and
// a change is a rename between two held directories. What stood at a path before is never
// overwritten or removed: it moves into the store, and only Store.Drop ends it.
//
// What it does not promise. It knows no policy: it neither asks whether a change is
// allowed nor keeps a record of it. It does not see a write through a shared mapping that
// was made before the lease was asked for and released after. A program that opened the
// old file before the exchange and writes later writes into the pre-image: nothing is
// lost, Held.Late and Store.Verify find it, but they have to be asked. Attributes (xattr,
// ACL) that somebody changes between Hold and Apply stay with the pre-image. Files below a
// directory that is taken away are not leased: what a program still writes into one goes
// with it, and Store.Verify finds that too. Security labels and project ids of new files
// are those of the store, and times of any are not set. It does not
// stop a bind mount over the root itself, and a hard link to an outside file is only
// visible by its link count. It needs /proc.
package rooted
