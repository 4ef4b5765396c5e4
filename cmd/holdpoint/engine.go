package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"holdpoint/audit"
	"holdpoint/bridge"
	natsbridge "holdpoint/bridge/nats"
	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
	"holdpoint/protected"
	"holdpoint/review"
	"holdpoint/shellexec"
	"holdpoint/trusted"
)

// opened is an engine on its state, with all that must be closed again.
type opened struct {
	engine  *flow.Engine
	journal *journal.Journal
	log     *audit.Log
	trust   *trusted.Live
	key     []byte
	auditAt string
	home    string
	broad   bool
	layers  []layer // of the configuration
	stop    context.CancelFunc
	done    chan struct{}
	link    atomic.Pointer[natsbridge.Link] // nil without NATS
}

// setup is what serve and the in-process form have in common.
type setup struct {
	state, config, socket, reviewAuth, version string
	env                                        func(string) string
	broad, yolo                                bool
	reviewURL                                  func(op.ID) string
	warn                                       func(string)
}

// openEngine opens state, audit log and policy, in this order; the state's lock makes it
// the only one. Roots are added by the caller, and Recover called after them.
func openEngine(ctx context.Context, s setup) (*opened, error) {
	if s.state == "" {
		return nil, usagef("no state directory: give --state, or set HOLDPOINT_STATE or HOME")
	}
	cfg, err := readConfig(s.config, s.env)
	if err != nil {
		return nil, err
	}
	o := &opened{broad: s.broad, layers: configLayers(s.config, s.env), home: s.env("HOME"), auditAt: filepath.Join(s.state, "audit"), done: make(chan struct{})}
	if o.journal, err = journal.Open(s.state, journal.Options{CreatedOK: true, Relaxed: cfg.Relaxed}); err != nil {
		return nil, err
	}
	if cfg.Relaxed {
		s.warn(flow.RelaxedText)
	}
	for _, note := range o.journal.Notes() {
		s.warn(note)
	}
	o.key = o.journal.Key()
	head, err := o.auditHead(ctx)
	if err == nil {
		o.log, err = audit.Open(o.auditAt, o.key, audit.Options{Head: head})
	}
	if err != nil {
		o.close()
		return nil, err
	}
	if lost := o.log.Recovered(); lost != "" {
		s.warn("audit: " + lost)
	}
	policy := first(s.env("HOLDPOINT_TRUSTED_AUTOMATION_POLICY_FILE"), s.env("CHENG_TRUSTED_AUTOMATION_POLICY_FILE"))
	ctx, o.stop = context.WithCancel(context.WithoutCancel(ctx))
	o.trust, err = trusted.Watch(ctx, policy, trusted.LoadEnv{UID: os.Getuid()}, func(t trusted.Status) {
		s.warn("trusted automation: " + t.State + " " + t.Error)
	})
	if err != nil {
		s.warn("the trusted-automation policy is " + policy)
		o.close()
		return nil, err
	}
	programs(&cfg, s)
	host, _ := os.Hostname()
	cfg.Version, cfg.Host, cfg.MachineID, cfg.User = s.version, host, machineID(), userName()
	cfg.Excludes = globalExcludes(s.env)
	cfg.ReviewAuth, cfg.ReviewURL, cfg.AllowYolo, cfg.AsRoot = s.reviewAuth, s.reviewURL, s.yolo, os.Geteuid() == 0
	cfg.Getenv, cfg.Socket = s.env, s.socket
	cfg.Aside = shellexec.Aside
	o.engine = flow.New(cfg, o.journal, o.log, o.trust)
	go o.housekeeping(ctx)
	return o, nil
}

// auditHead is where the audit log must still reach; nil before the first.
func (o *opened) auditHead(ctx context.Context) (*audit.Head, error) {
	text, err := o.journal.Meta(ctx, flow.MetaAuditHead)
	if err != nil || text == "" {
		return nil, err
	}
	h := &audit.Head{}
	if err := json.Unmarshal([]byte(text), h); err != nil {
		return nil, op.Fail(op.StateCorrupt, "the recorded head of the audit log cannot be read").Because(err)
	}
	return h, nil
}

// housekeeping flushes the audit log, announces lapsed cards and drops what is no longer
// kept. Nothing that must hold depends on it.
func (o *opened) housekeeping(ctx context.Context) {
	defer close(o.done)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	var rest rest
	for {
		select {
		case <-tick.C:
			o.engine.Tidy(ctx)
			rest.look()
		case <-ctx.Done():
			return
		}
	}
}

