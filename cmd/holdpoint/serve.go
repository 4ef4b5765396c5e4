package main

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"holdpoint/bridge"
	"holdpoint/bridge/page"
	"holdpoint/internal/flow"
	"holdpoint/op"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	roots          []string
	listen, config string
	reviewAuth     string
	allowBroad     bool
	allowYolo      bool
	idleExit       time.Duration
	reach          reaching
	nats           natsFlags
	oidc           oidcFile
}

func serveCommand(a *app) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{Use: "serve --root DIR | --root NAME=DIR ...", Short: "Run the daemon for one or several workspaces", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, _, err := readConfigFile(f.config, a.Env)
			if err != nil {
				return err
			}
			f.fromFile(c, file.Serve)
			f.oidc = file.OIDC
			return a.serve(c.Context(), f)
		}}
	c.Flags().StringArrayVar(&f.roots, "root", nil, "a workspace, DIR or NAME=DIR; may be given several times")
	c.Flags().StringVar(&f.listen, "listen", "", "also serve HTTP on this address, such as 127.0.0.1:7117")
	f.reach.flags(c)
	f.nats.flags(c, "connect out to these servers and serve the roots there, such as tls://nats.example.org:4222; several with commas")
	c.Flags().StringVar(&f.nats.hubKey, "nats-hub-key", "", "seal what cards show for the hub of this key; without one cards are mirrored without it")
	c.Flags().StringVar(&f.config, "config", "", "the configuration (else HOLDPOINT_CONFIG, else the user's)")
	c.Flags().StringVar(&f.reviewAuth, "review-auth", "passphrase", "how reviewers prove themselves: passphrase, passkey (each answer takes one) or token")
	c.Flags().DurationVar(&f.idleExit, "idle-exit", 0, "end when nobody has been connected for this long and no card waits")
	c.Flags().Lookup("idle-exit").Hidden = true
	c.Flags().BoolVar(&f.allowYolo, "allow-yolo", false, "let reviewers set the mode yolo, which runs deletes and processes without asking")
	c.Flags().BoolVar(&f.allowBroad, "allow-broad-root", false, "allow /, a home directory, or a root that holds the state")
	return c
}

// serve opens the state, the roots and the listeners, in this order, and ends when ctx does.
func (a *app) serve(ctx context.Context, f serveFlags) error {
	if runtime.GOOS != "linux" {
		return op.Fail(op.UnsupportedPlatform, "serve needs Linux; this build holds the client half").Do("run the daemon on the Linux machine that holds the files")
	}
	switch f.reviewAuth {
	case "passphrase", "passkey", "token":
	default:
		return usagef("--review-auth must be passphrase, passkey or token")
	}
	specs, err := rootSpecs(f.roots)
	if err != nil {
		return err
	}
	given, err := handedSockets()
	if err != nil {
		return err
	}
	if given.tcp != nil {
		f.listen = given.tcp.Addr().String()
	}
	say := a.sayer()
	if err := f.reach.check(f.listen, say); err != nil {
		return err
	}
	if f.nats.url != "" {
		if err := f.nats.options("", say).Check(); err != nil {
			return err
		}
	}
	state, err := filepath.Abs(StatePath(a.state, a.Env))
	if err != nil {
		return err
	}
	socket, _ := SocketPath(a.socket, a.state, a.Env)
	socket = first(given.path, socket)
	if err := CheckSocketLength(socket); err != nil {
		return err
	}
	reload := newReloader(f.config, a.Env, func(s string) { say("holdpoint: %s", op.Visible(s, true)) })
	o, err := openEngine(ctx, setup{state: state, config: f.config, env: a.Env, reviewAuth: f.reviewAuth, socket: socket, version: Version(), broad: f.allowBroad, yolo: f.allowYolo, reviewURL: f.reach.reviewAddress(f.listen),
		warn: func(s string) { say("holdpoint: %s", op.Visible(s, false)) }})
	if err != nil {
		return err
	}
	defer o.close()
	people, err := notifyTargets(f.config, a.Env)
	if err != nil {
		return err
	}
	if err := o.addRoots(ctx, specs); err != nil {
		return err
	}
	for _, l := range o.engine.Leftovers() {
		say("holdpoint: an earlier daemon that was killed left this running: %s", op.Visible(l, false))
	}
	following, unfollow := context.WithCancel(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		reload.o = o
		reload.follow(following)
	}()
	defer func() { unfollow(); <-followed }()
	defer tellPeople(ctx, o, people, f.reach.reviewAddress(f.listen), func(s string) { say("holdpoint: %s", op.Visible(s, false)) })()
	if err := o.agentToken(ctx, state); err != nil {
		return err
	}
	if err := o.noTokenBesideKeys(ctx, f.reviewAuth); err != nil {
		return err
	}
	if err := a.reviewers(ctx, o, state, f.reviewAuth, f.idleExit > 0 || managed(a.Env), say); err != nil {
		return err
	}
	if err := o.shareReviewer(ctx, state, a.Env); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		say("holdpoint: running as root: files in the workspaces keep their owners, but every mistake weighs more")
	}
	if err := profiles(a.Env); err != nil {
		return err
	}
	return a.listen(ctx, o, socket, given, f, say)
}

