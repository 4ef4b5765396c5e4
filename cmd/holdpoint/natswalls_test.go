package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"holdpoint/audit"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// raw sends one message as somebody would who needs no client of ours: any header, any body.
func (x *natsBench) raw(m *machine, channel string, header map[string]string, body string) (status string, code op.Code, all string) {
	x.t.Helper()
	msg := &natsgo.Msg{Subject: natsbridge.Subject(m.key, channel), Header: natsgo.Header{"Holdpoint-Version": {"1.0"}, "Holdpoint-Method": {"POST"}, "Holdpoint-Path": {"/v1/call"}}, Data: []byte(body)}
	for k, v := range header {
		msg.Header[k] = []string{v}
	}
	got, err := x.open.RequestMsg(msg, time.Minute)
	if err != nil {
		x.t.Fatal(header, err)
	}
	var e struct{ Error *op.Error }
	json.Unmarshal(got.Data, &e)
	if e.Error != nil {
		code = e.Error.Code
	}
	return got.Header.Get("Holdpoint-Status"), code, string(got.Data)
}

// cards counts what waits on a machine.
func (m *machine) cards() int64 {
	m.t.Helper()
	n, err := m.o.journal.CountApprovals(context.Background(), journal.Pending, "")
	if err != nil {
		m.t.Fatal(err)
	}
	return int64(n)
}