func (o *opened) close() error {
	var errs []error
	if o.engine != nil {
		o.stop()
		<-o.done
		o.engine.Tidy(context.Background())
		o.engine.Close()
	} else if o.stop != nil {
		o.stop()
	}
	if o.trust != nil {
		o.trust.Close()
	}
	if o.log != nil {
		errs = append(errs, o.log.Close())
	}
	if o.journal != nil {
		errs = append(errs, o.journal.Close())
	}
	return errors.Join(errs...)
}

// addRoots registers roots, tells the policy where they are, and settles what a crash left.
func (o *opened) addRoots(ctx context.Context, specs []flow.RootSpec) error {
	for _, spec := range specs {
		spec.AllowBroad, spec.Home = o.broad, o.home
		if _, err := o.engine.AddRoot(ctx, spec); err != nil {
			return err
		}
	}
	if err := o.trust.SetWorkspaces(o.engine.RootDirs()); err != nil {
		return err
	}
	if err := o.guardConfig(); err != nil {
		return err
	}
	return o.engine.Recover(ctx)
}

// agentToken leaves the one token that is kept in the clear: an agent's, which can
// approve nothing.
func (o *opened) agentToken(ctx context.Context, state string) error {
	return o.keepToken(ctx, state, "agent", flow.TokenSpec{Name: "agent", Role: op.Agent})
}

// keepToken writes tokens/NAME (0600) when it is not there already and still good.
func (o *opened) keepToken(ctx context.Context, state, name string, spec flow.TokenSpec) error {
	file := filepath.Join(state, "tokens", name)
	if b, err := readSmall(file); err == nil {
		if _, _, err := o.engine.Caller(ctx, strings.TrimSpace(string(b))); err == nil {
			return nil
		}
	}
	_, secret, err := o.engine.CreateToken(ctx, spec)
	if err != nil {
		return err
	}
	return writeSecret(file, secret)
}

// writeSecret makes a file that only its owner can read from its first moment.
func writeSecret(file, secret string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return op.Fail(op.IOError, "the token directory cannot be made").Because(err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*") // 0600 by contract
	if err != nil {
		return op.Fail(op.IOError, "the token cannot be written").Because(err)
	}
	_, err = f.WriteString(secret + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
		return op.Fail(op.IOError, "the token cannot be written").Because(err)
	}
	return nil
}

// openLocal is the engine of one command line: the same engine, in this process.
func openLocal(ctx context.Context, l localOptions) (http.Handler, func() error, error) {
	o, err := openEngine(ctx, setup{state: l.State, config: l.Config, env: l.Env, reviewAuth: "passphrase", version: Version(), warn: func(string) {}})
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) (http.Handler, func() error, error) {
		o.close()
		return nil, nil, err
	}
	if err := o.addRoots(ctx, []flow.RootSpec{{Dir: l.Root}}); err != nil {
		return fail(err)
	}
	if err := o.agentToken(ctx, l.State); err != nil {
		return fail(err)
	}
	if err := o.firstPassphrase(ctx, l.Env("HOLDPOINT_REVIEW_PASSPHRASE")); err != nil {
		return fail(err)
	}
	h := bridge.New(adapter{o}).Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(bridge.WithSocket(r.Context())))
	}), o.close, nil
}

// firstPassphrase takes a given passphrase when none is set yet: whoever starts the
// state says who reviews.
func (o *opened) firstPassphrase(ctx context.Context, given string) error {
	if given == "" {
		return nil
	}
	has, err := o.engine.HasPassphrase(ctx)
	if err != nil || has {
		return err
	}
	return o.engine.SetPassphrase(ctx, given)
}