func rootSpecs(given []string) ([]flow.RootSpec, error) {
	var specs []flow.RootSpec
	for _, g := range given {
		spec := flow.RootSpec{Dir: g}
		if name, dir, ok := strings.Cut(g, "="); ok && op.Label(name) {
			spec = flow.RootSpec{Name: name, Dir: dir}
		}
		if spec.Dir == "" {
			return nil, usagef("--root needs a directory")
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		return nil, usagef("serve needs a workspace: --root DIR")
	}
	return specs, nil
}

// reviewers sees to it that somebody can answer, and that no secret that could answer
// lies on disk unless the operator chose so. Where nobody reads along a passphrase that was
// generated would lie in a log instead: there the one that init set is taken.
func (a *app) reviewers(ctx context.Context, o *opened, state, auth string, unwatched bool, say func(string, ...any)) error {
	operator := filepath.Join(state, "tokens", "operator")
	if auth == "token" {
		say("holdpoint: review-auth is token: programs of the same user can approve")
		return o.keepToken(ctx, state, "operator", flow.TokenSpec{Name: "operator", Role: op.Operator, SocketOnly: true})
	}
	if b, err := readSmall(operator); err == nil {
		// A choice that was taken back leaves no secret behind.
		if by, _, err := o.engine.Caller(ctx, strings.TrimSpace(string(b))); err == nil {
			if err := o.engine.RevokeToken(ctx, by.Token); err != nil {
				return err
			}
		}
		if err := os.Remove(operator); err != nil {
			return op.Fail(op.IOError, "the old operator token cannot be removed").Because(err)
		}
	}
	if err := o.firstPassphrase(ctx, a.Env("HOLDPOINT_REVIEW_PASSPHRASE")); err != nil {
		return err
	}
	has, err := o.engine.HasPassphrase(ctx)
	if err != nil || has {
		return err
	}
	if unwatched {
		if has, err = o.ownReviewer(ctx, a.Env); err == nil && !has {
			say("holdpoint: nobody can answer held calls yet: run holdpoint init reviewer on a terminal, as this user")
		}
		return err
	}
	chosen := ""
	if a.InTTY && a.TTY {
		if chosen, err = a.askPassphrase(ctx); err != nil {
			return err
		}
	}
	if chosen == "" {
		chosen = generated()
		say("reviewer passphrase: %s", chosen)
		say("  it is shown this once and only its hash is kept; approve with: holdpoint review approve ID")
	}
	return o.engine.SetPassphrase(ctx, chosen)
}

func (a *app) askPassphrase(ctx context.Context) (string, error) {
	for {
		p, err := a.askSecret(ctx, "Choose the reviewer's passphrase (Enter generates one): ")
		if err != nil || p == "" {
			return "", err
		}
		if len(p) < 8 {
			fmt.Fprintln(a.Err, "at least 8 characters, please")
			continue
		}
		again, err := a.askSecret(ctx, "Once more: ")
		if err != nil {
			return "", err
		}
		if p == again {
			return p, nil
		}
		fmt.Fprintln(a.Err, "the two differ")
	}
}

// generated gives 100 random bits in groups that can be read out.
func generated() string {
	b := make([]byte, 15)
	rand.Read(b)
	s := strings.ToLower(base32.StdEncoding.EncodeToString(b))[:20]
	return s[:5] + "-" + s[5:10] + "-" + s[10:15] + "-" + s[15:]
}

// listen serves until ctx ends, then lets running calls finish within a bound.
func (a *app) listen(ctx context.Context, o *opened, socket string, given handed, f serveFlags, say func(string, ...any)) error {
	var ready atomic.Bool
	s := bridge.New(adapter{o})
	s.Ready, s.Page = ready.Load, page.Handler()
	s.Version, s.Shapes, s.Metrics = Version(), answerShapes(), o.metrics
	s.PublicURL = f.reach.base(f.listen)
	tools := mountTools(o, s)
	defer tools.Close()
	h := s.Handler()
	l, err := given.unix, error(nil)
	if l == nil {
		l, err = listenSocket(socket)
	}
	if err != nil {
		return err
	}
	servers := []*http.Server{server(h, func(ctx context.Context, c net.Conn) context.Context {
		return bridge.WithPeer(bridge.WithSocket(ctx), c)
	})}
	listeners := []net.Listener{l}
	if f.listen != "" {
		tcp, err := given.tcp, error(nil)
		if tcp == nil {
			tcp, err = net.Listen("tcp", f.listen)
		}
		if err != nil {
			l.Close()
			return op.Fail(op.IOError, "cannot listen on "+f.listen).Because(err)
		}
		servers = append(servers, server(bridge.Behind(f.reach.trusted, bridge.Guard(f.reach.allowed(tcp, f.listen), h)), nil))
		if f.reach.cert != nil {
			servers[1].TLSConfig = f.reach.cert.config()
		}
		listeners = append(listeners, tcp)
		f.listen = boundTo(f.listen, tcp)
		o.engine.PasskeySite(f.reach.site(tcp))
		if s.PublicURL == "" {
			s.PublicURL = o.engine.PasskeyOrigin() // the port is known only now
		}
	}
	if s.SignIn, err = f.oidc.signIn(o, s.PublicURL); err != nil {
		for _, l := range listeners {
			l.Close()
		}
		return err
	}
	ended := make(chan error, len(servers))
	var there presence
	if f.idleExit > 0 {
		idle, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { untilIdle(idle, o, &there, tools.Clients, f.idleExit, a.Env); cancel() }()
		ctx = idle
	}
	for i, srv := range servers {
		srv.ConnState = new(crowd).state(there.state)
		go func() {
			if srv.TLSConfig != nil {
				ended <- srv.ServeTLS(listeners[i], "", "")
				return
			}
			ended <- srv.Serve(listeners[i])
		}()
	}
	if f.nats.url != "" {
		link, err := o.openLink(s, f.nats, say)
		if err != nil {
			return err
		}
		o.link.Store(link)
		defer link.Close()
	}
	ready.Store(true)
	a.greet(o, socket, f, say)
	o.tellReady()
	defer o.attend(ctx, managed(a.Env) && f.reviewAuth == "passphrase", a.Env)()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = nil
	}
	ready.Store(false)
	tell(daemon.SdNotifyStopping)
	tools.Close()
	o.engine.StopProcesses() // whoever waits for one gets its end
	bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, srv := range servers {
		if srv.Shutdown(bound) != nil {
			srv.Close()
		}
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

func server(h http.Handler, conn func(context.Context, net.Conn) context.Context) *http.Server {
	return &http.Server{Handler: h, ConnContext: conn, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: bridge.MaxHeader,
		ErrorLog: nil}
}

// loopbackHost accepts the names by which this listener is meant, with its port.
func loopbackHost(l net.Listener) func(string) bool {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return func(host string) bool {
		h, p, err := net.SplitHostPort(host)
		if err != nil || p != port {
			return false
		}
		ip := net.ParseIP(h)
		return h == "localhost" || ip != nil && ip.IsLoopback()
	}
}

// listenSocket makes the socket 0600 inside a 0700 directory from its first moment: it is
// bound in a private directory of its own and renamed into place.
func listenSocket(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, op.Fail(op.IOError, "the socket's directory cannot be made").Because(err)
	}
	if err := checkSocketDir(path); err != nil {
		return nil, err
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return nil, op.Fail(op.StateLocked, "another daemon answers on "+path).Do("stop it, or name another socket with --socket")
	}
	tmp, err := os.MkdirTemp(dir, ".s")
	if err != nil {
		return nil, op.Fail(op.IOError, "the socket cannot be made").Because(err)
	}
	defer os.RemoveAll(tmp)
	bound := filepath.Join(tmp, "s")
	if len(bound) > maxSocketPath {
		bound = path
		os.Remove(path)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: bound, Net: "unix"})
	if err != nil {
		return nil, op.Fail(op.IOError, "cannot listen on "+path).Because(err)
	}
	l.SetUnlinkOnClose(bound == path)
	if err = os.Chmod(bound, 0o600); err == nil && bound != path {
		err = os.Rename(bound, path)
	}
	if err != nil {
		l.Close()
		return nil, op.Fail(op.IOError, "cannot listen on "+path).Because(err)
	}
	return unlinking{l, path}, nil
}

