package flow

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"holdpoint/op"
)

// indexName is git's list of what it tracks, in a repository at the root itself.
const (
	indexName  = ".git/index"
	indexBytes = 64 << 20
)

// tracked words for the card of a delete how much of it git knows: what git does not track
// comes back by undo alone. It says nothing where there is no repository at the root or its
// index cannot be read; no decision rests on it.
func (e *Engine) tracked(ctx context.Context, c *call) []string {
	if c.req.Op != op.DeleteFile && c.spec.Class != op.Batch {
		return nil
	}
	var files []op.Path
	for _, t := range c.facts.Targets {
		if t.Role == op.RoleParent || !t.Deletes && c.req.Op != op.DeleteFile {
			continue
		}
		if t.Kind == op.File || t.Kind == op.Symlink {
			files = append(files, t.Path)
		}
		if t.Below != nil {
			for _, b := range t.Below.List {
				if b.Kind != op.Directory {
					files = append(files, b.Path)
				}
			}
		}
	}
	if len(files) == 0 {
		return nil
	}
	n, err := c.ws.Root.Look(ctx, indexName, false)
	if err != nil {
		return nil
	}
	defer n.Close()
	if n.Info.Kind != op.File {
		return nil
	}
	raw, err := n.Read(indexBytes)
	if err != nil {
		return nil
	}
	names, ok := indexed(raw)
	if !ok {
		return nil
	}
	known := 0
	for _, f := range files {
		if names[string(f)] {
			known++
		}
	}
	switch {
	case len(files) == 1 && known == 1:
		return []string{"git tracks this file"}
	case len(files) == 1:
		return []string{"git does not track this file"}
	}
	return []string{fmt.Sprintf("git tracks %d of these %d files", known, len(files))}
}

// indexed reads the names out of an index of version 2, 3 or 4 with SHA-1 names.
func indexed(raw []byte) (map[string]bool, bool) {
	if len(raw) < 12 || string(raw[:4]) != "DIRC" {
		return nil, false
	}
	version, count := binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	if version < 2 || version > 4 || int64(count) > int64(len(raw))/62 {
		return nil, false
	}
	names := make(map[string]bool, count)
	at, name := 12, []byte(nil)
	for range count {
		start := at
		if at += 62; at > len(raw) {
			return nil, false
		}
		if binary.BigEndian.Uint16(raw[at-2:])&0x4000 != 0 {
			at += 2
		}
		cut := 0
		if version == 4 {
			var ok bool
			if cut, at, ok = offset(raw, at); !ok || cut > len(name) {
				return nil, false
			}
			cut = len(name) - cut
		}
		if at > len(raw) {
			return nil, false
		}
		end := bytes.IndexByte(raw[at:], 0)
		if end < 0 {
			return nil, false
		}
		name = append(name[:cut:cut], raw[at:at+end]...)
		names[string(name)] = true
		if at += end + 1; version < 4 {
			at = start + (at-start+7)/8*8
		}
	}
	return names, true
}

// offset reads git's variable number, of which each further byte counts one more.
func offset(raw []byte, at int) (n, next int, ok bool) {
	for i := 0; at < len(raw) && i < 5; i++ {
		b := raw[at]
		at++
		if n = n<<7 | int(b&0x7f); b < 0x80 {
			return n, at, true
		}
		n++
	}
	return 0, at, false
}
