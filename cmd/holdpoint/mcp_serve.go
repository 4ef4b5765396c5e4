package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"holdpoint/bridge"
	"holdpoint/bridge/mcp"
	"holdpoint/op"
)

// toolServer serves MCP for one daemon.
type toolServer struct{ *mcp.Server }

// mountTools puts MCP behind the bridge's routes. Its Close ends the clients.
func mountTools(o *opened, s *bridge.Server) toolServer {
	t := toolServer{mcp.New(toolEngine{o}, Version())}
	s.MCP = func(w http.ResponseWriter, r *http.Request, by op.Caller) {
		if r.URL.Path == "/mcp" {
			t.ServeHTTP(w, r, by)
			return
		}
		t.upgrade(w, r)
	}
	return t
}

// upgradeWord is what a splice asks to speak after the upgrade.
const upgradeWord = "holdpoint-mcp"

// upgrade turns a connection into lines of JSON-RPC.
func (t toolServer) upgrade(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	options, err := mcp.ParseOptions(q.Get("tools"), q.Get("compat") == "1")
	if err != nil || !strings.EqualFold(r.Header.Get("Upgrade"), upgradeWord) {
		http.Error(w, "this route is an upgrade to "+upgradeWord, http.StatusBadRequest)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection cannot be upgraded", http.StatusBadRequest)
		return
	}
	conn.SetDeadline(time.Time{})
	if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeWord + "\r\n\r\n")); err != nil {
		conn.Close()
		return
	}
	// What the client sent behind its request is in the buffer that the server read with.
	in := bufio.NewReaderSize(rw.Reader, 64<<10)
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	t.ServeConn(conn, in, secret, q.Get("root"), givenLabel(q.Get("session")), options)
}

// sessionLabel names what one client does, so that it can be listed and undone together.
func sessionLabel() string {
	b := make([]byte, 4)
	rand.Read(b)
	return "mcp-" + hex.EncodeToString(b)
}

// givenLabel takes up the label of a client that was connected before.
func givenLabel(s string) string {
	if b, err := hex.DecodeString(strings.TrimPrefix(s, "mcp-")); err != nil || len(b) != 4 || !strings.HasPrefix(s, "mcp-") {
		return sessionLabel()
	}
	return s
}

var _ mcp.Engine = toolEngine{}
