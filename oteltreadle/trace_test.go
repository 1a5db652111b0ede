package oteltreadle_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/store"
)

func TestInterruptsAreNotFailures(t *testing.T) {
	r, tel := newRecorder(t)
	ctx := tel.Context(t.Context())
	g := oneNode(func(ctx context.Context, _ count) (count, error) {
		n, err := treadle.Interrupt[int](ctx, "how many?")
		return count{n}, err
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if _, err := g.Thread("1").Run(ctx, count{}); err == nil {
		t.Fatal("run was not interrupted")
	}
	if _, err := g.Thread("1").Resume(ctx, 3); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"invoke_workflow counter", "node count"} {
		spans := r.named(name)
		if len(spans) != 2 {
			t.Fatalf("got %d spans %q", len(spans), name)
		}
		if s := spans[0]; attr(s, "treadle.outcome") != "interrupted" || s.Status.Code != codes.Unset {
			t.Errorf("interrupted %s: %v %v", name, attr(s, "treadle.outcome"), s.Status)
		}
		if s := spans[1]; attr(s, "treadle.outcome") != "" || s.Status.Code != codes.Unset {
			t.Errorf("resumed %s: %v %v", name, attr(s, "treadle.outcome"), s.Status)
		}
	}
}

func TestErrorTypes(t *testing.T) {
	r, tel := newRecorder(t)
	for want, cause := range map[string]error{
		"_OTHER": errors.New("no luck"), "rate_limit": &llm.Error{Provider: "p", Status: 429, Code: "rate_limit"}, "503": &llm.Error{Status: 503},
		"connection": &llm.Error{}, "timeout": context.DeadlineExceeded, "canceled": context.Canceled, "*store.InvalidError": &store.InvalidError{What: "x"},
	} {
		g := oneNode(func(context.Context, count) (count, error) { return count{}, cause }, nil)
		if _, err := g.Run(tel.Context(t.Context()), count{}); err == nil {
			t.Fatalf("%v: run did not fail", cause)
		}
		spans := r.named("node count")
		s := spans[len(spans)-1]
		if got := attr(s, "error.type"); got != want || s.Status.Code != codes.Error || !strings.Contains(s.Status.Description, cause.Error()) {
			t.Errorf("%v: type %q, status %v, want %q", cause, got, s.Status, want)
		}
	}
}

func TestNodePanicEndsSpans(t *testing.T) {
	r, tel := newRecorder(t)
	g := oneNode(func(context.Context, count) (count, error) { panic("oh") }, nil)
	if _, err := g.Run(tel.Context(t.Context()), count{}); err == nil {
		t.Fatal("run did not fail")
	}
	for _, name := range []string{"invoke_workflow counter", "node count"} {
		if s := r.only(name); s.Status.Code != codes.Error || !strings.Contains(s.Status.Description, "oh") {
			t.Errorf("%s: %v", name, s.Status)
		}
	}
}

func TestModelAndToolRetries(t *testing.T) {
	r, tel := newRecorder(t)
	soon := &treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true, On: func(error) bool { return true }}
	var calls atomic.Int32
	tool := llm.NewTool("weather", "Tell the weather.", func(context.Context, city) (string, error) {
		if calls.Add(1) == 1 {
			return "", errors.New("no station")
		}
		return "rain", nil
	})
	model := llmtest.NewScript(llmtest.Fail(&llm.Error{Provider: "p", Status: 503}), llmtest.Ask(llmtest.ToolCall("weather", city{"Oslo"})), llmtest.Say("Rain."))
	g := treadle.Must(agent.New(model, &agent.Options{Tools: []*llm.Tool{tool},
		Middleware: []*agent.Middleware{agent.RetryModel(soon), agent.RetryTools(soon)}}))
	if _, err := g.Run(tel.Context(t.Context()), agent.Ask("weather?")); err != nil {
		t.Fatal(err)
	}
	want := `invoke_workflow agent
  node model
    chat script
      * treadle.attempt_failed 503
      retry script treadle.attempt=2
  node tools
    * treadle.attempt_failed _OTHER
    execute_tool weather error.type=_OTHER
      ! tool weather: no station
    retry weather treadle.attempt=2
      execute_tool weather
  node model
    chat script
`
	if got := r.tree("treadle.attempt", "error.type"); got != want {
		t.Errorf("trace:\n%s\nwant:\n%s", got, want)
	}
}

type city struct {
	City string `json:"city"`
}

// flat embeds all texts as the same vector.
type flat struct{}

func (flat) Embed(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i := range out {
		out[i] = []float32{1, 0}
	}
	return out, nil
}
func (flat) Model() string  { return "flat" }
func (flat) Dimension() int { return 2 }

func TestStoreAndMemorySpans(t *testing.T) {
	r, tel := newRecorder(t)
	items, err := store.NewMemory(&store.Options{Embedder: flat{}})
	if err != nil {
		t.Fatal(err)
	}
	recaller, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{"facts"}, Store: items})
	if err != nil {
		t.Fatal(err)
	}
	g := oneNode(func(ctx context.Context, c count) (count, error) {
		if err := treadle.StoreFrom(ctx).Put(ctx, store.Namespace{"facts"}, "1", map[string]any{"kind": "text", "content": "Ana likes tea"}, nil); err != nil {
			return c, err
		}
		_, err := recaller.Recall(ctx, llm.User("what does Ana like?"))
		return c, err
	}, &treadle.Options{Store: items})
	ctx := tel.Context(t.Context())
	if _, err := g.Run(ctx, count{}); err != nil {
		t.Fatal(err)
	}
	if _, err := items.Get(ctx, store.Namespace{"facts"}, "1", nil); err != nil {
		t.Fatal(err)
	}
	node, recall := r.only("node count"), r.only("memory recall")
	put, batch, embeddings := r.named("store put")[0], r.only("store batch"), r.named("embeddings flat")
	for _, s := range []struct{ child, parent tracetest.SpanStub }{
		{put, node}, {embeddings[0], put}, {recall, node}, {batch, recall}, {embeddings[1], batch},
	} {
		if !childOf(s.child, s.parent) {
			t.Errorf("%s is not a child of %s:\n%s", s.child.Name, s.parent.Name, r.tree())
		}
	}
	if s := embeddings[0]; attr(s, "gen_ai.operation.name") != "embeddings" || attr(s, "gen_ai.embeddings.dimension.count") != "2" || attr(s, "treadle.embeddings.texts") != "1" {
		t.Errorf("attributes of the embeddings: %v", s.Attributes)
	}
	gets := r.named("store get") // the last is the test's own; the others read uses and ratings
	if get := gets[len(gets)-1]; get.Parent.IsValid() || attr(get, "treadle.store.items") != "1" {
		t.Errorf("store get outside of a run: %+v", get)
	}
}

