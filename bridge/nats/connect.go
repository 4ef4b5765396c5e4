package nats

import (
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"holdpoint/op"
)

// Options say where the servers are and who this is.
type Options struct {
	URL      string // one or several, with commas
	Creds    string // file of a user's credentials; may be empty
	CA       string // file of the servers' authority; empty is the system's
	Insecure bool   // without TLS beyond loopback
	Name     string // shown by the servers
	Inbox    string // where replies come, below _INBOX.; empty is a place for any user
	Say      func(string)
}

// Connections are tried again for ever, at first soon and then ever more seldom.
const (
	firstWait = 100 * time.Millisecond
	mostWait  = 30 * time.Second
)

// Check refuses addresses over which others could read along, and credentials that cannot
// be read, before anything is started.
func (o Options) Check() error {
	for _, one := range strings.Split(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" {
			return op.Fail(op.BadRequest, "--nats takes addresses such as tls://nats.example.org:4222").In("nats")
		}
		if u.User != nil {
			return op.Fail(op.BadRequest, "a password in the address can be read by every user of this machine").In("nats").Do("give --nats-creds FILE")
		}
		switch u.Scheme {
		case "tls", "wss":
		case "nats", "ws":
			if ip := net.ParseIP(u.Hostname()); !o.Insecure && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
				return op.Fail(op.BadRequest, "tokens and what agents send would be read along without TLS").In("nats").
					Do("use tls://" + u.Host + ", or --nats-insecure where the network itself is private")
			}
		default:
			return op.Fail(op.BadRequest, "--nats takes nats://, tls://, ws:// or wss://").In("nats")
		}
	}
	for _, file := range []string{o.Creds, o.CA} {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return op.Fail(op.NotFound, "a file that NATS needs cannot be read").In("nats").Because(err)
		}
	}
	return nil
}

// Connect returns at once, whether or not a server answers; it goes on trying for ever.
// What is published meanwhile fails: nothing is kept back to be sent at a time when it may
// mean something else.
func Connect(o Options) (*nats.Conn, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	say := o.Say
	if say == nil {
		say = func(string) {}
	}
	inbox := strings.TrimSuffix(inboxes, ".")
	if o.Inbox != "" {
		inbox = inboxes + o.Inbox
	}
	options := []nats.Option{
		nats.Name(o.Name), nats.CustomInboxPrefix(inbox),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff), nats.Timeout(5 * time.Second), nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ConnectHandler(func(c *nats.Conn) { say("nats: connected to " + c.ConnectedUrlRedacted()) }),
		nats.ReconnectHandler(func(c *nats.Conn) { say("nats: connected again, to " + c.ConnectedUrlRedacted()) }),
		nats.DisconnectErrHandler(func(c *nats.Conn, err error) {
			if err != nil && !c.IsClosed() {
				say("nats: the connection is lost, review goes on here: " + err.Error())
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { say("nats: " + err.Error()) }),
	}
	if o.Creds != "" {
		options = append(options, nats.UserCredentials(o.Creds))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	c, err := nats.Connect(o.URL, options...)
	if err != nil {
		return nil, op.Fail(op.BadRequest, "NATS cannot be used as it was given").In("nats").Because(err)
	}
	return c, nil
}

// backoff doubles up to the most, and spreads a fleet that lost its servers all at once.
func backoff(attempts int) time.Duration {
	d := mostWait
	if attempts < 9 {
		d = min(firstWait<<max(attempts, 0), mostWait)
	}
	return d/2 + rand.N(d/2+1)
}
