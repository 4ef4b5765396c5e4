package decision

import (
	"io"
	"reflect"

	"holdpoint/op"
)

// CheckRows judges every row of a table and gives each whose answer is not the one that the
// row wants, with the line on which it begins. It returns how many rows it judged.
func CheckRows(r io.Reader, differs func(line int, row Row, got op.Decision)) (int, error) {
	n := 0
	err := eachRow(r, func(line int, text []byte) error {
		row, err := parseRow(text)
		if err == nil && row.Want == nil {
			err = op.Fail(op.BadRequest, "the row wants nothing").In("want")
		}
		if err != nil {
			return atLine(line, err)
		}
		n++
		got := Judge(row.Request, row.Profile, row.Facts, row.Environment)
		if !reflect.DeepEqual(tabled(got), tabled(*row.Want)) {
			differs(line, row, got)
		}
		return nil
	})
	return n, err
}

// tabled brings an answer to a table's form: an empty list is none, and pinned, which a
// table does not have, is left out.
func tabled(d op.Decision) op.Decision {
	d.Also = append([]op.Reason{}, d.Also...)
	d.Pinned = false
	return d
}
