//go:build linux && amd64

package shellexec

import "golang.org/x/sys/unix"

// sources are where a call that renames has the old name.
var sources = map[uintptr]pathAt{unix.SYS_RENAME: {-1, 0}, unix.SYS_RENAMEAT: {0, 1}, unix.SYS_RENAMEAT2: {0, 1}}

var creating = map[uintptr]making{
	unix.SYS_OPEN:      {paths: []pathAt{{-1, 0}}, flags: 1, follows: true},
	unix.SYS_CREAT:     {paths: []pathAt{{-1, 0}}, flags: -1, follows: true},
	unix.SYS_OPENAT:    {paths: []pathAt{{0, 1}}, flags: 2, follows: true},
	unix.SYS_OPENAT2:   {paths: []pathAt{{0, 1}}, flags: -1, follows: true},
	unix.SYS_MKDIR:     {paths: []pathAt{{-1, 0}}, flags: -1},
	unix.SYS_MKDIRAT:   {paths: []pathAt{{0, 1}}, flags: -1},
	unix.SYS_MKNOD:     {paths: []pathAt{{-1, 0}}, flags: -1},
	unix.SYS_MKNODAT:   {paths: []pathAt{{0, 1}}, flags: -1},
	unix.SYS_RENAME:    {paths: []pathAt{{-1, 1}}, flags: -1},
	unix.SYS_RENAMEAT:  {paths: []pathAt{{2, 3}}, flags: -1},
	unix.SYS_RENAMEAT2: {paths: []pathAt{{0, 1}, {2, 3}}, flags: -1},
	unix.SYS_LINK:      {paths: []pathAt{{-1, 1}}, flags: -1},
	unix.SYS_LINKAT:    {paths: []pathAt{{2, 3}}, flags: -1},
	unix.SYS_SYMLINK:   {paths: []pathAt{{-1, 1}}, flags: -1},
	unix.SYS_SYMLINKAT: {paths: []pathAt{{1, 2}}, flags: -1},
}