func TestTaskAndCachedNodeSpans(t *testing.T) {
	r, tel := newRecorder(t)
	g := oneNode(func(ctx context.Context, c count) (count, error) {
		n, err := treadle.Do(ctx, "double", func(context.Context) (int, error) { return 2 * c.N, nil })
		return count{n}, err
	}, nil, treadle.Cache(0))
	for range 2 {
		if out, err := g.Run(tel.Context(t.Context()), count{2}); err != nil || out.N != 4 {
			t.Fatal(out, err)
		}
	}
	nodes, task := r.named("node count"), r.only("task double")
	if !childOf(task, nodes[0]) {
		t.Error("task is not a child of its node")
	}
	if attr(nodes[0], "treadle.cached") != "" || attr(nodes[1], "treadle.cached") != "true" {
		t.Errorf("cached: %q, then %q", attr(nodes[0], "treadle.cached"), attr(nodes[1], "treadle.cached"))
	}
}

// A run does not wait for an unresponsive exporter: it ends while the first export is
// still blocked.
func TestBlockedExporterDoesNotDelayRuns(t *testing.T) {
	exporting, release := make(chan struct{}), make(chan struct{})
	blocked := &blockingExporter{exporting: exporting, release: release}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithBatcher(blocked, sdktrace.WithMaxExportBatchSize(1), sdktrace.WithMaxQueueSize(2)))
	tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: tracers})
	if err != nil {
		t.Fatal(err)
	}
	g := oneNode(func(_ context.Context, c count) (count, error) { return c, nil }, nil)
	for i := range 100 { // many more spans than the queue holds
		if _, err := g.Run(tel.Context(t.Context()), count{}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			<-exporting
		}
	}
	close(release)
	if err := tracers.Shutdown(t.Context()); err == nil {
		t.Error("Shutdown does not report the exporter's failure")
	}
}

type blockingExporter struct {
	exporting, release chan struct{}
	began              atomic.Bool
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *blockingExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	if !e.began.Swap(true) {
		close(e.exporting)
	}
	<-e.release
	return errors.New("collector is down")
}

// Shutdown implements [sdktrace.SpanExporter].
func (*blockingExporter) Shutdown(context.Context) error { return errors.New("collector is down") }

// panics is a span processor that panics.
type panics struct{ start, end bool }

// OnStart implements [sdktrace.SpanProcessor].
func (p panics) OnStart(context.Context, sdktrace.ReadWriteSpan) {
	if p.start {
		panic("at the start")
	}
}

// OnEnd implements [sdktrace.SpanProcessor].
func (p panics) OnEnd(sdktrace.ReadOnlySpan) {
	if p.end {
		panic("at the end")
	}
}

// Shutdown implements [sdktrace.SpanProcessor].
func (panics) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdktrace.SpanProcessor].
func (panics) ForceFlush(context.Context) error { return nil }

func TestProcessorPanicDoesNotEndRun(t *testing.T) {
	var reported atomic.Int32
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if strings.Contains(err.Error(), "oteltreadle: ") {
			reported.Add(1)
		}
		panic("error handler")
	}))
	t.Cleanup(func() { otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) })
	for name, p := range map[string]panics{"start": {start: true}, "end": {end: true}} {
		tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))})
		if err != nil {
			t.Fatal(err)
		}
		reported.Store(0)
		model := llmtest.NewScript(llmtest.Say("hello"))
		out, err := treadle.Must(agent.New(model, nil)).Run(tel.Context(t.Context()), agent.Ask("hi"))
		if err != nil || agent.Answer(out) != "hello" {
			t.Errorf("panic at the %s: %q, %v", name, agent.Answer(out), err)
		}
		if reported.Load() != 3 { // run, node, chat
			t.Errorf("panic at the %s was reported %d times", name, reported.Load())
		}
	}
}

// A run is a child of the span that the program started.
func TestRunIsChildOfCallersSpan(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	tel, err := oteltreadle.New(&oteltreadle.Options{TracerProvider: tracers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, outer := tracers.Tracer("mine").Start(t.Context(), "request")
	g := oneNode(func(ctx context.Context, c count) (count, error) {
		if !trace.SpanFromContext(ctx).IsRecording() { // for spans and logs of the node
			return c, errors.New("no span in the node's context")
		}
		return c, nil
	}, nil)
	if _, err := g.Run(tel.Context(ctx), count{}); err != nil {
		t.Fatal(err)
	}
	outer.End()
	for _, s := range spans.GetSpans() {
		if s.SpanContext.TraceID() != outer.SpanContext().TraceID() {
			t.Errorf("%s is in another trace", s.Name)
		}
	}
	if n := len(spans.GetSpans()); n != 3 {
		t.Errorf("got %d spans", n)
	}
}
