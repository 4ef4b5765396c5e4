package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"holdpoint/op"
)

// A service manager hands a daemon its sockets, hears from it how it is, and keeps what it
// prints. All of this is nothing where there is none: the words of sd_notify(3) go nowhere,
// no socket is there, and the log is text.

// handed are the sockets that were open before the daemon was: whoever connects between
// two daemons waits in them and is not refused. Both may be nil.
type handed struct {
	unix net.Listener
	tcp  net.Listener
	path string // of unix
}

// handedSockets takes over at most one socket of each kind. One that others could reach,
// or stand behind, is refused as one of our own making would be.
func handedSockets() (h handed, err error) {
	list, err := activation.Listeners()
	if err != nil {
		return h, op.Fail(op.StateUnsafe, "the sockets of the service manager cannot be used").Because(err)
	}
	for _, l := range list {
		switch l := l.(type) {
		case *net.UnixListener:
			if h.unix != nil {
				return h, tooManySockets
			}
			h.unix, h.path = l, l.Addr().String()
			if err := checkSocketDir(h.path); err != nil {
				return h, err
			}
			if err := checkSocketMode(h.path); err != nil {
				return h, err
			}
		case *net.TCPListener:
			if h.tcp != nil {
				return h, tooManySockets
			}
			h.tcp = l
		default:
			return h, op.Fail(op.BadRequest, "a socket of the service manager is neither a unix nor a TCP stream").Do("see holdpoint.socket for what is expected")
		}
	}
	return h, nil
}

var tooManySockets = op.Fail(op.BadRequest, "the service manager hands over two sockets of one kind").Do("one ListenStream for the path, one for an address")

// tell says something to the service manager. What cannot be said does not stop a daemon.
func tell(words ...string) { _, _ = daemon.SdNotify(false, strings.Join(words, "\n")) }

// managed reports whether a service manager started this: nobody reads along, and what is
// printed is kept for others to read.
func managed(env func(string) string) bool { return env("NOTIFY_SOCKET") != "" || journalled(env) }

// tellReady says what is served.
func (o *opened) tellReady() {
	n := len(o.engine.RootDirs())
	tell(daemon.SdNotifyReady, fmt.Sprintf("STATUS=serving %s", plural(int64(n), "root")))
}

// attend does what a service needs while it runs. What it gives back ends that and waits.
func (o *opened) attend(ctx context.Context, reviewer bool, env func(string) string) func() {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { o.pulse(ctx) })
	if reviewer {
		all.Go(func() { o.awaitReviewer(ctx, env) })
	}
	return func() { cancel(); all.Wait() }
}

// pulse tells the watchdog that the daemon lives: that its mind answers and its journal can
// be read, not merely that a timer runs. It returns when ctx ends.
func (o *opened) pulse(ctx context.Context) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil || within == 0 {
		return
	}
	tick := time.NewTicker(within / 3)
	defer tick.Stop()
	for {
		if _, err := o.engine.Status(ctx, op.Caller{Role: op.Operator}); err == nil {
			tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// awaitReviewer takes over the passphrase that holdpoint init sets while the daemon runs.
func (o *opened) awaitReviewer(ctx context.Context, env func(string) string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if has, err := o.ownReviewer(ctx, env); has || err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sayer gives the daemon's voice: plain lines for a person, lines with their weight
// (sd-daemon(3)) where a journal keeps them. What begins with our name wants attention.
func (a *app) sayer() func(string, ...any) {
	if !journalled(a.Env) {
		return func(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }
	}
	return func(format string, args ...any) {
		for _, l := range strings.Split(fmt.Sprintf(format, args...), "\n") {
			weight := "<6>"
			if rest, ok := strings.CutPrefix(l, "holdpoint: "); ok {
				weight, l = "<4>", rest
			}
			fmt.Fprintln(a.Err, weight+l)
		}
	}
}
