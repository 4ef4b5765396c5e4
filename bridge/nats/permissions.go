package nats

import "strings"

// Allow is what the servers let one user do. It is a wall before the daemon's own checks,
// which hold without it.
type Allow struct {
	Publish   []string `json:"publish"`
	Subscribe []string `json:"subscribe"`
	Respond   bool     `json:"respond"` // one reply to each request that came in
}

// DaemonMay gives what a daemon needs: its own roots, its own lines, nothing of others.
func DaemonMay(daemon string, roots ...string) Allow {
	a := Allow{Respond: true, Subscribe: []string{inboxes + daemon + ".>"}, Publish: []string{
		AuditSubject(daemon),
		"$JS.API.STREAM.INFO.KV_" + Cards, "$JS.API.STREAM.INFO.KV_" + Presence, "$JS.API.STREAM.INFO." + Audit,
		"$JS.API.DIRECT.GET." + Audit + "." + AuditSubject(daemon),
	}}
	for _, root := range roots {
		a.Subscribe = append(a.Subscribe, Subject(root, Call), Subject(root, Answer))
		for _, key := range []string{Cards + "." + root + ".*", Presence + "." + root} {
			bucket, _, _ := strings.Cut(key, ".")
			a.Publish = append(a.Publish, "$KV."+key, "$JS.API.DIRECT.GET.KV_"+bucket+".$KV."+key)
		}
	}
	return a
}

// AgentMay gives what an agent needs: to ask its root, and to hear its own replies.
func AgentMay(inbox, root string) Allow {
	return Allow{Publish: []string{Subject(root, Call)}, Subscribe: []string{inboxes + inbox + ".>"}}
}

// HubMay gives what a hub needs: to read what is mirrored, and to carry answers.
func HubMay() Allow {
	a := Allow{Subscribe: []string{inboxes + HubInbox + ".>"}, Publish: []string{Subject("*", Answer), "$JS.FC.>", "$JS.API.INFO", "$JS.API.STREAM.INFO." + Audit, "$JS.API.STREAM.CREATE." + Audit}}
	for _, bucket := range []string{Cards, Presence} {
		for _, verb := range []string{"STREAM.INFO.KV_" + bucket, "STREAM.CREATE.KV_" + bucket, "CONSUMER.CREATE.KV_" + bucket + ".>", "CONSUMER.DELETE.KV_" + bucket + ".*", "CONSUMER.INFO.KV_" + bucket + ".*"} {
			a.Publish = append(a.Publish, "$JS.API."+verb)
		}
	}
	return a
}

// HubInbox is where replies to a hub come, below _INBOX.
const HubInbox = "hub"