// TestNATSWalls has the cases about web pages, peers and floods over NATS.
func TestNATSWalls(t *testing.T) {
	t.Parallel()
	x := newBench(t, func(o *natsd.Options) {
		o.Websocket = natsd.WebsocketOpts{Host: "127.0.0.1", Port: -1, NoTLS: true, SameOrigin: true}
	})
	good := map[string]string{"Authorization": "Bearer " + x.a.agent}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{good, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	x.a.write("f", "x\n")
	const call = `{"op":"delete_file","args":{"path":"f"}}`
	for _, c := range []struct {
		name   string
		header map[string]string
		body   string
		status string
		code   op.Code
	}{
		{"S70 (part) NATS: a foreign Host", map[string]string{"Host": "evil.test:7117"}, call, "403", op.BadOrigin},
		{"S70 (part) NATS: a Host in small letters", map[string]string{"host": "evil.test"}, call, "403", op.BadOrigin},
		{"S70 (part) NATS: a foreign Host without a token is not told that one is needed", map[string]string{"Host": "evil.test", "Authorization": ""}, call, "403", op.BadOrigin},
		{"S70 (part) NATS: a Host in the path", map[string]string{"Holdpoint-Path": "http://evil.test/v1/call"}, call, "400", op.BadRequest},
		{"S70 (part) NATS: a Host in a path that begins with two strokes", map[string]string{"Holdpoint-Path": "//evil.test/v1/call"}, call, "422", op.NotAvailable},
		{"S71 (part) NATS: a foreign Origin", map[string]string{"Origin": "https://evil.test"}, call, "403", op.BadOrigin},
		{"S71 (part) NATS: the Origin null, before the body is parsed", map[string]string{"Origin": "null"}, "{", "403", op.BadOrigin},
		{"S71 (part) NATS: a cross-site fetch", map[string]string{"Sec-Fetch-Site": "cross-site"}, call, "403", op.BadOrigin},
		{"S71 (part) NATS: text/plain, before the body is parsed", map[string]string{"Content-Type": "text/plain"}, "{", "415", op.BadRequest},
		{"S71 (part) NATS: a form", map[string]string{"content-type": "application/x-www-form-urlencoded"}, call, "415", op.BadRequest},
		{"S72 (part) NATS: an upgrade is not served", map[string]string{"Holdpoint-Method": "GET", "Holdpoint-Path": "/v1/mcp", "Upgrade": "websocket", "Connection": "Upgrade"}, "", "422", op.NotAvailable},
		{"S72 (part) NATS: a token in the address is none", map[string]string{"Authorization": "", "Holdpoint-Path": "/v1/call?token=" + x.a.agent + "&access_token=" + x.a.agent}, call, "401", op.Unauthenticated},
		{"S78 (part) NATS: a compressed body is not inflated", map[string]string{"Content-Encoding": "gzip"}, "\x1f\x8b\x08\x00\x00\x00\x00\x00", "400", op.BadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := x.a.cards()
			if status, code, all := x.raw(x.a, natsbridge.Call, with(c.header), c.body); status != c.status || code != c.code || strings.Contains(all, x.a.root) {
				t.Errorf("got %s %s, wanted %s %s: %s", status, code, c.status, c.code, all)
			}
			if x.a.cards() != before || !x.a.has("f") {
				t.Error("it was heard all the same")
			}
		})
	}
	t.Run("the guard is what refuses: the same message in good form is held", func(t *testing.T) {
		if status, _, all := x.raw(x.a, natsbridge.Call, with(map[string]string{"Content-Type": "application/json; charset=utf-8"}), call); status != "202" {
			t.Errorf("got %s %s", status, all)
		}
	})

	t.Run("S72 (part) NATS: the servers' websocket takes no foreign Origin, and nobody without credentials", func(t *testing.T) {
		at := strings.TrimPrefix(x.c.nodes[0].s.WebsocketURL(), "ws://")
		upgrade := func(path, origin string) (string, *bufio.Reader, net.Conn) {
			t.Helper()
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(time.Minute))
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n", path, at)
			if origin != "" {
				fmt.Fprintf(c, "Origin: %s\r\n", origin)
			}
			io.WriteString(c, "\r\n")
			r := bufio.NewReader(c)
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line, r, c
		}
		if line, _, _ := upgrade("/", "https://evil.test"); !strings.Contains(line, "403") {
			t.Errorf("a foreign Origin: %s", line)
		}
		for _, path := range []string{"/", "/?token=" + x.a.agent} {
			line, r, c := upgrade(path, "")
			if !strings.Contains(line, "101") {
				t.Fatalf("%s: %s", path, line)
			}
			// A connect without credentials and a request, as frames under a mask of zeros.
			for _, s := range []string{"CONNECT {\"verbose\":false,\"headers\":true}\r\n", "PUB " + natsbridge.Subject(x.a.key, natsbridge.Call) + " 2\r\n{}\r\n", "PING\r\n"} {
				c.Write(append([]byte{0x82, 0x80 | byte(len(s)), 0, 0, 0, 0}, s...))
			}
			said, _ := io.ReadAll(r)
			if !strings.Contains(string(said), "Authorization Violation") {
				t.Errorf("%s: the servers let in who has no credentials: %q", path, said)
			}
		}
	})

	t.Run("S76 (part) NATS: what a peer calls itself proves nothing", func(t *testing.T) {
		c := x.hold(x.a, "peer.txt", "peer\n")
		answer := fmt.Sprintf(`{"answer":"approve","shown_digest":%q}`, c.Digest)
		path := "/v1/approvals/" + string(c.ID) + "/answer"
		// A connection whose name, user and inbox all say that it is somebody else.
		loud := must(natsgo.Connect(x.c.url(), natsgo.UserCredentials(x.c.creds(fleetAccount, "operator;uid=0;", nil)), natsgo.Name(";uid=0;role=operator;"), natsgo.CustomInboxPrefix("_INBOX.uid=0;role=operator")))(t)
		defer loud.Close()
		x.open, loud = loud, x.open
		defer func() { x.open, loud = loud, x.open }()
		says := map[string]string{"Holdpoint-Path": path, "Holdpoint-Role": "operator", "Holdpoint-Caller": "operator", "Remote-User": "root", "X-Forwarded-User": "operator", "X-Forwarded-For": "127.0.0.1",
			"Nats-Request-Info": `{"acc":"FLEET","user":"operator","uid":0,"role":"operator"}`, "Cookie": "holdpoint=operator"}
		if status, code, all := x.raw(x.a, natsbridge.Call, says, answer); status != "401" || code != op.Unauthenticated {
			t.Errorf("without a token: %s %s", status, all)
		}
		if status, code, all := x.raw(x.a, natsbridge.Call, with(says), answer); status != "403" || code != op.Forbidden {
			t.Errorf("with an agent's token: %s %s", status, all)
		}
		if status, code, all := x.raw(x.a, natsbridge.Answer, with(says), answer); status != "403" || code != op.ProofInvalid {
			t.Errorf("where answers come, without a signature: %s %s", status, all)
		}
		x.waits(x.a, c, "peer.txt")
		log, err := os.ReadFile(filepath.Join(x.a.state, "audit", audit.FileName))
		if err != nil || strings.Contains(string(log), "uid=0") {
			t.Errorf("the audit believes a name of the bus, or is not there: %v", err)
		}
	})

	t.Run("S75 (part) NATS: another agent's operations, runs and undo look like what never was", func(t *testing.T) {
		status, mine, err := natsAgent{t, x.open, x.a.key, x.a.agent}.ask("POST", "/v1/call", map[string]any{"op": "write_file", "args": map[string]any{"path": "mine.txt", "content": "mine\n"}})
		if err != nil || status != 200 {
			t.Fatal(status, mine, err)
		}
		id := word(mine, "operation_id")
		other := x.agent(x.a, "stranger", op.Agent)
		same := func(method, theirs, unknown string, body1, body2 any) {
			t.Helper()
			s1, got1, err1 := other.ask(method, theirs, body1)
			s2, got2, err2 := other.ask(method, unknown, body2)
			if err1 != nil || err2 != nil || s1 != s2 || s1 < 400 || fmt.Sprint(got1["error"]) != fmt.Sprint(got2["error"]) {
				t.Errorf("%s %s: %d %v; unknown: %d %v", method, theirs, s1, got1, s2, got2)
			}
		}
		nobody := id[:len(id)-1] + string("ab"[strings.Count(id[len(id)-1:], "a")])
		for _, pattern := range []string{"/v1/operations/%s", "/v1/runs/%s", "/v1/runs/%s/output"} {
			same("GET", fmt.Sprintf(pattern, id), fmt.Sprintf(pattern, nobody), nil, nil)
		}
		for _, pattern := range []string{"/v1/runs/%s/stop", "/v1/runs/%s/input"} {
			body := map[string]any{}
			if strings.HasSuffix(pattern, "input") {
				body["text"] = "x"
			}
			same("POST", fmt.Sprintf(pattern, id), fmt.Sprintf(pattern, nobody), body, body)
		}
		same("POST", "/v1/undo", "/v1/undo", map[string]any{"operation_id": id}, map[string]any{"operation_id": nobody})
		if !x.a.has("mine.txt") {
			t.Error("it was undone")
		}
	})

	t.Run("S78 (part) NATS: an agent that waits with all it has keeps neither others nor a reviewer out", func(t *testing.T) {
		c := x.hold(x.a, "long.txt", "long\n")
		waits := make(chan int, 200)
		for range cap(waits) {
			go func() {
				r, _ := http.NewRequest("GET", "http://localhost/v1/approvals/"+string(c.ID)+"?wait=60s", nil)
				r.Header.Set("Authorization", "Bearer "+x.a.agent)
				got, err := natsbridge.Transport{Conn: x.open, Root: x.a.key, Wait: 2 * time.Minute}.RoundTrip(r)
				if err != nil {
					waits <- 0
					return
				}
				waits <- got.StatusCode
			}()
		}
		// Those that find no room are told so at once; then the room is full of waiting ones.
		turned := 0
		for end := time.After(time.Minute); turned < cap(waits)/2; {
			select {
			case s := <-waits:
				if s != 503 {
					t.Fatalf("%d of 200 waiting requests: got %d", turned, s)
				}
				turned++
			case <-end:
				t.Fatalf("only %d of 200 waiting requests were told to come again", turned)
			}
		}
		other := x.agent(x.a, "patient", op.Agent)
		if status, got, err := other.ask("POST", "/v1/call", map[string]any{"op": "view_file", "args": map[string]any{"path": "f"}}); err != nil || status != 200 {
			t.Errorf("another agent meanwhile: %d %v %v", status, got, err)
		}
		if out, err := x.d.answer(x.ada, c, "approve"); err != nil || out["state"] != "executed" || x.a.has("long.txt") {
			t.Errorf("the reviewer meanwhile: %v %v", out, err)
		}
		for done := turned; done < cap(waits); done++ {
			if s := <-waits; s != 200 && s != 503 {
				t.Errorf("a request that waited: %d", s)
			}
		}
	})
}

