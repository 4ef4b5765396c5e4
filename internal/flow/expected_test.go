package flow

import (
	"testing"
	"time"

	"holdpoint/op"
)

// Who looks for the program of a row that was just released waits until it is listed, or
// until it is known that none will run; of any other row nobody waits.
func TestExpected(t *testing.T) {
	var s runs
	s.await(t.Context(), "other")
	for name, arrive := range map[string]func(settled func()){
		"listed":       func(func()) { s.add(&run{RunView: RunView{Approval: "row"}}) },
		"will not run": func(settled func()) { settled() },
	} {
		settled := s.expect("row")
		came := make(chan bool)
		go func() { s.await(t.Context(), op.ID("row")); close(came) }()
		select {
		case <-came:
			t.Errorf("%s: nobody waited", name)
		case <-time.After(20 * time.Millisecond):
		}
		arrive(settled)
		<-came
		settled()
		s.await(t.Context(), "row")
	}
}
