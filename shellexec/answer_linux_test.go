package shellexec

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// What the helper said is not lost because nobody came to read it before the deadline: a
// program that ran is never told as one that did not start.
func TestPipePastDeadline(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close() // as a survivor would hold it
	io.WriteString(out, `{"levels":null,"about":true}`+"\n"+`{"levels":null}`+"\n"+`{"exit":3,"left":0}`+"\n")
	in.SetReadDeadline(time.Now().Add(-time.Second))
	up := make(chan struct{})
	a := listen(lasting(in), up)
	<-up
	var r Result
	if a.fill(&r, ""); r.Termination != Exited || r.Exit == nil || *r.Exit != 3 {
		t.Errorf("got %+v", r)
	}
	// One that goes on writing is not read for ever.
	go func() {
		for b := bytes.Repeat([]byte("x"), 4096); ; {
			if _, err := out.Write(b); err != nil {
				return
			}
		}
	}()
	for all, n, last := 0, 0, lasting(in); ; {
		if n, err = last.Read(make([]byte, 32<<10)); err != nil {
			break
		}
		if all += n; all > 1<<20 {
			t.Fatal("more was read than the pipe held")
		}
	}
}

func TestAnswer(t *testing.T) {
	about := `{"levels":null,"about":true}` + "\n"
	for name, c := range map[string]struct{ said, why, termination, failure string }{
		"killed before it was ready":            {"", "", SpawnFailed, "before it was ready"},
		"ended before the program began":        {"", Cancelled, SpawnFailed, "before the program began"},
		"killed when the program may have run":  {about, "", Signalled, ""},
		"ended when the program may have run":   {about, TimedOut, TimedOut, ""},
		"the program could not be started":      {about + `{"levels":null,"failure":"no such"}` + "\n", "", SpawnFailed, "no such"},
		"killed when it ran":                    {about + `{"levels":null}` + "\n", "", Signalled, ""},
		"it ran to its end as the time was out": {about + `{"levels":null}` + "\n" + `{"exit":0}` + "\n", TimedOut, TimedOut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var r Result
			listen(strings.NewReader(c.said), make(chan struct{})).fill(&r, c.why)
			if r.Termination != c.termination || !strings.Contains(r.Failure, c.failure) || c.failure == "" && r.Failure != "" {
				t.Errorf("got %s, %q", r.Termination, r.Failure)
			}
		})
	}
}