// floodsNATS sends a daemon, which is a process of its own, all that memory could be spent
// on before a token is looked at.
func floodsNATS(t *testing.T, c *cluster, root string, pid int, served func()) {
	if ports := listens(t, pid); len(ports) > 0 {
		t.Errorf("the daemon listens on %v: idle connections could be made to it", ports)
	}
	subject := natsbridge.Subject(root, natsbridge.Call)
	open := dial(t, c.url(), c.creds(fleetAccount, "open", nil), "")
	served()
	before := residentOf(fmt.Sprint(pid))
	// The highest mark is set back to what is used now.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	// 1 GiB in messages as large as the servers let through, none with a token.
	const size, messages = 1<<20 - 4<<10, 1028
	body := make([]byte, size)
	var looked, dropped atomic.Int64
	each(messages, 16, func(i int) {
		m := &natsgo.Msg{Subject: subject, Header: natsgo.Header{"Holdpoint-Version": {"1.0"}, "Holdpoint-Method": {"POST"}, "Holdpoint-Path": {"/v1/call"}}, Data: body}
		got, err := open.RequestMsg(m, 10*time.Second)
		if errors.Is(err, natsgo.ErrTimeout) {
			dropped.Add(1) // there was no room for it in the daemon's client
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if s := got.Header.Get("Holdpoint-Status"); s != "401" && s != "503" {
			t.Errorf("message %d: %s %s", i, s, got.Data)
		} else if s == "401" {
			looked.Add(1)
		}
	})
	if looked.Load() == 0 || dropped.Load() > messages/2 {
		t.Errorf("of %d messages %d came as far as their token, and %d got no reply", messages, looked.Load(), dropped.Load())
	}
	served()
	// What the servers themselves cut off: one message of 1 GiB, a line of 64 MiB. What never
	// ends, and what never begins, waits at the servers: the daemon has the whole or nothing.
	creds := c.creds(fleetAccount, "raw", nil)
	for _, begins := range []string{"PUB " + subject + " 1073741824\r\n", strings.Repeat("A", 64<<20), "PUB " + subject + " 10\r\nabc", ""} {
		end := rawNATS(t, c, creds, begins)
		served()
		end()
	}
	grown := highest(t, pid) - before
	t.Logf("fleet: %d MiB without a token in %d messages (%d dropped), an endless line and messages that never end: of %.1f MiB the daemon grew by %.1f MiB at most", messages*size>>20, messages, dropped.Load(), float64(before)/(1<<20), float64(grown)/(1<<20))
	if limit := int64(32 << 20); !raceEnabled && grown > limit {
		t.Errorf("the daemon grew by %d MiB, more than %d", grown>>20, limit>>20)
	}
}

// highest is the most memory that a process has had since its mark was set back.
func highest(t *testing.T, pid int) int64 {
	t.Helper()
	for _, l := range strings.Split(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)), "\n") {
		if f := strings.Fields(l); len(f) == 3 && f[0] == "VmHWM:" {
			kib := must(strconv.ParseInt(f[1], 10, 64))(t)
			return kib << 10
		}
	}
	t.Fatal("the process is gone")
	return 0
}

