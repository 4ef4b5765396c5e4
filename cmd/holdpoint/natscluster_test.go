package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/ports"
)

// cluster is a NATS cluster in this process, with an operator, two accounts, and links
// between its nodes that can be cut.
type cluster struct {
	t        testing.TB
	dir      string
	operator nkeys.KeyPair
	accounts map[string]nkeys.KeyPair // FLEET, OTHER, SYS
	tokens   map[string]string        // of the accounts
	nodes    []*node
}

type node struct {
	c       *cluster
	name    string
	options natsd.Options
	s       *natsd.Server
	client  int // port
	routes  *gate
}

const fleetAccount, otherAccount = "FLEET", "OTHER"

func newCluster(t testing.TB, nodes int, change ...func(*natsd.Options)) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), accounts: map[string]nkeys.KeyPair{}, tokens: map[string]string{}}
	c.operator = must(nkeys.CreateOperator())(t)
	for _, name := range []string{"SYS", fleetAccount, otherAccount} {
		c.accounts[name] = must(nkeys.CreateAccount())(t)
		claims := jwt.NewAccountClaims(public(t, c.accounts[name]))
		claims.Name = name
		if name != "SYS" {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		c.tokens[name] = must(claims.Encode(c.operator))(t)
	}
	for i := range nodes {
		c.nodes = append(c.nodes, &node{c: c, name: fmt.Sprintf("n%d", i), client: ports.Free(t), routes: newGate(t, ports.Free(t))})
	}
	for i, n := range c.nodes {
		n.options = natsd.Options{ServerName: n.name, Host: "127.0.0.1", Port: n.client, NoLog: os.Getenv("NLOG") == "", LogFile: os.Getenv("NLOG"), Debug: true, Logtime: true, NoSigs: true, JetStream: true, StoreDir: filepath.Join(c.dir, n.name),
			JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 4 << 30, MaxPayload: 1 << 20, PingInterval: time.Minute, MaxPingsOut: 2,
			TrustedKeys: []string{public(t, c.operator)}, SystemAccount: public(t, c.accounts["SYS"])}
		if nodes > 1 {
			n.options.Cluster = natsd.ClusterOpts{Name: "fleet", Host: "127.0.0.1", Port: n.routes.port, Advertise: n.routes.l.Addr().String(), PoolSize: -1}
			for j, other := range c.nodes {
				if j != i {
					n.options.Routes = append(n.options.Routes, &url.URL{Scheme: "nats", Host: other.routes.l.Addr().String()})
				}
			}
		}
		for _, f := range change {
			f(&n.options)
		}
		n.start()
	}
	t.Cleanup(c.stop)
	c.await(func() bool {
		for _, n := range c.nodes {
			if nodes > 1 && (n.s.NumRoutes() < nodes-1 || !n.s.JetStreamIsCurrent()) {
				return false
			}
		}
		return true
	}, "the cluster to stand")
	return c
}

func (n *node) start() {
	n.c.t.Helper()
	resolver := &natsd.MemAccResolver{}
	for name, key := range n.c.accounts {
		resolver.Store(public(n.c.t, key), n.c.tokens[name])
	}
	o := n.options
	o.AccountResolver = resolver
	s, err := natsd.NewServer(&o)
	if err != nil {
		n.c.t.Fatal(err)
	}
	if o.LogFile != "" {
		o.LogFile += n.name
		s, _ = natsd.NewServer(&o)
		s.ConfigureLogger()
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		n.c.t.Fatalf("%s does not start on ports %d and %d", n.name, n.client, n.routes.port)
	}
	n.s = s
}

// kill ends a node as a machine that is switched off: its clients and peers are cut off.
func (n *node) kill() {
	n.s.Shutdown()
	n.s.WaitForShutdown()
	n.s = nil
}

func (c *cluster) stop() {
	for _, n := range c.nodes {
		if n.s != nil {
			n.kill()
		}
		n.routes.close()
	}
}

