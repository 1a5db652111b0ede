package oteltest

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/treadle-go/treadle/oteltreadle"
)

// receiver is a collector that decodes OTLP requests.
type receiver struct {
	t  *testing.T
	hs *httptest.Server

	mu      sync.Mutex
	spans   []*tracepb.Span
	metrics map[string]*metrics.Metric
	raw     strings.Builder // all request bodies
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, metrics: map[string]*metrics.Metric{}}
	r.hs = httptest.NewServer(r)
	t.Cleanup(r.hs.Close)
	return r
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	raw, err := io.ReadAll(body)
	if err == nil {
		err = r.take(req.URL.Path, raw)
	}
	if err != nil {
		r.t.Errorf("%s: %v", req.URL.Path, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

func (r *receiver) take(path string, raw []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(raw)
	switch path {
	case "/v1/traces":
		var in coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			return err
		}
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				r.spans = append(r.spans, ss.Spans...)
			}
		}
		return nil
	case "/v1/metrics":
		var in colmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(raw, &in); err != nil {
			return err
		}
		for _, rm := range in.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					r.metrics[m.Name] = m
				}
			}
		}
		return nil
	}
	return fmt.Errorf("unknown path")
}

// tel returns a telemetry that exports to the receiver, and a function that waits until
// all spans and metrics have arrived.
func (r *receiver) tel(o oteltreadle.Options) (tel *oteltreadle.Telemetry, flush func()) {
	r.t.Helper()
	ctx := r.t.Context()
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(r.hs.URL+"/v1/traces"))
	if err != nil {
		r.t.Fatal(err)
	}
	counts, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(r.hs.URL+"/v1/metrics"))
	if err != nil {
		r.t.Fatal(err)
	}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(counts)))
	r.t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		if err := tracers.Shutdown(ctx); err != nil {
			r.t.Error(err)
		}
		if err := meters.Shutdown(ctx); err != nil {
			r.t.Error(err)
		}
	})
	o.TracerProvider, o.MeterProvider = tracers, meters
	tel, err = oteltreadle.New(&o)
	if err != nil {
		r.t.Fatal(err)
	}
	return tel, func() {
		r.t.Helper()
		if err := tracers.ForceFlush(ctx); err != nil {
			r.t.Fatal(err)
		}
		if err := meters.ForceFlush(ctx); err != nil {
			r.t.Fatal(err)
		}
	}
}

// named returns the spans with a name, in order of start time.
func (r *receiver) named(name string) []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*tracepb.Span
	for _, s := range r.spans {
		if s.Name == name {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *tracepb.Span) int { return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano) })
	return out
}

// only returns the only span with a name.
func (r *receiver) only(name string) *tracepb.Span {
	r.t.Helper()
	found := r.named(name)
	if len(found) != 1 {
		r.t.Fatalf("got %d spans %q in\n%s", len(found), name, r.tree(nil))
	}
	return found[0]
}

// attr returns an attribute as text, or "" if it is missing.
func attr(s *tracepb.Span, key string) string { return attrOf(s.Attributes, key) }

func attrOf(attrs []*common.KeyValue, key string) string {
	for _, a := range attrs {
		if a.Key == key {
			return textOf(a.Value)
		}
	}
	return ""
}

func textOf(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, one := range v.ArrayValue.Values {
			all = append(all, textOf(one))
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return fmt.Sprintf("%T", v.Value)
}

// tree returns the spans as an indented list: siblings in order of start time, and
// concurrent tool calls in order of call ID. It omits the attributes for which leave
// returns true.
func (r *receiver) tree(leave func(key string) bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	children := map[string][]*tracepb.Span{}
	known := map[string]bool{}
	for _, s := range r.spans {
		known[hex.EncodeToString(s.SpanId)] = true
	}
	for _, s := range r.spans {
		up := hex.EncodeToString(s.ParentSpanId)
		if !known[up] {
			up = ""
		}
		children[up] = append(children[up], s)
	}
	var b strings.Builder
	var write func(up string, depth int)
	write = func(up string, depth int) {
		slices.SortStableFunc(children[up], func(a, b *tracepb.Span) int {
			if x, y := attr(a, "gen_ai.tool.call.id"), attr(b, "gen_ai.tool.call.id"); x != "" && y != "" {
				return strings.Compare(x, y)
			}
			return cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano)
		})
		for _, s := range children[up] {
			writeSpan(&b, s, strings.Repeat("  ", depth), leave)
			write(hex.EncodeToString(s.SpanId), depth+1)
		}
	}
	write("", 0)
	return b.String()
}

func writeSpan(b *strings.Builder, s *tracepb.Span, indent string, leave func(key string) bool) {
	fmt.Fprintf(b, "%s%s%s\n", indent, s.Name, attrsText(s.Attributes, leave))
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		fmt.Fprintf(b, "%s  ! %s\n", indent, s.Status.Message)
	}
	for _, e := range s.Events {
		fmt.Fprintf(b, "%s  * %s%s\n", indent, e.Name, attrsText(e.Attributes, leave))
	}
}

func attrsText(attrs []*common.KeyValue, leave func(key string) bool) string {
	var all []string
	for _, a := range attrs {
		if leave == nil || !leave(a.Key) {
			all = append(all, a.Key+"="+textOf(a.Value))
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return "  " + strings.Join(all, " ")
}