func machineID() string {
	b, err := readSmall("/etc/machine-id")
	if err != nil {
		host, _ := os.Hostname()
		return host
	}
	return strings.TrimSpace(string(b))
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// operatorPatterns are the protected patterns of the environment; they only add.
func operatorPatterns(env func(string) string) []string {
	return protected.Split(first(env("HOLDPOINT_PROTECTED_PATTERNS"), env("CHENG_FILE_OPS_PROTECTED_PATTERNS")))
}

// adapter shows the engine to the bridge, whose answers are opaque JSON.
type adapter struct{ *opened }

func (a adapter) Caller(ctx context.Context, secret string) (op.Caller, journal.Token, error) {
	return a.engine.Caller(ctx, secret)
}
func (a adapter) CheckPassphrase(ctx context.Context, p string) error {
	return a.engine.CheckPassphrase(ctx, p)
}
func (a adapter) Call(ctx context.Context, by op.Caller, req op.Request, w []op.Warning) op.Reply {
	return a.engine.Call(ctx, by, req, w)
}
func (a adapter) Malformed(by op.Caller, name op.Name, err error) op.Reply {
	return a.engine.Malformed(by, name, err)
}
func (a adapter) Preflight(ctx context.Context, by op.Caller, req op.Request, w []op.Warning) (any, *op.Error) {
	p := a.engine.Preflight(ctx, by, req, w)
	return p, p.Error
}
func (a adapter) Facts(ctx context.Context, by op.Caller, root string, paths []string, page op.Page) (any, *op.Error) {
	p := a.engine.Facts(ctx, by, root, paths, page)
	return p, p.Error
}
func (a adapter) EachApproval(ctx context.Context, by op.Caller, state string, each func(card any) error) error {
	return a.engine.EachApproval(ctx, by, state, func(c review.Card) error { return each(c) })
}
func (a adapter) ApprovalPage(ctx context.Context, by op.Caller, f journal.ApprovalFilter) (any, error) {
	return a.engine.ApprovalPage(ctx, by, f)
}
func (a adapter) Approval(ctx context.Context, by op.Caller, id op.ID, wait time.Duration) (any, error) {
	return a.engine.Approval(ctx, by, id, wait)
}
func (a adapter) WholeDiff(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.WholeDiff(ctx, by, id)
}
func (a adapter) Answer(ctx context.Context, by op.Caller, id op.ID, ans journal.Answer) (any, error) {
	return a.engine.Answered(ctx, by, id, ans)
}
func (a adapter) Cancel(ctx context.Context, by op.Caller, id op.ID) error {
	_, err := a.engine.Cancel(ctx, by, id)
	return err
}
func (a adapter) Operations(ctx context.Context, by op.Caller, f journal.Filter) (any, error) {
	list, next, err := a.engine.Operations(ctx, by, f)
	out := map[string]any{"operations": list}
	if next > 0 {
		out["next"] = next
	}
	return out, err
}
func (a adapter) Elsewhere(ctx context.Context, by op.Caller, root string, since time.Time, ours []string) (any, error) {
	ids := make([]op.ID, len(ours))
	for i, id := range ours {
		ids[i] = op.ID(id)
	}
	return a.engine.Elsewhere(ctx, by, root, since, ids)
}
func (a adapter) Output(ctx context.Context, by op.Caller, id op.ID, stream string, offset, tail int64, limit int) (any, error) {
	return a.engine.Output(ctx, by, id, stream, offset, tail, limit)
}
func (a adapter) Operation(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.Operation(ctx, by, id)
}
func (a adapter) Sessions(ctx context.Context, by op.Caller, root string, since time.Time) (any, error) {
	return a.engine.Sessions(ctx, by, root, since)
}
func (a adapter) Status(ctx context.Context, by op.Caller) (any, error) {
	s, err := a.engine.Status(ctx, by)
	return statusView{s, a.engine.DaemonID(), a.natsState(by)}, err
}
func (a adapter) Tokens(ctx context.Context) ([]journal.Token, error) { return a.engine.Tokens(ctx) }
func (a adapter) CreateToken(ctx context.Context, t bridge.TokenRequest) (journal.Token, string, error) {
	return a.engine.CreateToken(ctx, flow.TokenSpec{Name: t.Name, Role: t.Role, Workflow: t.Workflow, Profile: t.Profile, Roots: t.Roots, Clearance: t.Clearance, Expires: t.Expires})
}
func (a adapter) RevokeToken(ctx context.Context, id op.ID) error {
	return a.engine.RevokeToken(ctx, id)
}

func (a adapter) Denied(where string, err error) { a.engine.Denied(where, err) }

// AddRoot registers a root while the daemon runs; the policy file must not lie in it.
func (a adapter) AddRoot(ctx context.Context, name, dir string) (any, error) {
	w, err := a.engine.AddRoot(ctx, flow.RootSpec{Name: name, Dir: dir, AllowBroad: a.broad, Home: a.home})
	if err != nil {
		return nil, err
	}
	err = a.trust.SetWorkspaces(a.engine.RootDirs())
	if err == nil {
		err = a.guardConfig()
	}
	if err != nil {
		a.engine.RemoveRoot(w.Key)
		return nil, err
	}
	return map[string]any{"name": w.Name, "key": w.Key, "dir": w.Root.Dir(), "store": w.StoreAt}, nil
}
func (a adapter) RemoveRoot(_ context.Context, name string) error { return a.engine.RemoveRoot(name) }
func (a adapter) Protection(ctx context.Context, by op.Caller, root, path string) (any, error) {
	if path != "" {
		return a.engine.ProtectionOf(ctx, by, root, path)
	}
	list, err := a.engine.Protection(ctx, by, root)
	return map[string]any{"patterns": list}, err
}
func (a adapter) Rules(ctx context.Context, by op.Caller, all bool) (any, error) {
	list, err := a.engine.RulesOf(ctx, by, all)
	views := make([]ruleView, 0, len(list))
	for _, r := range list {
		views = append(views, ruleViewOf(r))
	}
	return views, err
}
func (a adapter) Grant(ctx context.Context, by op.Caller, r bridge.RuleRequest) (any, error) {
	rule, err := a.engine.Grant(ctx, by, flow.RuleSpec(r))
	return ruleViewOf(rule), err
}
func (a adapter) SetMode(ctx context.Context, by op.Caller, r bridge.RuleRequest) (any, error) {
	rule, err := a.engine.SetMode(ctx, by, flow.RuleSpec(r))
	return ruleViewOf(rule), err
}
func (a adapter) EndModes(ctx context.Context, by op.Caller, r bridge.RuleRequest) (any, error) {
	list, err := a.engine.EndModes(ctx, by, flow.RuleSpec(r))
	views := make([]ruleView, 0, len(list))
	for _, r := range list {
		views = append(views, ruleViewOf(r))
	}
	return views, err
}
func (a adapter) RevokeRule(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	rule, err := a.engine.RevokeRuleOf(ctx, by, id)
	return ruleViewOf(rule), err
}
func (a adapter) RuleReach(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.ReachOf(ctx, by, id)
}
func (a adapter) Clean(ctx context.Context, by op.Caller, c bridge.CleanRequest) op.Reply {
	return a.engine.Clean(ctx, by, flow.CleanSpec(c))
}
func (a adapter) Profiles(ctx context.Context) (any, error) { return a.engine.Profiles(ctx) }
func (a adapter) PutProfile(ctx context.Context, by op.Caller, name string, o op.Object) (any, error) {
	return a.engine.PutProfile(ctx, by, name, o)
}
func (a adapter) DeleteProfile(ctx context.Context, by op.Caller, name string) error {
	return a.engine.DeleteProfile(ctx, by, name)
}
func (a adapter) UseProfile(ctx context.Context, by op.Caller, name, agent string) (any, error) {
	rule, err := a.engine.UseProfile(ctx, by, name, agent)
	return ruleViewOf(rule), err
}
func (a adapter) AuditTail(n int) (any, error) { return a.engine.AuditTail(n) }
func (a adapter) AuditHead() (any, error)      { return a.engine.AuditHead() }
func (a adapter) AuditVerify(head []byte) (any, error) {
	var h *audit.Head
	if head != nil {
		h = &audit.Head{}
		if err := json.Unmarshal(head, h); err != nil {
			return nil, op.Fail(op.BadRequest, "head is not what audit head gave").In("head")
		}
	}
	return audit.Verify(a.auditAt, h, a.key)
}
func (a adapter) NetDiff(ctx context.Context, by op.Caller, root string, ids []string) (any, error) {
	return a.engine.NetDiff(ctx, by, root, ids)
}
func (a adapter) Collect(ctx context.Context, by op.Caller, dryRun bool, now op.ID) (any, error) {
	return a.engine.Collect(ctx, by, dryRun, now)
}
func (a adapter) Forget(ctx context.Context, by op.Caller, root, what string) (any, error) {
	return a.engine.Forget(ctx, by, root, what)
}
func (a adapter) Export(ctx context.Context, by op.Caller, id op.ID) (any, error) {
	return a.engine.Export(ctx, by, id)
}
func (a adapter) Replay(ctx context.Context) (any, error) { return a.engine.Replay(ctx) }

func (a adapter) Verify(ctx context.Context, by op.Caller, repair bool) (any, error) {
	return a.engine.Verify(ctx, by, func(h *audit.Head) (audit.Result, error) { return audit.Verify(a.auditAt, h, a.key) }, repair)
}
func (a adapter) Changes(ctx context.Context, by op.Caller, root, cursor string, wait time.Duration) (any, error) {
	return a.engine.Changes(ctx, by, root, cursor, wait)
}
func (a adapter) WatchRoot(ctx context.Context, by op.Caller, root string) (string, bridge.Event, func(), error) {
	key, first, release, err := a.engine.WatchRoot(ctx, by, root)
	return key, a.wrap(first), release, err
}

// wrap puts an event on the wire.
func (a adapter) wrap(e flow.Event) bridge.Event {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte("{}")
	}
	return bridge.Event{Seq: e.Seq, Type: e.Type, Root: e.Root, JSON: body, Sees: func(by op.Caller) bool { return a.engine.Sees(by, e) }}
}

func (a adapter) Subscribe(after int64) ([]bridge.Event, <-chan bridge.Event, func()) {
	past, more, cancel := a.engine.Subscribe(after)
	out := make(chan bridge.Event)
	stop := make(chan struct{})
	go func() {
		defer close(out)
		for e := range more {
			select {
			case out <- a.wrap(e):
			case <-stop:
				return
			}
		}
	}()
	var list []bridge.Event
	for _, e := range past {
		list = append(list, a.wrap(e))
	}
	return list, out, func() { close(stop); cancel() }
}
