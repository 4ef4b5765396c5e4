package nats

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"holdpoint/op"
)

// Routes that are served over NATS, by channel. What administers a daemon, opens a session
// or streams is not among them: it stays on the machine.
var routes = map[string][]route{
	Call: {
		{"POST", `/v1/(call|preflight|undo|clean|diff)`},
		{"GET", `/v1/(approvals|operations|runs|status|table|protect|protect/test)`},
		{"GET", `/v1/(approvals|operations|runs)/[^/]+`},
		{"GET", `/v1/runs/[^/]+/output`},
		{"POST", `/v1/runs/[^/]+/(stop|input)`},
		{"POST", `/v1/approvals/[^/]+/(cancel|answer)`}, // an agent that answers is refused, and that is put on record
	},
	Answer: {{"POST", `/v1/approvals/[^/]+/answer`}},
}

type route struct{ method, path string }

var patterns = sync.OnceValue(func() map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for _, list := range routes {
		for _, r := range list {
			out[r.path] = regexp.MustCompile(`^` + r.path + `$`)
		}
	}
	return out
})

func served(channel, method, path string) bool {
	return slices.ContainsFunc(routes[channel], func(r route) bool { return r.method == method && patterns()[r.path].MatchString(path) })
}

// most is how many requests of a daemon run at once; more are told to come again. One token
// has half of them, since a request may wait for a minute and the others want to be served
// meanwhile. Answers have room of their own: no agent keeps a reviewer out. What bodies take is
// bounded too, since all of a message is in memory before its token can be looked at; so is
// what waits for us in the client.
const (
	most      = 64
	mostOfOne = most / 2
	mostSaid  = 16
	mostBytes = 4 << 20
	mostQueue = 4 << 20
)

// queue is how many bytes may wait for us in the client: at least two of the largest
// messages, since what is larger than all the room would never come.
func (l *Link) queue() int { return max(mostQueue, 2*int(l.conn.MaxPayload())) }

// spent counts the bytes of large bodies that are done with, and has their memory back before
// as much again is read beside it: none of it needs a token, and the runtime would wait until
// all that is used has doubled.
func (l *Link) spent(size int) {
	if size < large || l.bodies.Add(int64(size)) < mostBytes/2 {
		return
	}
	l.bodies.Store(0)
	runtime.GC()
}

// large is a body that no call has but one that carries a file.
const large = 64 << 10

// room counts the requests that run, in all and of each token, and the bytes of their bodies.
type room struct {
	most, ofOne int

	mu    sync.Mutex // guards the rest
	all   int
	bytes int
	of    map[string]int
}

func newRoom(most, ofOne int) *room { return &room{most: most, ofOne: ofOne, of: map[string]int{}} }

// enter reports whether there is room, and takes it. A body that is larger than all the room
// has it alone.
func (r *room) enter(who string, size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= r.most || r.of[who] >= r.ofOne || r.bytes > 0 && r.bytes+size > mostBytes {
		return false
	}
	r.all++
	r.bytes += size
	r.of[who]++
	return true
}

func (r *room) leave(who string, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.bytes -= size
	if r.of[who]--; r.of[who] == 0 {
		delete(r.of, who)
	}
}

// kept is what a reply needs of a message besides its body.
const kept = 4 << 10

// take serves one message. It returns at once when there is no room.
func (l *Link) take(root Root, channel string, m *nats.Msg) {
	if !strings.HasPrefix(m.Reply, inboxes) {
		return // nobody waits for a reply, or it would go where the daemon may publish and the sender may not
	}
	room, who := l.rooms[channel], m.Header.Get(headAuth)
	if !room.enter(who, len(m.Data)) {
		l.refuse(m, op.Fail(op.NotReady, "this machine serves as many requests as it can, or as one token has room for").Do("send it again a little later"))
		l.spent(len(m.Data))
		return
	}
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		defer room.leave(who, len(m.Data))
		defer l.spent(len(m.Data))
		l.serve(root, channel, m)
	}()
}

