package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"holdpoint/op"
)

// Transport sends requests of HTTP to one root over NATS, for clients that otherwise use a
// socket. It repeats nothing: a request whose reply was lost is sent again by whoever sent
// it, with the same request id.
type Transport struct {
	Conn    *nats.Conn
	Root    string
	Channel string        // Call where empty
	Wait    time.Duration // for a reply; 2 minutes where zero
}

// RoundTrip sends one request. A reply of a version that is not known is not looked into.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if !rootKey(t.Root) {
		return nil, op.Fail(op.UnknownRoot, "over NATS a root is named by its key of 32 digits").In("root").Do("holdpoint status on the machine tells it")
	}
	channel, wait := t.Channel, t.Wait
	if channel == "" {
		channel = Call
	}
	if wait == 0 {
		wait = 2 * time.Minute
	}
	if !served(channel, r.Method, r.URL.EscapedPath()) {
		// Refused here already: a passphrase must not travel to where nobody takes it.
		return nil, op.Fail(op.NotAvailable, "this is not served over NATS; nothing was sent").Do("use it on the machine itself")
	}
	m := &nats.Msg{Subject: Subject(t.Root, channel), Data: body, Header: header(headMethod, r.Method, headPath, r.URL.RequestURI())}
	if v := r.Header.Get(headAuth); v != "" {
		m.Header.Set(headAuth, v)
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	got, err := t.Conn.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, worded(err)
	}
	if e := spoken(got.Header.Get(headVersion)); e != nil {
		return nil, e
	}
	status, err := strconv.Atoi(got.Header.Get(headStatus))
	if err != nil || status < 200 || status > 599 {
		return nil, op.Fail(op.Internal, "the reply over NATS has no status")
	}
	return &http.Response{StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, Body: io.NopCloser(bytes.NewReader(got.Data)), ContentLength: int64(len(got.Data)), Request: r}, nil
}

// worded tells what is known of a request that got no reply.
func worded(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return op.Fail(op.NotReady, "no machine serves this root now; nothing was done").Do("is its daemon running with --nats, and connected? holdpoint status there tells").Because(err)
	case errors.Is(err, nats.ErrMaxPayload):
		return op.Fail(op.TooLarge, "the request is larger than one NATS message may be; nothing was done").Do("send less at once, or ask on the machine").Because(err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		return op.Fail(op.NotReady, "NATS cannot be reached; nothing was sent").Because(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return op.Fail(op.NotReady, "no reply came over NATS; whether it ran is not known").Do("send it again with the same request id to learn of it").Because(err)
	}
	return err
}

// Signed is an answer as it travels: the words, the card they are about, and the proof,
// which the machine alone can check.
type Signed struct {
	Answer      string          `json:"answer"`
	Remember    bool            `json:"remember,omitempty"`
	Note        string          `json:"note,omitempty"`
	ShownDigest string          `json:"shown_digest"`
	Proof       json.RawMessage `json:"proof"`
}

// SendAnswer carries an answer to the machine of a root and gives what it says of the card.
func SendAnswer(ctx context.Context, c *nats.Conn, root string, id op.ID, a Signed, wait time.Duration) (json.RawMessage, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/approvals/"+string(id)+"/answer", bytes.NewReader(body))
	if err != nil {
		return nil, op.Fail(op.NotFound, "no such approval")
	}
	got, err := Transport{Conn: c, Root: root, Channel: Answer, Wait: wait}.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode < 400 {
		return b, err
	}
	var why struct {
		Error *op.Error `json:"error"`
	}
	if json.Unmarshal(b, &why) != nil || why.Error == nil {
		return nil, op.Fail(op.Internal, "the machine refused and did not say why")
	}
	return b, why.Error
}
