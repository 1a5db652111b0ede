package oteltreadle_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/oteltreadle"
)

type count struct {
	N int `json:"n"`
}

// oneNode returns a graph with one node.
func oneNode(fn func(context.Context, count) (count, error), o *treadle.Options, opts ...treadle.NodeOption) *treadle.Graph[count, count] {
	b := treadle.New[count]("counter")
	treadle.AddNode(b, "count", fn, opts...)
	b.Edge(treadle.Start, "count")
	return treadle.Must(b.Compile(o))
}

// A recorder records spans in memory.
type recorder struct {
	t        *testing.T
	exporter *tracetest.InMemoryExporter
}

func newRecorder(t *testing.T) (*recorder, *oteltreadle.Telemetry) {
	t.Helper()
	r := &recorder{t, tracetest.NewInMemoryExporter()}
	tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.exporter))})
	if err != nil {
		t.Fatal(err)
	}
	return r, tel
}

// spans returns the ended spans in order of start time.
func (r *recorder) spans() tracetest.SpanStubs {
	all := r.exporter.GetSpans()
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	return all
}

// named returns the spans with a name, in order of start time.
func (r *recorder) named(name string) tracetest.SpanStubs {
	return slices.DeleteFunc(r.spans(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

// only returns the only span with a name.
func (r *recorder) only(name string) tracetest.SpanStub {
	r.t.Helper()
	found := r.named(name)
	if len(found) != 1 {
		r.t.Fatalf("got %d spans %q in\n%s", len(found), name, r.tree())
	}
	return found[0]
}

// attr returns an attribute as text, or "" if it is missing.
func attr(s tracetest.SpanStub, key string) string {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// childOf reports whether parent is the parent of s.
func childOf(s, parent tracetest.SpanStub) bool {
	return s.Parent.SpanID() == parent.SpanContext.SpanID()
}

// tree returns the spans as an indented list, with their errors, events, and the given
// attributes.
func (r *recorder) tree(keys ...string) string {
	var b strings.Builder
	all := r.spans()
	var write func(parent tracetest.SpanStub, indent string)
	write = func(parent tracetest.SpanStub, indent string) {
		for _, s := range all {
			if !childOf(s, parent) {
				continue
			}
			fmt.Fprint(&b, indent, s.Name)
			for _, key := range keys {
				if v := attr(s, key); v != "" {
					fmt.Fprintf(&b, " %s=%s", key, v)
				}
			}
			fmt.Fprintln(&b)
			if s.Status.Description != "" {
				fmt.Fprintf(&b, "%s  ! %s\n", indent, s.Status.Description)
			}
			for _, e := range s.Events {
				event := attr(tracetest.SpanStub{Attributes: e.Attributes}, "error.type")
				fmt.Fprintf(&b, "%s  * %s %s\n", indent, e.Name, event)
			}
			write(s, indent+"  ")
		}
	}
	write(tracetest.SpanStub{}, "")
	return b.String()
}