// ofPage are headers that a browser gives to a request. A bus has no use for them: what has
// them was carried here from a web page, by a gateway or over a websocket.
var ofPage = []string{"Host", "Origin", "Sec-Fetch-Site"}

// fromPage refuses what a web page may have sent, before anything else is looked at, as the
// routes of HTTP do. It reports whether it did.
func (l *Link) fromPage(m *nats.Msg) bool {
	for name, values := range m.Header { // keys of NATS keep their case
		if slices.Contains(ofPage, http.CanonicalHeaderKey(name)) {
			l.refuse(m, op.Fail(op.BadOrigin, "messages that carry a browser's headers are not served").In(http.CanonicalHeaderKey(name)))
			return true
		}
		if http.CanonicalHeaderKey(name) == "Content-Type" && slices.ContainsFunc(values, notJSON) {
			l.refuseWith(m, http.StatusUnsupportedMediaType, op.Fail(op.BadRequest, "the content type must be application/json"))
			return true
		}
	}
	return false
}

func notJSON(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return !strings.EqualFold(strings.TrimSpace(kind), "application/json")
}

func (l *Link) serve(root Root, channel string, m *nats.Msg) {
	if l.fromPage(m) {
		return
	}
	if err := spoken(m.Header.Get(headVersion)); err != nil {
		l.refuse(m, err)
		return
	}
	method, at := m.Header.Get(headMethod), m.Header.Get(headPath)
	u, err := url.ParseRequestURI(at)
	if err != nil || u.Host != "" || !strings.HasPrefix(at, "/") {
		l.refuse(m, op.Fail(op.BadRequest, "the message names no path").In(headPath))
		return
	}
	if !served(channel, method, u.EscapedPath()) {
		l.refuse(m, op.Fail(op.NotAvailable, "this route is not served over NATS on "+Subject("ROOT", channel)).Do("use it on the machine itself"))
		return
	}
	r, err := http.NewRequestWithContext(l.calls, method, "http://localhost"+at, bytes.NewReader(m.Data))
	if err != nil {
		l.refuse(m, op.Fail(op.BadRequest, "the message names no path").In(headPath))
		return
	}
	r.Header.Set("Content-Type", "application/json")
	if v := m.Header.Get(headAuth); v != "" {
		r.Header.Set(headAuth, v)
	}
	w := &answer{header: http.Header{}, most: int(l.conn.MaxPayload()) - kept}
	h := l.cfg.Calls
	if channel == Answer {
		h = l.cfg.Answers
	}
	h(root).ServeHTTP(w, r)
	if w.tooLarge {
		l.refuse(m, op.Fail(op.TooLarge, "the answer is larger than one NATS message may be").Do("ask for less at once, or ask on the machine; a call that changes something has been carried out"))
		return
	}
	l.reply(m, max(w.status, http.StatusOK), w.body.Bytes())
}

func (l *Link) refuse(m *nats.Msg, e *op.Error) { l.refuseWith(m, op.HTTPStatus(e.Code), e) }

func (l *Link) refuseWith(m *nats.Msg, status int, e *op.Error) {
	l.reply(m, status, op.Canonical(op.Object{"error": op.Object{"code": string(e.Code), "message": e.Message, "field": e.Field, "hint": e.Hint}}))
}

func (l *Link) reply(m *nats.Msg, status int, body []byte) {
	l.requests.Add(1)
	out := &nats.Msg{Subject: m.Reply, Header: header(headStatus, strconv.Itoa(status)), Data: body}
	if err := l.conn.PublishMsg(out); err != nil {
		l.note("a reply could not be sent: " + err.Error())
	}
}

// answer is a ResponseWriter that holds one message.
type answer struct {
	header   http.Header
	status   int
	body     bytes.Buffer
	most     int
	tooLarge bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.body.Len()+len(b) > a.most {
		a.tooLarge = true
		return len(b), nil
	}
	return a.body.Write(b)
}