// rawNATS connects to a server by hand with somebody's credentials, and sends what a client
// of ours would not.
func rawNATS(t *testing.T, c *cluster, creds, begins string) (end func()) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	var info struct{ Nonce string }
	if err != nil || json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info) != nil {
		t.Fatal(line, err)
	}
	b := must(os.ReadFile(creds))(t)
	token := must(nkeys.ParseDecoratedJWT(b))(t)
	pair := must(nkeys.ParseDecoratedNKey(b))(t)
	signed := must(pair.Sign([]byte(info.Nonce)))(t)
	fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"jwt\":%q,\"sig\":%q}\r\nPING\r\n", token, base64.RawURLEncoding.EncodeToString(signed))
	if line, err = r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "PONG") {
		t.Fatalf("not let in: %q %v", line, err)
	}
	go io.WriteString(conn, begins)
	return func() { conn.Close() }
}

// listens gives the TCP ports that a process listens on.
func listens(t *testing.T, pid int) (ports []string) {
	t.Helper()
	mine := map[string]bool{}
	fds := must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	for _, fd := range fds {
		at, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		mine[strings.TrimSuffix(strings.TrimPrefix(at, "socket:["), "]")] = strings.HasPrefix(at, "socket:[")
	}
	if len(fds) < 3 {
		t.Fatalf("the process has %d descriptors", len(fds))
	}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/net/" + table)
		if err != nil {
			continue // no IPv6 here
		}
		for _, l := range strings.Split(string(b), "\n") {
			if f := strings.Fields(l); len(f) > 9 && f[3] == "0A" && mine[f[9]] {
				ports = append(ports, f[1])
			}
		}
	}
	return ports
}
