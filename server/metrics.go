package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/treadle-go/treadle/ledger"
)

// metrics are the metrics served at /metrics. They use a separate registry, because a program
// may have several servers and its own metrics.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	streams  prometheus.Gauge
	runs     *prometheus.CounterVec
	runTook  *prometheus.HistogramVec
	hooks    *prometheus.CounterVec
	limited  prometheus.Counter
}

// runBuckets are in seconds. Runs that call models take longer than other requests.
var runBuckets = []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300, 900, 3600}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "treadle_requests_total", Help: "Requests that were answered."}, []string{"method", "route", "status"}),
		took:     prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "treadle_request_seconds", Help: "How long requests took, streams until their end.", Buckets: runBuckets}, []string{"method", "route"}),
		streams:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "treadle_stream_clients", Help: "Clients that read a stream now."}),
		runs:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "treadle_runs_total", Help: "Runs that ended in this process."}, []string{"status"}),
		runTook:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "treadle_run_seconds", Help: "How long runs took from their start.", Buckets: runBuckets}, []string{"graph"}),
		hooks:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "treadle_webhooks_total", Help: "Attempts to deliver a webhook."}, []string{"result"}),
		limited:  prometheus.NewCounter(prometheus.CounterOpts{Name: "treadle_requests_limited_total", Help: "Requests that were refused because the caller sent too many."}),
	}
	slots := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "treadle_run_slots", Help: "Runs that this process executes at a time, at most."},
		func() float64 { return float64(s.runner.Slots()) })
	active := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "treadle_runs_active", Help: "Runs that this process executes now."},
		func() float64 { return float64(s.runner.Active()) })
	m.registry.MustRegister(m.requests, m.took, m.streams, m.runs, m.runTook, m.hooks, m.limited, active, slots, &openRuns{s: s}, &memoryUse{s},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, status := range []ledger.RunStatus{ledger.Success, ledger.Error, ledger.TimedOut, ledger.RunCanceled} {
		m.runs.WithLabelValues(string(status)) // shown from the start
	}
	for _, result := range []string{"delivered", "failed"} {
		m.hooks.WithLabelValues(result)
	}
	return m
}

// ended counts a run.
func (m *metrics) ended(run *ledger.Run, status ledger.RunStatus) {
	m.runs.WithLabelValues(string(status)).Inc()
	if !run.Started.IsZero() {
		m.runTook.WithLabelValues(run.Graph).Observe(time.Since(run.Started).Seconds())
	}
}

// openRuns counts the unfinished runs in the database. It queries the database at most every
// two seconds, however often /metrics is read.
type openRuns struct {
	s *Server

	mu    sync.Mutex
	at    time.Time
	queue *ledger.Queue
}

var openRunsDesc = prometheus.NewDesc("treadle_runs_open", "Runs in the database that have not ended.", []string{"status"}, nil)

var waitDesc = prometheus.NewDesc("treadle_queue_wait_seconds", "How long the first run has been due that a process could begin.", nil, nil)

// Describe implements [prometheus.Collector].
func (*openRuns) Describe(ch chan<- *prometheus.Desc) {
	ch <- openRunsDesc
	ch <- waitDesc
}

// Collect implements [prometheus.Collector].
func (o *openRuns) Collect(ch chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.at) > 2*time.Second {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		queue, err := o.s.ledger.Queue(ctx)
		if err != nil {
			o.s.log.Warn("failed to count runs", "error", err)
			return
		}
		o.at, o.queue = time.Now(), queue
	}
	ch <- prometheus.MustNewConstMetric(waitDesc, prometheus.GaugeValue, o.queue.Wait.Seconds())
	for status, n := range map[ledger.RunStatus]int{ledger.Pending: o.queue.Pending, ledger.Running: o.queue.Running} {
		ch <- prometheus.MustNewConstMetric(openRunsDesc, prometheus.GaugeValue, float64(n), string(status))
	}
}

// memoryUse reports the size of the server's caches.
type memoryUse struct{ s *Server }

var (
	memoryDesc      = prometheus.NewDesc("treadle_memory_bytes", "Estimated memory kept to answer faster, by kind.", []string{"kind"}, nil)
	memoryLimitDesc = prometheus.NewDesc("treadle_memory_limit_bytes", "Limit of treadle_memory_bytes over all kinds.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (*memoryUse) Describe(ch chan<- *prometheus.Desc) {
	ch <- memoryDesc
	ch <- memoryLimitDesc
}

// Collect implements [prometheus.Collector].
func (m *memoryUse) Collect(ch chan<- prometheus.Metric) {
	for kind, n := range m.s.memory.ByKind() {
		ch <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(n), kind)
	}
	ch <- prometheus.MustNewConstMetric(memoryLimitDesc, prometheus.GaugeValue, float64(m.s.memory.Limit()))
}

