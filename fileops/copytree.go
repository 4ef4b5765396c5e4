package fileops

import (
	"context"
	"errors"
	"fmt"

	"holdpoint/internal/rooted"
	"holdpoint/op"
)

// MaxTree is how many things a directory may hold that is copied in one call.
const MaxTree = 10_000

// headOfCopy is how much of each copied file is read for the secret shapes, in bytes.
const headOfCopy = 64 << 10

// Place is one path that a plan makes although no argument names it. Its marks are the
// marker's to find; Head is the beginning of what will stand there.
type Place struct {
	Path  op.Path
	Dir   bool
	Head  []byte
	Aside bool // beside what the call is about, as a backup: judged, but not counted
}

// planCopyTree plans the copy of a directory: it is made whole in the store and comes
// into the tree by one rename, so that no half of it is ever seen. Each path that will
// stand there is one of the plan's places, to be judged like a target of its own.
func planCopyTree(ctx context.Context, s Scene, a *op.CopyArgs) (*Plan, error) {
	src, dst := s.Targets[0], s.Targets[1]
	if dst.Exists {
		return nil, op.Fail(op.Exists, "there is something at the destination already").At(dst.Path).Do("a directory is never copied over another: choose a new name")
	}
	if src.Hash == "" {
		return nil, op.Fail(op.PermissionDenied, "not all of the directory can be read").At(src.Path)
	}
	p := &Plan{Title: "Copy 1 directory", Creates: true, ChangeBytes: src.Size,
		Lines: []string{fmt.Sprintf("copy %s/ to %s/, %d bytes", op.Escape(string(src.Path)), op.Escape(string(dst.Path)), src.Size)}}
	if err := p.parents(s.Nodes[1], op.Or(a.CreateDirs, true)); err != nil {
		return nil, err
	}
	if err := p.listTree(ctx, s.Nodes[0], dst.Path); err != nil {
		return nil, err
	}
	p.add(op.Step{Do: op.Place, Path: s.Nodes[1].Path, Before: op.State{Kind: op.Absent}},
		func(ctx context.Context, st *rooted.Store, slot string) (rooted.Staged, error) {
			dir, err := s.Nodes[1].Above()
			if err != nil && !errors.Is(err, op.NotFound) {
				return rooted.Staged{}, err
			}
			if dir != nil {
				defer dir.Close()
			}
			return st.StageTree(ctx, slot, s.Nodes[0], src.Hash, dir)
		})
	p.Result = map[string]any{"created": true, "entries": len(p.Places), "size": src.Size}
	return p, nil
}

// listTree names what will stand below the destination, and refuses what cannot be copied
// before anything is made.
func (p *Plan) listTree(ctx context.Context, from *rooted.Node, to op.Path) error {
	return from.Tree(ctx, func(at op.Path, info rooted.Info, open func() (*rooted.Node, error)) error {
		below := at
		if from.Path != "." {
			below = at[len(from.Path)+1:]
		}
		place := Place{Path: to.Join(string(below)), Dir: info.Kind == op.Directory}
		switch info.Kind {
		case op.Directory, op.Symlink:
		case op.File:
			n, err := open()
			if err != nil {
				return err
			}
			place.Head, err = n.ReadAt(0, headOfCopy)
			n.Close()
			if err != nil {
				return err
			}
		default:
			return op.Fail(op.SpecialFile, "a "+string(info.Kind)+" cannot be copied").At(at).Do("copy what lies beside it, or leave it out")
		}
		if len(p.Places) == MaxTree {
			return op.Fail(op.TooLarge, fmt.Sprintf("the directory holds more than %d things", MaxTree)).At(from.Path).Do("copy its parts one by one")
		}
		p.Places = append(p.Places, place)
		p.Lines = append(p.Lines, "create "+op.Escape(string(place.Path)))
		return nil
	})
}
