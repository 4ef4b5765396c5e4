package op

import (
	"fmt"
	"strings"
)

// MaxItems is how many operations one batch holds.
const MaxItems = 1000

// Item is one operation of a batch.
type Item struct {
	Op   Name   `json:"op" req:"true" doc:"a file operation; a batch holds no batch"`
	Args Object `json:"args" req:"true" doc:"its arguments"`

	parsed any // filled by ParseArgs: a pointer to the operation's own argument struct
}

// Parsed gives the argument struct of an item that ParseArgs has checked.
func (i Item) Parsed() any { return i.parsed }

// BatchArgs holds several operations that are done as one.
type BatchArgs struct {
	Operations []Item `json:"operations" req:"true" doc:"up to 1,000 file operations, done in order; a later one sees what the earlier ones make"`
	Atomic     *bool  `json:"atomic" doc:"all or nothing; true when absent. false: each item by itself, reported one by one"`
}

// items checks every item against its own operation, and puts their arguments under their
// own names into what becomes the canonical call.
func (a *BatchArgs) items(named Object) ([]Warning, error) {
	switch n := len(a.Operations); {
	case n == 0:
		return nil, Fail(BadRequest, "the batch is empty").In("args.operations")
	case n > MaxItems:
		return nil, Fail(TooLarge, fmt.Sprintf("a batch holds at most %d operations, this one %d", MaxItems, n)).In("args.operations").Do("split it into several calls")
	}
	var warnings []Warning
	list := named["operations"].([]any)
	for i := range a.Operations {
		item, at := &a.Operations[i], fmt.Sprintf("args.operations[%d]", i)
		spec, err := fitsBatch(item.Op, at)
		if err != nil {
			return nil, err
		}
		parsed, args, more, err := ParseArgs(spec, item.Args)
		if err != nil {
			return nil, inItem(err, at)
		}
		item.parsed, item.Args = parsed, args
		list[i].(Object)["args"] = args
		for _, w := range more {
			warnings = append(warnings, Warning{w.Code, fmt.Sprintf("operation %d: %s", i+1, w.Message)})
		}
	}
	return warnings, nil
}

// fitsBatch gives the table's row of an operation that a batch may hold.
func fitsBatch(name Name, at string) (Spec, error) {
	spec, known := Lookup(name)
	switch {
	case !known:
		return spec, Fail(UnknownOperation, fmt.Sprintf("there is no operation %q", string(name))).In(at + ".op")
	case spec.Class == Batch:
		return spec, Fail(BadRequest, "a batch holds no batch").In(at + ".op").Do("put its operations into this one")
	case spec.Class != Read && spec.Class != Adaptive && spec.Class != Destructive:
		return spec, Fail(BadRequest, "a batch holds file operations only").In(at + ".op").Do("send " + string(name) + " as a call of its own")
	case !spec.Built || spec.Args == nil:
		return spec, Fail(NotAvailable, "the operation "+string(name)+" is not built yet").In(at + ".op")
	}
	return spec, nil
}

// inItem points an error at the item that it concerns.
func inItem(err error, at string) error {
	e := *AsError(err)
	e.Field = strings.TrimSuffix(at+"."+e.Field, ".")
	return &e
}

// InItem points an error of one item of a batch at that item, counted from 0, and names
// the item in the message for a person.
func InItem(err error, i int) *Error {
	e := *AsError(inItem(err, fmt.Sprintf("args.operations[%d]", i)))
	e.Message = fmt.Sprintf("operation %d of the batch: %s", i+1, e.Message)
	return &e
}

// termsOfBatch: a safety flag of any item is the call's.
func termsOfBatch(t *Terms, a *BatchArgs) {
	for _, item := range a.Operations {
		one := TermsOf(item.Op, false, item.parsed)
		t.AllowSensitive = t.AllowSensitive || one.AllowSensitive
		t.AllowIgnored = t.AllowIgnored || one.AllowIgnored
		t.ForceOverwrite = t.ForceOverwrite || one.ForceOverwrite
		t.Backup = t.Backup && one.Backup
		if t.BackupRoot == "" {
			t.BackupRoot = one.BackupRoot
		}
	}
}
