package undo

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// TestOfBefore reads a credential in the form that was given out before the sizes of empty
// files were said.
func TestOfBefore(t *testing.T) {
	k := New([]byte("a key of thirty-two bytes, or so"), time.Now, DefaultKeep)
	empty := op.State{Kind: op.File, Hash: "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262", Mode: "0644"}
	o := journal.Operation{ID: "op_aaaaaaaaaaaaaaaaaaaaaaaaaa", Root: "root1", Op: op.WriteFile, Expires: time.Unix(1800000000, 0),
		Steps: []op.Step{{Do: op.Place, Path: `a,"size":0`, Before: op.State{Kind: op.Absent}, After: empty}}}
	now, err := json.Marshal(k.Credential(o))
	if err != nil {
		t.Fatal(err)
	}
	size := []byte(`,"size":0`)
	before := bytes.Replace(now, size, nil, 1)
	if bytes.Equal(now, before) {
		t.Fatalf("no size in %s", now)
	}
	for form, c := range map[string]struct {
		text []byte
		good bool
	}{
		"now":         {now, true},
		"before":      {before, true},
		"larger":      {bytes.Replace(now, size, []byte(`,"size":1`), 1), false},
		"of no bytes": {bytes.Replace(now, []byte(`"state":"absent"`), []byte(`"state":"absent","size":0`), 1), false},
		"null":        {bytes.Replace(now, size, []byte(`,"size":null`), 1), false},
		"another":     {bytes.Replace(before, []byte("root1"), []byte("root2"), 1), false},
	} {
		wire, err := op.ParseJSON(c.text)
		if err != nil {
			t.Fatal(form, err)
		}
		if id, err := k.Read(wire); (err == nil) != c.good || c.good && id != o.ID {
			t.Errorf("%s: %q %v", form, id, err)
		}
	}
}