// part cuts a node off from the others; heal joins it again. Its own clients stay with it.
func (c *cluster) part(i int) {
	for j, n := range c.nodes {
		n.routes.refuse(func(from string) bool { return j == i || from == c.nodes[i].name })
	}
}

func (c *cluster) heal() {
	for _, n := range c.nodes {
		n.routes.refuse(func(string) bool { return false })
	}
}

func (c *cluster) await(ok func() bool, what string) {
	c.t.Helper()
	awaitIn(c.t, 30*time.Second, ok, what)
}

func awaitIn(t testing.TB, most time.Duration, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(most); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// url names the nodes given, or all.
func (c *cluster) url(nodes ...int) string {
	var list []string
	for i, n := range c.nodes {
		if len(nodes) == 0 || nodes[0] == i {
			list = append(list, fmt.Sprintf("nats://127.0.0.1:%d", n.client))
		}
	}
	return strings.Join(list, ",")
}

// creds makes a user of an account and gives the file of their credentials.
func (c *cluster) creds(account, name string, may *natsbridge.Allow) string {
	c.t.Helper()
	user := must(nkeys.CreateUser())(c.t)
	claims := jwt.NewUserClaims(public(c.t, user))
	claims.Name = name
	if may != nil {
		claims.Permissions.Pub.Allow, claims.Permissions.Sub.Allow = may.Publish, may.Subscribe
		if may.Respond {
			claims.Permissions.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 10 * time.Minute}
		}
	}
	token := must(claims.Encode(c.accounts[account]))(c.t)
	b := must(jwt.FormatUserConfig(token, must(user.Seed())(c.t)))(c.t)
	f := must(os.CreateTemp(c.dir, "user-*.creds"))(c.t)
	if _, err := f.Write(b); err != nil {
		c.t.Fatal(err)
	}
	f.Close()
	return f.Name()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func public(t testing.TB, k nkeys.KeyPair) string { return must(k.PublicKey())(t) }

// gate stands before a node's route port and lets through whom it is told to.
type gate struct {
	l    net.Listener
	port int // of the node behind it

	mu      sync.Mutex // guards the rest
	refused func(from string) bool
	open    map[net.Conn]string // by whom; empty until they said so
	done    sync.WaitGroup
}

func newGate(t testing.TB, port int) *gate {
	g := &gate{l: must(net.Listen("tcp", "127.0.0.1:0"))(t), port: port, refused: func(string) bool { return false }, open: map[net.Conn]string{}}
	g.done.Add(1)
	go func() {
		defer g.done.Done()
		for {
			in, err := g.l.Accept()
			if err != nil {
				return
			}
			g.done.Add(1)
			go func() { defer g.done.Done(); g.pass(in) }()
		}
	}()
	return g
}

func (g *gate) pass(in net.Conn) {
	defer in.Close()
	if !g.note(in, "") {
		return
	}
	defer g.forget(in)
	out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Add(1)
	go func() { defer both.Done(); io.Copy(in, out); in.Close() }()
	// Who connects says its name in its first words.
	first := make([]byte, 0, 8<<10)
	for named := false; !named; {
		b := make([]byte, 4<<10)
		n, err := in.Read(b)
		first = append(first, b[:n]...)
		if at := bytes.Index(first, []byte(`"server_name":"`)); at >= 0 || err != nil || len(first) > 7<<10 {
			named = true
			if at >= 0 && !g.note(in, string(first[at+15:at+17])) {
				in.Close()
			}
		}
		out.Write(b[:n])
		if err != nil {
			break
		}
	}
	io.Copy(out, in)
	out.Close()
	both.Wait()
}

// note remembers who is connected, and says no to who is refused.
func (g *gate) note(in net.Conn, from string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[in] = from
	return !g.refused(from)
}

func (g *gate) forget(in net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, in)
}

func (g *gate) refuse(whom func(from string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused = whom
	for in, from := range g.open {
		if whom(from) {
			in.Close()
		}
	}
}

func (g *gate) close() {
	g.l.Close()
	g.refuse(func(string) bool { return true })
	g.done.Wait()
}
