package main

import (
	"net/http"
	"time"

	natsbridge "holdpoint/bridge/nats"
)

// Where HOLDPOINT_NATS names servers, an agent's commands ask a machine over them in place
// of a socket. The environment of an agent says so once, and a command line stays the same.
const (
	natsEnv      = "HOLDPOINT_NATS"
	natsRootEnv  = "HOLDPOINT_NATS_ROOT" // key of the root
	natsCredsEnv = "HOLDPOINT_NATS_CREDS"
	natsCAEnv    = "HOLDPOINT_NATS_CA"
	natsInboxEnv = "HOLDPOINT_NATS_INBOX" // below _INBOX.: what the user may subscribe to
)

// overNATS gives a client that speaks over NATS.
func (a *app) overNATS() (*client, error) {
	conn, err := natsbridge.Connect(natsbridge.Options{URL: a.Env(natsEnv), Creds: a.Env(natsCredsEnv), CA: a.Env(natsCAEnv), Inbox: a.Env(natsInboxEnv),
		Insecure: a.Env("HOLDPOINT_NATS_INSECURE") == "true", Name: "holdpoint call"})
	if err != nil {
		return nil, err
	}
	// A command waits a little for the servers, and no longer.
	for end := time.Now().Add(5 * time.Second); !conn.IsConnected() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	t := natsbridge.Transport{Conn: conn, Root: a.Env(natsRootEnv)}
	return &client{http: &http.Client{Transport: t, CheckRedirect: noRedirect}, where: "NATS", daemon: true, close: func() error { conn.Close(); return nil }}, nil
}
