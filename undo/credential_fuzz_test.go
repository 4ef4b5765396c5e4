package undo

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// FuzzCredential: no byte of a credential can be changed, added or left out. Only the
// whole of one that was given out reads as its operation.
func FuzzCredential(f *testing.F) {
	k := New([]byte("a key of thirty-two bytes, or so"), time.Now, DefaultKeep)
	file := op.State{Kind: op.File, Hash: "blake3:aa", Size: 10, Mode: "0644"}
	o := journal.Operation{ID: "op_aaaaaaaaaaaaaaaaaaaaaaaaaa", Root: "root1", Op: op.EditFile, Expires: time.Unix(1800000000, 0),
		Steps: []op.Step{{Do: op.Swap, Path: "a\xffb", Slot: "s", Before: file, After: file}, {Do: op.Move, Path: "x", To: "y", Before: file}}}
	given, err := json.Marshal(k.Credential(o))
	if err != nil {
		f.Fatal(err)
	}
	real, err := op.ParseJSON(given)
	if err != nil {
		f.Fatal(err)
	}
	whole := op.Canonical(real)
	f.Add(given)
	f.Add(whole)
	f.Add(bytes.Replace(given, []byte("root1"), []byte("root2"), 1))
	f.Add(bytes.Replace(given, []byte(`{"`), []byte(`{"more":1,"`), 1))
	f.Add([]byte(`{"id":"un_","seal":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		wire, err := op.ParseJSON(data)
		if err != nil {
			return
		}
		id, err := k.Read(wire)
		if same := bytes.Equal(op.Canonical(wire), whole); same != (err == nil) {
			t.Fatalf("%s: %v", data, err)
		}
		if err != nil && (id != "" || op.AsError(err).Code != op.UndoForged) || err == nil && id != o.ID {
			t.Fatalf("%s: %q %v", data, id, err)
		}
	})
}
