package nats

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"holdpoint/op"
)

// The version of these messages. A change that an older side would misread raises the
// major number, and is refused by whoever does not know it. Fields that join raise the
// minor one: both sides pass over what they do not know in a card, a presence or a reply,
// and nowhere else.
const (
	Major = 1
	Minor = 0
)

// Names of what lies on the servers.
const (
	Cards    = "holdpoint-cards"    // bucket: ROOT.APPROVAL
	Presence = "holdpoint-presence" // bucket: ROOT
	Audit    = "holdpoint-audit"    // stream over AuditSubject
)

// Channels of a root's subjects. An agent's user may publish on the first alone, a hub's on
// the second.
const (
	Call   = "call"   // an agent's requests, each with its token
	Answer = "answer" // a reviewer's answers, each signed
)

// Subject is where a root is asked.
func Subject(root, channel string) string { return "holdpoint." + root + "." + channel }

// AuditSubject is where a daemon's audit lines go.
func AuditSubject(daemon string) string { return "holdpoint.audit." + daemon }

// Headers of messages. A request is one of HTTP, with its method and path beside it.
const (
	headVersion = "Holdpoint-Version"
	headMethod  = "Holdpoint-Method"
	headPath    = "Holdpoint-Path"
	headStatus  = "Holdpoint-Status"
	headSeq     = "Holdpoint-Seq" // of an audit line
	headAuth    = "Authorization"
)

// inboxes is how subjects begin that replies are sent to. A reply goes nowhere else, so
// that nobody can have a daemon publish with its own permissions.
const inboxes = "_INBOX."

func version() string { return fmt.Sprintf("%d.%d", Major, Minor) }

// spoken refuses a message of a version whose meaning is not known here.
func spoken(v string) *op.Error {
	if v == "" {
		return op.Fail(op.BadRequest, "the message names no version").In(headVersion).Do("send " + headVersion + ": " + version())
	}
	major, _, _ := strings.Cut(v, ".")
	if n, err := strconv.Atoi(major); err != nil || n != Major {
		return op.Fail(op.NotAvailable, fmt.Sprintf("version %s of the messages is not spoken here, only %d", op.Visible(short(v), false), Major)).
			In(headVersion).Do("bring both sides to versions of Holdpoint that are at most one apart")
	}
	return nil
}

func short(s string) string { return s[:min(len(s), 32)] }

func header(pairs ...string) nats.Header {
	h := nats.Header{headVersion: {version()}}
	for i := 0; i+1 < len(pairs); i += 2 {
		h[pairs[i]] = []string{pairs[i+1]}
	}
	return h
}

// rootKey reports whether s can be a root's key: a subject is made of nothing else.
func rootKey(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}
