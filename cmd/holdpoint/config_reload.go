package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/fsnotify/fsnotify"

	"holdpoint/op"
)

// reloader reads the configuration again when a file of it changes, or on SIGHUP. What is
// wrong with it leaves everything as it was, and is said: in the log, in the audit and in
// status. Loosened or tightened, each reload is on record.
type reloader struct {
	o      *opened
	flag   string
	env    func(string) string
	say    func(string)
	before fileConfig
	stamps string
}

// newReloader remembers the files as they are now, before anything was made of them.
func newReloader(flag string, env func(string) string, say func(string)) *reloader {
	r := &reloader{flag: flag, env: env, say: say}
	r.stamps = r.stamp()
	r.before, _, _ = readConfigFile(flag, env)
	return r
}

// settle lets an editor finish: the file is read once after the last of its writes.
const settleConfig = 100 * time.Millisecond

// follow runs until ctx ends.
func (r *reloader) follow(ctx context.Context) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	var events chan fsnotify.Event
	var faults chan error
	if w, err := fsnotify.NewWatcher(); err == nil {
		defer w.Close()
		events, faults = w.Events, w.Errors
		for _, l := range configLayers(r.flag, r.env) {
			// The directory: editors exchange files. One that is not there is followed by SIGHUP.
			_ = w.Add(filepath.Dir(l.path))
		}
	}
	settled := time.NewTimer(0) // what changed before the watch began
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			r.reload(ctx, "signal")
		case _, ok := <-events:
			if !ok {
				events = nil
			}
			settled.Reset(settleConfig)
		case _, ok := <-faults:
			if !ok {
				faults = nil
			}
			settled.Reset(settleConfig)
		case <-settled.C:
			if r.stamp() != r.stamps {
				r.reload(ctx, "file")
			}
		}
	}
}

// stamp tells one state of the files from the next; other files of the directory do not
// count.
func (r *reloader) stamp() string {
	var b strings.Builder
	for _, l := range configLayers(r.flag, r.env) {
		if info, err := os.Stat(l.path); err == nil {
			b.WriteString(l.path + info.ModTime().String() + info.Mode().String() + info.Name() + " ")
			if data, err := os.ReadFile(l.path); err == nil {
				b.Write(data)
			}
		}
	}
	return b.String()
}

func (r *reloader) reload(ctx context.Context, by string) {
	r.stamps = r.stamp()
	tell(daemon.SdNotifyReloading, monotonic())
	defer r.o.tellReady()
	file, _, err := readConfigFile(r.flag, r.env)
	cfg, bad := readConfig(r.flag, r.env)
	if err == nil {
		err = bad
	}
	if err == nil && !r.o.broad { // there it is hidden already
		err = r.o.guardConfig()
	}
	if err != nil {
		r.o.engine.ConfigFault(op.AsError(err).Message)
		r.o.engine.Reloaded(by, err)
		r.say("configuration: " + op.AsError(err).Message + "; the one before stays in force")
		return
	}
	later := needRestart(r.before, file)
	if err := r.o.engine.Reload(ctx, by, cfg.Settings); err != nil {
		r.o.engine.ConfigFault(op.AsError(err).Message)
		r.say("configuration: " + op.AsError(err).Message + "; the one before stays in force")
		return
	}
	fault := ""
	if len(later) > 0 {
		fault = "counts only after a restart: " + strings.Join(later, ", ")
		r.say("configuration: " + fault)
	}
	r.o.engine.ConfigFault(fault)
	r.say("configuration: read again")
}

// needRestart names the changed keys that a running daemon does not take over.
func needRestart(a, b fileConfig) []string {
	live := map[string]bool{"protected": true, "deadlines": true, "on_timeout": true, "two_reviewers": true, "floors": true, "profiles": true}
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		name := x.Type().Field(i).Tag.Get("toml")
		if !live[name] && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			out = append(out, name)
		}
	}
	return out
}