// unlinking takes the socket's name away when the listener closes.
type unlinking struct {
	net.Listener
	path string
}

func (u unlinking) Close() error {
	err := u.Listener.Close()
	os.Remove(u.path)
	return err
}

// boundTo names the port that a listener has, where 0 was asked for.
func boundTo(address string, l net.Listener) string {
	host, port, err := net.SplitHostPort(address)
	at, ok := l.Addr().(*net.TCPAddr)
	if err != nil || port != "0" || !ok {
		return address
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// greet says where the daemon is and what to try first.
func (a *app) greet(o *opened, socket string, f serveFlags, say func(string, ...any)) {
	self, where := os.Args[0], "" // as it was called, so that the lines can be pasted
	if a.socket != "" || a.Env("HOLDPOINT_SOCKET") != "" {
		where = "--socket " + socket + " "
	} else if st := first(a.state, a.Env("HOLDPOINT_STATE")); st != "" {
		where = "--state " + st + " "
	}
	say("holdpoint %s serves:", Version())
	for _, d := range o.engine.RootDirs() {
		say("  %s", op.Visible(d, false))
	}
	say("socket   %s", socket)
	if f.listen != "" {
		scheme := "http"
		if f.reach.cert != nil {
			scheme = "https"
		}
		say("http     %s://%s", scheme, f.listen)
		if f.reach.public != nil {
			say("public   %s", f.reach.public)
		}
		if f.reach.insecure && f.reach.cert == nil {
			say("holdpoint: whoever reads along on this network reads tokens and passphrases (--insecure-listen)")
		}
	}
	say("review   %s %sreview list, then review approve ID (asks for the passphrase)", self, where)
	say("try      %s %scall list_directory", self, where)
	say("         %s %scall write_file path=hello.txt content=hello", self, where)
	say("         %s %sundo @", self, where)
}
