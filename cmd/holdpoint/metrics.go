package main

import (
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdpoint/internal/flow"
	"holdpoint/internal/journal"
	"holdpoint/op"
)

// metrics writes what the engine counted in the formats that Prometheus reads, with what
// the runtime and the kernel say of the process.
func (o *opened) metrics(w http.ResponseWriter, r *http.Request) {
	m, err := o.engine.Measures(r.Context())
	if err != nil {
		http.Error(w, op.AsError(err).Message, http.StatusServiceUnavailable)
		return
	}
	all := prometheus.NewRegistry()
	all.MustRegister(measured{m}, natsMeasured{o}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	w.Header().Set("Cache-Control", "no-store")
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// measured is one reading of the engine's counters. Label values are words of closed sets;
// whatever else should come in here is written as "other".
type measured struct{ flow.Measures }

func metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("holdpoint_"+name, help, labels, nil)
}

var (
	callsTotal     = metric("calls_total", "Calls by operation, status, and reason of the decision or error code.", "op", "status", "reason")
	decisionsTotal = metric("decisions_total", "Decisions by verdict and reason.", "verdict", "reason")
	answersTotal   = metric("answers_total", "Answers of people, by the state that they brought a card to.", "state")
	deniedTotal    = metric("denied_total", "Callers that were turned away without a valid token.")
	callSeconds    = metric("call_seconds", "How long calls took, without the wait for a person.")
	flushSeconds   = metric("journal_flush_seconds", "How long flushes of the journal took.")
	pending        = metric("pending_approvals", "Cards that wait for a person.")
	storeBytes     = metric("store_bytes", "Bytes kept so that changes can be taken back.")
	running        = metric("running_programs", "Programs that run.")
	served         = metric("roots", "Workspaces that are served.")
	watchOK        = metric("watch_ok", "1 while every waiting card is watched for drift.")
)

// Describe names every metric, of which some have no sample yet.
func (m measured) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{callsTotal, decisionsTotal, answersTotal, deniedTotal, callSeconds, flushSeconds, pending, storeBytes, running, served, watchOK} {
		out <- d
	}
}

// Collect gives the reading.
func (m measured) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	// What becomes "other" may come together: no series is given twice.
	calls, decisions := map[[3]string]uint64{}, map[[2]string]uint64{}
	for k, n := range m.Calls {
		calls[[3]string{labelWord(string(k.Op)), labelWord(string(k.Status)), labelWord(k.Reason)}] += n
	}
	for k, n := range m.Decisions {
		decisions[[2]string{labelWord(k.Verdict), labelWord(string(k.Reason))}] += n
	}
	for k, n := range calls {
		put(callsTotal, prometheus.CounterValue, float64(n), k[:]...)
	}
	for k, n := range decisions {
		put(decisionsTotal, prometheus.CounterValue, float64(n), k[:]...)
	}
	for state, n := range m.Answers {
		put(answersTotal, prometheus.CounterValue, float64(n), labelWord(state))
	}
	put(deniedTotal, prometheus.CounterValue, float64(m.Denied))
	out <- histogram(callSeconds, m.CallTimes)
	out <- histogram(flushSeconds, m.FlushTimes)
	watched := 0.0
	if m.Watched {
		watched = 1
	}
	for d, v := range map[*prometheus.Desc]float64{pending: float64(m.Pending), storeBytes: float64(m.StoreBytes), running: float64(m.Running), served: float64(m.Roots), watchOK: watched} {
		put(d, prometheus.GaugeValue, v)
	}
}

func histogram(d *prometheus.Desc, t journal.TimesRead) prometheus.Metric {
	upTo := map[float64]uint64{}
	for i, bound := range t.Bounds {
		upTo[bound] = uint64(t.UpTo[i])
	}
	return prometheus.MustNewConstHistogram(d, uint64(t.Count), t.SumSeconds, upTo)
}

// labelWord lets wire words through, which need no escape.
func labelWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" || len(s) > 64 {
		return "other"
	}
	return s
}
