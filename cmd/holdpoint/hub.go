package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdpoint/bridge"
	"holdpoint/bridge/hub"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/bridge/page"
	"holdpoint/internal/flow"
	"holdpoint/op"
)

// hubFlags are the flags of hub.
type hubFlags struct {
	nats     natsFlags
	reach    reaching
	listen   string
	replicas int
}

func hubCommand(a *app) *cobra.Command {
	f := hubFlags{listen: "127.0.0.1:7118", replicas: 1}
	c := &cobra.Command{Use: "hub --nats URL", Short: "Serve one review page for many machines, over NATS", Args: noArgs,
		Long: "Serve one review page for the machines whose daemons run with --nats. The hub shows and carries; a machine decides, and takes an answer only with the signature of a reviewer who was enrolled there.",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.nats.url == "" {
				return usagef("hub needs --nats URL")
			}
			return a.hub(c.Context(), f)
		}}
	f.nats.flags(c, "the servers, such as tls://nats.example.org:4222; several with commas")
	c.Flags().StringVar(&f.listen, "listen", f.listen, "serve the page on this address")
	c.Flags().IntVar(&f.replicas, "replicas", f.replicas, "copies of the buckets and the stream, where they have to be made: 3 in a cluster of three")
	f.reach.flags(c)
	c.AddCommand(a.permissionsCommand())
	return c
}

// permissionsCommand prints what the servers may let a user do, and nothing more.
func (a *app) permissionsCommand() *cobra.Command {
	var root, daemon, inbox string
	c := &cobra.Command{Use: "permissions daemon|agent|hub", Short: "Print what a user of NATS needs, as arguments of nsc add user, or with --json", Args: oneArg("daemon, agent or hub"),
		RunE: func(c *cobra.Command, args []string) error {
			var may natsbridge.Allow
			switch {
			case args[0] == "hub":
				may = natsbridge.HubMay()
			case args[0] == "daemon" && root != "" && daemon != "":
				may = natsbridge.DaemonMay(daemon, strings.Split(root, ",")...)
			case args[0] == "agent" && root != "" && op.Label(inbox):
				may = natsbridge.AgentMay(inbox, root)
			default:
				return usagef("give daemon --root KEY --daemon ID, agent --root KEY --inbox NAME, or hub; holdpoint status on the machine tells the keys and the id")
			}
			if a.json {
				a.printJSON(may)
				return nil
			}
			fmt.Fprintf(a.Out, "--allow-pub '%s' --allow-sub '%s'", line(strings.Join(may.Publish, ",")), line(strings.Join(may.Subscribe, ",")))
			if may.Respond {
				fmt.Fprint(a.Out, " --allow-pub-response --response-ttl 10m")
			}
			fmt.Fprintln(a.Out)
			return nil
		}}
	c.Flags().StringVar(&root, "root", "", "key of the root, or several with commas")
	c.Flags().StringVar(&daemon, "daemon", "", "id of the daemon")
	c.Flags().StringVar(&inbox, "inbox", "", "a word of the agent's own, which its HOLDPOINT_NATS_INBOX says too")
	return c
}

// hub keeps two things: the key that opens cards, and the hash of the passphrase of whoever
// may look at them. Neither answers anything.
func (a *app) hub(ctx context.Context, f hubFlags) error {
	say := func(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }
	if err := f.reach.check(f.listen, say); err != nil {
		return err
	}
	dir := filepath.Join(StatePath(a.state, a.Env), "hub")
	secret, err := hubSecret(filepath.Join(dir, "key"))
	if err != nil {
		return err
	}
	hash, err := a.hubPassphrase(filepath.Join(dir, "passphrase"), say)
	if err != nil {
		return err
	}
	o := f.nats.options("holdpoint hub", say)
	o.Inbox = natsbridge.HubInbox
	conn, err := natsbridge.Connect(o)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := make(chan struct{})
	go func() {
		defer close(made)
		keepStores(ctx, func() error { return natsbridge.MakeStores(ctx, conn, f.replicas, 0) }, say)
	}()
	h, gathered := hub.Open(ctx, hub.Config{Conn: conn, Secret: secret, Version: Version(), Check: func(p string) error { return flow.VerifyPassphrase(hash, p) },
		Say: func(s string) { say("holdpoint: %s", op.Visible(s, false)) }})
	defer func() { cancel(); <-gathered; <-made }()
	l, err := net.Listen("tcp", f.listen)
	if err != nil {
		return op.Fail(op.IOError, "cannot listen on "+f.listen).Because(err)
	}
	srv := server(bridge.Behind(f.reach.trusted, bridge.Guard(f.reach.allowed(l, f.listen), h.Handler(page.Handler()))), nil)
	srv.ConnState = new(crowd).state(func(net.Conn, http.ConnState) {})
	serve := srv.Serve
	if f.reach.cert != nil {
		srv.TLSConfig = f.reach.cert.config()
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	at := f.reach.base(l.Addr().String())
	say("holdpoint %s hub", Version())
	say("page     %s", at)
	say("key      %s", secret.Key())
	say("  give it to each machine: holdpoint serve --nats URL --nats-hub-key KEY")
	ended := make(chan error, 1)
	go func() { ended <- serve(l) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if srv.Shutdown(bound) != nil {
			srv.Close()
		}
		err = <-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// keepStores makes what lies on the servers, as soon as there are any, and again where it
// was lost with them.
func keepStores(ctx context.Context, make func() error, say func(string, ...any)) {
	for told := false; ; {
		wait := time.Minute
		if err := make(); err == nil {
			told = false
		} else if wait = 2 * time.Second; !told && ctx.Err() == nil {
			say("holdpoint: %s", op.Visible("the buckets and the stream are not there yet: "+err.Error(), false))
			told = true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// hubSecret reads the key, or makes it at the first start.
func hubSecret(file string) (s natsbridge.HubSecret, err error) {
	b, err := readSmall(file)
	if notExist(err) {
		s = natsbridge.NewHubSecret()
		return s, writeSecret(file, base64.RawURLEncoding.EncodeToString(s[:]))
	}
	if err == nil {
		if b, err = base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(b))); err == nil && len(b) != len(s) {
			err = errors.New("it has not 32 bytes")
		}
	}
	if err != nil {
		return s, op.Fail(op.StateCorrupt, "the hub's key cannot be read").Because(err)
	}
	return natsbridge.HubSecret(b), nil
}

// hubPassphrase gives the hash of whoever may look, and sets it at the first start.
func (a *app) hubPassphrase(file string, say func(string, ...any)) (string, error) {
	b, err := readSmall(file)
	if err == nil {
		return strings.TrimSpace(string(b)), nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", op.Fail(op.IOError, "the hub's passphrase cannot be read").Because(err)
	}
	chosen := a.Env(hubPassphraseEnv)
	if chosen == "" {
		chosen = generated()
		say("hub passphrase: %s", chosen)
		say("  it is shown this once and only its hash is kept; it shows cards, and answers none")
	}
	hash, err := flow.HashPassphrase(chosen)
	if err != nil {
		return "", err
	}
	return hash, writeSecret(file, hash)
}

const hubPassphraseEnv = "HOLDPOINT_HUB_PASSPHRASE"