// watched is a response that is counted. The connection of a client that stops reading is
// closed.
type watched struct {
	http.ResponseWriter
	m        *metrics
	began    time.Time
	status   int
	size     int64
	stream   bool
	http2    bool
	patience time.Duration // write timeout for a client that does not read
}

func (m *metrics) watch(w http.ResponseWriter, r *http.Request, patience time.Duration) *watched {
	return &watched{ResponseWriter: w, m: m, began: time.Now(), http2: r.ProtoMajor > 1, patience: patience}
}

// WriteHeader implements [http.ResponseWriter].
func (w *watched) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *watched) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	done := 0
	for {
		w.deadline()
		n, err := w.ResponseWriter.Write(p[done:min(len(p), done+pieceSize)])
		done += n
		w.size += int64(n)
		if err != nil || done == len(p) {
			w.noDeadline()
			return done, err
		}
	}
}

// FlushError implements the method that http.ResponseController calls to flush.
func (w *watched) FlushError() error {
	w.deadline()
	defer w.noDeadline()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// pieceSize is the number of bytes of a response that a client must read within clientTime. A
// larger response may take longer in total.
const pieceSize = 256 << 10

// deadline sets the time by which the client must have read the next write. It also applies to
// the rest of the response, which net/http sends after the handler has returned.
func (w *watched) deadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.patience)) // not all writers support it
}

// noDeadline removes the deadline after a write. HTTP/2 ends a stream whose deadline has passed
// even if nothing is being written.
func (w *watched) noDeadline() {
	if w.http2 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}

// Unwrap gives http.ResponseController access to the underlying writer.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *watched) begin(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	if status == http.StatusSwitchingProtocols || strings.HasPrefix(w.Header().Get("Content-Type"), eventStream) {
		w.stream = true
		w.m.streams.Inc()
	}
}

// done counts the response. Unknown paths are counted as "other" to limit the number of labels.
func (w *watched) done(r *http.Request, rt *route) {
	if w.stream {
		w.m.streams.Dec()
	}
	method, path := "other", "other"
	if rt != nil {
		method, path = rt.method, rt.path
	} else if r.Method == http.MethodOptions {
		method = r.Method
	}
	w.m.requests.WithLabelValues(method, path, strconv.Itoa(max(w.status, http.StatusOK))).Inc()
	w.m.took.WithLabelValues(method, path).Observe(time.Since(w.began).Seconds())
}

func (s systemAPI) showMetrics(c *call) error {
	format := c.query().Get("format")
	if format != "" && format != "prometheus" && format != "json" {
		return invalid("format", "want prometheus or json, not %q", format)
	}
	families, err := s.metrics.registry.Gather()
	if err != nil {
		return err
	}
	if format == "json" {
		return c.json(http.StatusOK, metricsJSON(families))
	}
	kind := expfmt.NewFormat(expfmt.TypeTextPlain)
	c.w.Header().Set("Content-Type", string(kind))
	e := expfmt.NewEncoder(c.w, kind)
	for _, f := range families {
		if err := e.Encode(f); err != nil {
			return ignored(err)
		}
	}
	return nil
}

// metricJSON is one value of a metric.
type metricJSON struct {
	Labels map[string]string `json:"labels,omitempty"`
	Value  *number64         `json:"value,omitempty"`
	Count  uint64            `json:"count,omitempty"`
	Sum    *number64         `json:"sum,omitempty"`
}

// number64 is a number that is encoded as a string if JSON cannot represent it.
type number64 float64

// MarshalJSON implements [json.Marshaler].
func (n number64) MarshalJSON() ([]byte, error) {
	if raw, err := json.Marshal(float64(n)); err == nil {
		return raw, nil
	}
	return json.Marshal(fmt.Sprint(float64(n)))
}

func metricsJSON(families []*dto.MetricFamily) map[string]any {
	out := map[string]any{}
	for _, f := range families {
		var list []metricJSON
		for _, m := range f.GetMetric() {
			j := metricJSON{Labels: map[string]string{}}
			for _, l := range m.GetLabel() {
				j.Labels[l.GetName()] = l.GetValue()
			}
			var v number64
			switch {
			case m.Counter != nil:
				v = number64(m.Counter.GetValue())
			case m.Gauge != nil:
				v = number64(m.Gauge.GetValue())
			case m.Histogram != nil:
				sum := number64(m.Histogram.GetSampleSum())
				j.Count, j.Sum = m.Histogram.GetSampleCount(), &sum
			case m.Summary != nil:
				sum := number64(m.Summary.GetSampleSum())
				j.Count, j.Sum = m.Summary.GetSampleCount(), &sum
			}
			if j.Sum == nil {
				j.Value = &v
			}
			list = append(list, j)
		}
		out[f.GetName()] = map[string]any{"type": strings.ToLower(f.GetType().String()), "help": f.GetHelp(), "values": list}
	}
	return out
}
