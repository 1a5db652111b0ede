package oteltreadle

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
)

// metrics holds the instruments.
type metrics struct {
	operation metric.Float64Histogram // model calls
	chunk     metric.Float64Histogram
	tokens    metric.Int64Histogram
	cost      metric.Float64Counter
	unpriced  metric.Int64Counter

	run, node, tool, store, memory, queue metric.Float64Histogram
	active                                metric.Int64UpDownCounter
	retries                               metric.Int64Counter
}

// Histogram buckets. The conventions define secondBuckets and tokenBuckets.
var (
	secondBuckets = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	tokenBuckets  = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	runBuckets    = []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300, 900, 3600}
)

func newMetrics(m metric.Meter) (*metrics, error) {
	var errs error
	seconds := func(name, text string, buckets []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(buckets...))
		errs = errors.Join(errs, err)
		return h
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = errors.Join(errs, err)
		return c
	}
	out := &metrics{
		operation: seconds("gen_ai.client.operation.duration", "Duration of model calls.", secondBuckets),
		chunk:     seconds("gen_ai.client.operation.time_to_first_chunk", "Time until the first chunk of a response.", secondBuckets),
		unpriced:  counter("treadle.usage.cost.unknown", "{call}", "Model calls whose cost is unknown."),
		run:       seconds("treadle.run.duration", "Duration of runs.", runBuckets),
		node:      seconds("treadle.node.duration", "Duration of nodes, including retries.", runBuckets),
		tool:      seconds("treadle.tool.duration", "Duration of tool calls.", runBuckets),
		store:     seconds("treadle.store.duration", "Duration of store operations.", runBuckets),
		memory:    seconds("treadle.memory.duration", "Duration of memory operations.", runBuckets),
		queue:     seconds("treadle.run.queue.duration", "Delay between the due time and the start of a server's runs.", runBuckets),
		retries:   counter("treadle.retries", "{attempt}", "Retries of nodes, model calls, and tool calls."),
	}
	var err [3]error
	out.tokens, err[0] = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens used by model calls."), metric.WithExplicitBucketBoundaries(tokenBuckets...))
	out.cost, err[1] = m.Float64Counter("treadle.usage.cost", metric.WithUnit("{USD}"), metric.WithDescription("Cost of model calls."))
	out.active, err[2] = m.Int64UpDownCounter("treadle.run.active", metric.WithUnit("{run}"), metric.WithDescription("Active runs."))
	return out, errors.Join(errs, errors.Join(err[:]...))
}

// began counts a run that is not part of another run.
func (m *metrics) began(ctx context.Context, op *observe.Op) {
	graph := metric.WithAttributes(keyGraph.String(op.Name))
	m.active.Add(ctx, 1, graph)
	if served, ok := observe.ServedOf(ctx); ok {
		m.queue.Record(ctx, served.Waited.Seconds(), graph)
	}
}

func (m *metrics) firstChunk(s *span, took float64) {
	m.chunk.Record(s.ctx, took, metric.WithAttributes(s.identity()...))
}

// ended measures an operation. Metric attributes have low cardinality: no IDs and no texts.
func (m *metrics) ended(s *span, took time.Duration, outcome, failure string, output any) {
	ctx, op, d := s.ctx, s.op, took.Seconds()
	with := func(attrs ...attribute.KeyValue) metric.MeasurementOption {
		if failure != "" {
			attrs = append(attrs, semconv.ErrorTypeKey.String(failure))
		}
		return metric.WithAttributes(attrs...)
	}
	switch op.Kind {
	case observe.Run:
		m.run.Record(ctx, d, with(keyGraph.String(op.Name), keyOutcome.String(outcome)))
		if !op.Place.Nested {
			m.active.Add(ctx, -1, metric.WithAttributes(keyGraph.String(op.Name)))
		}
	case observe.Node:
		m.node.Record(ctx, d, with(keyGraph.String(op.Place.Graph), keyNode.String(op.Name), keyOutcome.String(outcome)))
	case observe.Retry:
		m.retries.Add(ctx, 1, metric.WithAttributes(keyOutcome.String(outcome)))
	case observe.Tool:
		m.tool.Record(ctx, d, with(semconv.GenAIToolName(op.Name), keyOutcome.String(outcome)))
	case observe.Store:
		m.store.Record(ctx, d, with(keyStore.String(op.Name)))
	case observe.Memory:
		m.memory.Record(ctx, d, with(keyMemory.String(op.Name)))
	case observe.Embed:
		m.operation.Record(ctx, d, with(semconv.GenAIOperationNameEmbeddings, semconv.GenAIRequestModel(op.Name)))
	case observe.Model:
		m.operation.Record(ctx, d, with(s.identity()...))
		if answer, ok := output.(llm.Message); ok {
			m.used(s, answer)
		}
	}
}

// used measures the tokens and cost of a response.
func (m *metrics) used(s *span, answer llm.Message) {
	identity := s.identity()
	if u := answer.Usage; u != nil {
		for _, n := range []struct {
			kind   attribute.KeyValue
			tokens int
		}{{semconv.GenAITokenTypeInput, u.Input}, {semconv.GenAITokenTypeOutput, u.Output}} {
			m.tokens.Record(s.ctx, int64(n.tokens), metric.WithAttributes(append(slices.Clip(identity), n.kind)...))
		}
	}
	if s.t.prices == nil {
		return
	}
	if cost, ok := s.cost(answer); ok {
		m.cost.Add(s.ctx, cost, metric.WithAttributes(identity...))
	} else {
		m.unpriced.Add(s.ctx, 1, metric.WithAttributes(identity...))
	}
}
