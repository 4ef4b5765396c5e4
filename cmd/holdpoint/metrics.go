package main

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"holdpoint/internal/journal"
	"holdpoint/op"
)

// metrics writes what the engine counted in the text format that Prometheus reads. Label
// values are words of closed sets; whatever else should come in here is written as "other".
func (o *opened) metrics(w http.ResponseWriter, r *http.Request) {
	m, err := o.engine.Measures(r.Context())
	if err != nil {
		http.Error(w, op.AsError(err).Message, http.StatusServiceUnavailable)
		return
	}
	var b exposition
	b.family("holdpoint_calls_total", "counter", "Calls by operation, status, and reason of the decision or error code.")
	for k, n := range m.Calls {
		b.sample("holdpoint_calls_total", float64(n), "op", string(k.Op), "status", string(k.Status), "reason", k.Reason)
	}
	b.family("holdpoint_decisions_total", "counter", "Decisions by verdict and reason.")
	for k, n := range m.Decisions {
		b.sample("holdpoint_decisions_total", float64(n), "verdict", k.Verdict, "reason", string(k.Reason))
	}
	b.family("holdpoint_answers_total", "counter", "Answers of people, by the state that they brought a card to.")
	for _, k := range slices.Sorted(maps.Keys(m.Answers)) {
		b.sample("holdpoint_answers_total", float64(m.Answers[k]), "state", k)
	}
	b.family("holdpoint_denied_total", "counter", "Callers that were turned away without a valid token.")
	b.sample("holdpoint_denied_total", float64(m.Denied))
	b.histogram("holdpoint_call_seconds", "How long calls took, without the wait for a person.", m.CallTimes)
	b.histogram("holdpoint_journal_flush_seconds", "How long flushes of the journal took.", m.FlushTimes)
	b.gauge("holdpoint_pending_approvals", "Cards that wait for a person.", float64(m.Pending))
	b.gauge("holdpoint_store_bytes", "Bytes kept so that changes can be taken back.", float64(m.StoreBytes))
	b.gauge("holdpoint_running_programs", "Programs that run.", float64(m.Running))
	b.gauge("holdpoint_roots", "Workspaces that are served.", float64(m.Roots))
	b.gauge("holdpoint_goroutines", "Goroutines of the daemon: what stays when calls end is a leak.", float64(runtime.NumGoroutine()))
	watched := 0.0
	if m.Watched {
		watched = 1
	}
	b.gauge("holdpoint_watch_ok", "1 while every waiting card is watched for drift.", watched)
	o.natsMetrics(&b)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(b.Bytes())
}

// exposition is a text in that format.
type exposition struct{ bytes.Buffer }

func (b *exposition) family(name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (b *exposition) sample(name string, v float64, labels ...string) {
	b.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(labels[i] + `="` + labelWord(labels[i+1]) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	b.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

func (b *exposition) gauge(name, help string, v float64) {
	b.family(name, "gauge", help)
	b.sample(name, v)
}

func (b *exposition) counter(name, help string, v float64) {
	b.family(name, "counter", help)
	b.sample(name, v)
}

func (b *exposition) histogram(name, help string, t journal.TimesRead) {
	b.family(name, "histogram", help)
	for i, bound := range t.Bounds {
		b.sample(name+"_bucket", float64(t.UpTo[i]), "le", strconv.FormatFloat(bound, 'g', -1, 64))
	}
	b.sample(name+"_bucket", float64(t.Count), "le", "+Inf")
	b.sample(name+"_sum", t.SumSeconds)
	b.sample(name+"_count", float64(t.Count))
}

// labelWord lets wire words and bounds through, which need no escape.
func labelWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_.+-I") != "" || len(s) > 64 {
		return "other"
	}
	return s
}
