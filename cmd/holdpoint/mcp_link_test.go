package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdpoint/op"
)

func TestGlance(t *testing.T) {
	for _, c := range []struct {
		line string
		want glance
	}{
		{`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"view_file","arguments":{"path":"a\"b","name":"no"}}}`, glance{id: "7", method: "tools/call", name: "view_file"}},
		{`{"method":"tools/call","params":{"arguments":{"x":[{"name":"}\\"}],"y":{}},"name":"edit_file"},"jsonrpc":"2.0","id":"a,b"}`, glance{id: `"a,b"`, method: "tools/call", name: "edit_file"}},
		{` { "id" : 3 , "result" : {"id":4} } `, glance{id: "3"}},
		{`{"result":{"id":4,"text":"\\\\\""},"id":5}`, glance{id: "5"}},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"x","requestId":12}}`, glance{method: "notifications/cancelled", about: "12"}},
		{`{"jsonrpc":"2.0","method":"ping","params":[1,{"name":"x"}],"id":1}`, glance{id: "1", method: "ping"}},
		{`[1]`, glance{}}, {`{"id":1,"method":"x`, glance{id: "1"}}, {`{"id":1,"result":{"a`, glance{id: "1"}}, {``, glance{}}, {`{"`, glance{}},
	} {
		if got := glanceAt([]byte(c.line)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.line, got, c.want)
		}
	}
}

func FuzzGlance(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"view_file"}}`))
	f.Add([]byte(`{"a":"\`))
	f.Fuzz(func(t *testing.T, b []byte) { glanceAt(b) })
}

func TestWholeLines(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	text := "a\nbc\n" + long + "\nlast\nno end"
	for _, step := range []int{1, 7, 65536, 300_000} {
		w := wholeLines{r: &slowly{[]byte(text), step}, limit: maxMessage}
		var got strings.Builder
		for {
			b, err := w.next()
			if err != nil {
				break
			}
			if b[len(b)-1] != '\n' {
				t.Fatalf("%d at a time: %q ends in no line", step, b)
			}
			got.Write(b)
		}
		if got.String() != "a\nbc\n"+long+"\nlast\n" {
			t.Fatalf("%d at a time: %d bytes", step, got.Len())
		}
	}
	w := wholeLines{r: &slowly{[]byte(long), 65536}, limit: 100_000}
	if _, err := w.next(); op.AsError(err).Code != op.TooLarge {
		t.Fatalf("a line without end: %v", err)
	}
}

type slowly struct {
	b    []byte
	step int
}

func (s *slowly) Read(b []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.b[:min(s.step, len(s.b))])
	s.b = s.b[n:]
	return n, nil
}

// TestLink plays client and daemons.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type end struct {
		net.Conn
		in *bufio.Scanner
	}
	accept := func() end {
		c, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		return end{c, bufio.NewScanner(c)}
	}
	line := func(s *bufio.Scanner, want string) {
		t.Helper()
		if !s.Scan() || !strings.Contains(s.Text(), want) {
			t.Fatalf("got %q %v, want %q in it", s.Text(), s.Err(), want)
		}
	}
	dial := func(context.Context) (net.Conn, *wholeLines, error) {
		c, err := net.Dial("unix", filepath.Join(dir, "s"))
		if err != nil {
			return nil, nil, op.Fail(op.NotReady, "none").Because(err)
		}
		return c, &wholeLines{r: c, limit: maxMessage}, nil
	}
	conn, in, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fromClient, toLink := io.Pipe()
	fromLink, toClient := io.Pipe()
	refuse := make(chan struct{}) // closed: no daemon is to be had
	l := newLink(func(b []byte) error { _, err := toClient.Write(b); return err }, conn, func(ctx context.Context) (net.Conn, *wholeLines, error) {
		select {
		case <-refuse:
			return nil, nil, op.Fail(op.NotReady, "no daemon answers")
		default:
			return dial(ctx)
		}
	})
	a := &app{Streams: Streams{In: fromClient}}
	over := make(chan error, 1)
	go func() { over <- a.splice(t.Context(), l, in) }()
	say := func(format string, args ...any) { fmt.Fprintf(toLink, format+"\n", args...) }
	call := func(id int, tool string) {
		say(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, id, tool)
	}
	client := bufio.NewScanner(fromLink)

	d := accept()
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	line(d.in, "initialize")
	fmt.Fprintln(d, `{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{}}}`)
	line(client, `"id":0`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	line(d.in, "initialized")
	fmt.Fprintln(d, `{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{}}`)
	line(client, "elicitation/create")
	call(1, "write_file")
	call(2, "approval_wait")
	line(d.in, `"id":1`)
	line(d.in, `"id":2`)
	d.Close()

	// The change is answered at once, the wait goes to the next daemon, which first hears
	// what the client is.
	line(client, `"id":1`)
	if got := client.Text(); !strings.Contains(got, "unknown_outcome") || !strings.Contains(got, `"isError":true`) {
		t.Fatalf("a change in the middle of which the daemon died: %s", got)
	}
	d = accept()
	line(d.in, "initialize")
	fmt.Fprintln(d, `{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{}}}`)
	line(d.in, "initialized")
	line(d.in, `"id":2`)
	// What the client answers to the first daemon's question is not the second's to hear.
	say(`{"jsonrpc":"2.0","id":9,"result":{"action":"accept"}}`)
	call(3, "edit_file")
	line(d.in, `"id":3`)
	fmt.Fprintln(d, `{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
	line(client, `"id":2`)
	fmt.Fprintln(d, `{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)
	line(client, `"id":3`)

	// Without a daemon a call is told so, and the next one is tried anew.
	close(refuse)
	d.Close()
	call(4, "view_file")
	line(client, `"id":4`)
	if got := client.Text(); !strings.Contains(got, "not_ready") || !strings.Contains(got, `"retry":"same"`) {
		t.Fatalf("a call without a daemon: %s", got)
	}
	say(`{"jsonrpc":"2.0","id":"five","method":"tools/list"}`)
	line(client, `"id":"five","error"`)

	toLink.Close()
	select {
	case err := <-over:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the client went and the splice did not end")
	}
}
