package oteltreadle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// Attributes that the conventions do not define.
const (
	keyGraph      = attribute.Key("treadle.graph")
	keyNode       = attribute.Key("treadle.node")
	keyTask       = attribute.Key("treadle.task")
	keyTaskID     = attribute.Key("treadle.task.id")
	keyStep       = attribute.Key("treadle.step")
	keyNamespace  = attribute.Key("treadle.namespace")
	keyCached     = attribute.Key("treadle.cached")
	keyAttempt    = attribute.Key("treadle.attempt")
	keyOutcome    = attribute.Key("treadle.outcome")
	keyRun        = attribute.Key("treadle.run.id")
	keyRunAttempt = attribute.Key("treadle.run.attempt")
	keyQueued     = attribute.Key("treadle.run.queue.duration")
	keyInput      = attribute.Key("treadle.input")
	keyOutput     = attribute.Key("treadle.output")
	keyStore      = attribute.Key("treadle.store.operation")
	keyStoreCount = attribute.Key("treadle.store.operations")
	keyStoreItems = attribute.Key("treadle.store.items")
	keyStoreKeys  = attribute.Key("treadle.store.keys")
	keyMemory     = attribute.Key("treadle.memory.operation")
	keyTexts      = attribute.Key("treadle.embeddings.texts")
	keyCost       = attribute.Key("treadle.usage.cost")
	keyUnpriced   = attribute.Key("treadle.usage.cost.unknown")
	keyWait       = attribute.Key("treadle.retry.wait")
)

// Values of treadle.outcome.
const (
	outcomeOK          = "ok"
	outcomeError       = "error"
	outcomeCanceled    = "canceled"
	outcomeInterrupted = "interrupted" // waits for an answer
	outcomeHandedOver  = "handed_over" // ended by a command to the parent graph
	outcomeDrained     = "drained"     // continues later
)

// span implements [observe.Span].
type span struct {
	t     *tracer
	op    *observe.Op
	ctx   context.Context
	span  trace.Span
	began time.Time
	first bool // a chunk has arrived
}

// nothing is the span of an operation that could not be traced.
type nothing struct{}

// Chunk does nothing.
func (nothing) Chunk(any) {}

// End does nothing.
func (nothing) End(any, error) {}

// start implements Start of [observe.Tracer].
func (t *tracer) start(ctx context.Context, op *observe.Op) (out context.Context, made observe.Span) {
	defer caught("start a span", func() { out, made = ctx, nothing{} }) //nolint:fatcontext // the given context
	s := &span{t: t, op: op, began: time.Now()}
	if op.Kind == observe.Retry {
		s.noteFailure(trace.SpanFromContext(ctx))
	}
	name, kind, attrs := s.describe(ctx)
	s.ctx, s.span = t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...), trace.WithTimestamp(s.began))
	if op.Kind == observe.Run && !op.Place.Nested {
		t.metrics.began(s.ctx, op)
	}
	return s.ctx, s
}

// noteFailure adds the failure of the previous attempt to the span that covers all attempts.
func (s *span) noteFailure(whole trace.Span) {
	whole.AddEvent("treadle.attempt_failed", trace.WithTimestamp(s.began), trace.WithAttributes(keyAttempt.Int(s.op.Attempt-1),
		keyWait.Float64(s.op.Wait.Seconds()), semconv.ErrorTypeKey.String(errorType(s.op.Cause)), semconv.ExceptionMessage(s.t.text(s.op.Cause))))
}

// describe returns the span's initial name, kind, and attributes.
func (s *span) describe(ctx context.Context) (name string, kind trace.SpanKind, attrs []attribute.KeyValue) {
	op := s.op
	switch op.Kind {
	case observe.Run:
		return s.describeRun(ctx)
	case observe.Node:
		attrs = append(s.place(), keyNode.String(op.Name), keyStep.Int(op.Place.Step), keyTaskID.String(op.Place.TaskID))
		return "node " + op.Name, trace.SpanKindInternal, append(attrs, s.value(keyInput, op.Input)...)
	case observe.Task:
		attrs = append(s.place(), keyTask.String(op.Name), keyStep.Int(op.Place.Step), keyTaskID.String(op.Place.TaskID))
		return "task " + op.Name, trace.SpanKindInternal, append(attrs, s.value(keyInput, op.Input)...)
	case observe.Retry:
		return "retry " + op.Name, trace.SpanKindInternal, []attribute.KeyValue{keyAttempt.Int(op.Attempt)}
	case observe.Model:
		return "chat " + op.Name, trace.SpanKindClient, s.describeModel(ctx)
	case observe.Tool:
		return "execute_tool " + op.Name, trace.SpanKindInternal, s.describeTool()
	case observe.Retriever:
		return "retrieval " + op.Name, trace.SpanKindInternal, s.describeRetriever()
	case observe.Embed:
		return "embeddings " + op.Name, trace.SpanKindClient, []attribute.KeyValue{semconv.GenAIOperationNameEmbeddings,
			semconv.GenAIRequestModel(op.Name), semconv.GenAIEmbeddingsDimensionCount(op.Dimension), keyTexts.Int(op.Count)}
	case observe.Store:
		attrs = []attribute.KeyValue{keyStore.String(op.Name), keyStoreCount.Int(op.Count)}
		return "store " + op.Name, trace.SpanKindInternal, append(attrs, s.storeKeys()...)
	case observe.Memory:
		return "memory " + op.Name, trace.SpanKindInternal, []attribute.KeyValue{keyMemory.String(op.Name)}
	}
	return string(op.Kind) + " " + op.Name, trace.SpanKindInternal, nil
}

// operation returns the operation name of a run.
func (s *span) operation() string {
	if slices.Contains(s.t.agents, s.op.Name) {
		return semconv.GenAIOperationNameInvokeAgent.Value.AsString()
	}
	return semconv.GenAIOperationNameInvokeWorkflow.Value.AsString()
}

func (s *span) describeRun(ctx context.Context) (name string, kind trace.SpanKind, attrs []attribute.KeyValue) {
	op := s.op
	operation := s.operation()
	attrs = append(s.place(), semconv.GenAIOperationNameKey.String(operation))
	if operation == semconv.GenAIOperationNameInvokeAgent.Value.AsString() {
		attrs = append(attrs, semconv.GenAIAgentName(op.Name))
	} else {
		attrs = append(attrs, semconv.GenAIWorkflowName(op.Name))
	}
	if served, ok := observe.ServedOf(ctx); ok && !op.Place.Nested {
		attrs = append(attrs, keyQueued.Float64(served.Waited.Seconds()))
		if served.Attempt > 1 {
			attrs = append(attrs, keyRunAttempt.Int(served.Attempt))
		}
	}
	return operation + " " + op.Name, trace.SpanKindInternal, append(attrs, s.value(keyInput, op.Input)...)
}

// place returns the attributes that locate the operation within a run.
func (s *span) place() []attribute.KeyValue {
	p := s.op.Place
	attrs := []attribute.KeyValue{keyGraph.String(p.Graph), keyRun.String(p.RunID)}
	if p.Thread != "" {
		attrs = append(attrs, semconv.GenAIConversationID(p.Thread))
	}
	if p.Namespace != "" {
		attrs = append(attrs, keyNamespace.String(p.Namespace))
	}
	return attrs
}

// value returns a value as an attribute, if content is recorded and the value can be encoded as
// JSON.
func (s *span) value(key attribute.Key, v any) []attribute.KeyValue {
	if !s.t.content || v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil || string(raw) == "null" {
		return nil
	}
	return []attribute.KeyValue{key.String(string(raw))}
}

func (s *span) describeTool() []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(s.op.Name), semconv.GenAIToolType("function")}
	if id := s.op.Call.ToolCall; id != "" {
		attrs = append(attrs, semconv.GenAIToolCallID(id))
	}
	if tool, ok := s.op.Call.Detail.(*llm.Tool); ok && tool.Description != "" {
		attrs = append(attrs, semconv.GenAIToolDescription(tool.Description))
	}
	return append(attrs, s.value(semconv.GenAIToolCallArgumentsKey, s.op.Input)...)
}

func (s *span) describeRetriever() []attribute.KeyValue {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameRetrieval, semconv.GenAIDataSourceID(s.op.Name)}
	if in, ok := s.op.Input.(map[string]any); ok && s.t.content {
		if query, ok := in["query"].(string); ok {
			attrs = append(attrs, semconv.GenAIRetrievalQueryText(query))
		}
	}
	return attrs
}

// storeKeys returns the namespaces and keys of a store operation.
func (s *span) storeKeys() []attribute.KeyValue {
	ops, _ := s.op.Input.([]store.Op)
	if !s.t.content || len(ops) == 0 {
		return nil
	}
	var keys []string
	for _, op := range ops {
		switch op := op.(type) {
		case store.GetOp:
			keys = append(keys, op.Namespace.String()+"/"+op.Key)
		case store.PutOp:
			keys = append(keys, op.Namespace.String()+"/"+op.Key)
		case store.DeleteOp:
			keys = append(keys, op.Namespace.String()+"/"+op.Key)
		case store.SearchOp:
			keys = append(keys, op.Prefix.String())
		}
	}
	if keys == nil {
		return nil
	}
	return []attribute.KeyValue{keyStoreKeys.StringSlice(keys)}
}

// Chunk implements [observe.Span].
func (s *span) Chunk(any) {
	if s.first || s.op.Kind != observe.Model {
		return
	}
	s.first = true
	defer caught("report a chunk", nil)
	took := time.Since(s.began).Seconds()
	s.span.SetAttributes(semconv.GenAIResponseTimeToFirstChunk(took))
	s.t.metrics.firstChunk(s, took)
}

// End implements [observe.Span].
func (s *span) End(output any, err error) {
	defer caught("end a span", nil)
	ended := time.Now()
	defer s.span.End(trace.WithTimestamp(ended)) // even if the rest panics
	outcome := outcomeOf(err)
	s.finish(output)
	failure := ""
	switch outcome {
	case outcomeError, outcomeCanceled:
		failure = errorType(err)
		s.span.SetStatus(codes.Error, s.t.text(err))
		s.span.SetAttributes(semconv.ErrorTypeKey.String(failure))
	}
	if outcome != outcomeOK {
		s.span.SetAttributes(keyOutcome.String(outcome))
	}
	s.t.metrics.ended(s, ended.Sub(s.began), outcome, failure, output)
}

// finish adds attributes of the result.
func (s *span) finish(output any) {
	if hit, ok := output.(observe.Hit); ok {
		s.span.SetAttributes(keyCached.Bool(true))
		output = hit.Output
	}
	switch s.op.Kind {
	case observe.Model:
		if m, ok := output.(llm.Message); ok {
			s.span.SetAttributes(s.answer(m)...)
		}
	case observe.Tool:
		s.span.SetAttributes(s.value(semconv.GenAIToolCallResultKey, output)...)
	case observe.Run, observe.Node, observe.Task:
		s.span.SetAttributes(s.value(keyOutput, output)...)
	case observe.Store:
		results, _ := output.([]store.Result)
		items := 0
		for _, r := range results {
			items += len(r.Items)
			if r.Item != nil {
				items++
			}
		}
		s.span.SetAttributes(keyStoreItems.Int(items))
	}
}

// outcomeOf returns the outcome of an operation. Interrupts, commands to the parent graph, and
// drained runs are not failures.
func outcomeOf(err error) string {
	_, asks := errors.AsType[*treadle.InterruptError](err)
	switch {
	case err == nil:
		return outcomeOK
	case asks:
		return outcomeInterrupted
	case errors.Is(err, treadle.ErrDrained):
		return outcomeDrained
	case treadle.IsPause(err):
		return outcomeHandedOver
	case errors.Is(err, context.Canceled):
		return outcomeCanceled
	}
	return outcomeError
}

// errorType returns a short name of an error for the attribute error.type. The number of names
// is small, so that metrics can be grouped by it.
func errorType(err error) string {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		switch {
		case e.Code != "":
			return e.Code
		case e.Status != 0:
			return strconv.Itoa(e.Status)
		}
		return "connection"
	}
	if _, ok := errors.AsType[*treadle.TimeoutError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if errors.Is(err, context.Canceled) {
		return "canceled"
	}
	if _, ok := errors.AsType[*llm.ArgumentsError](err); ok {
		return "invalid_arguments"
	}
	return typeName(err)
}

// typeName returns the type of the innermost error that has a specific type.
func typeName(err error) string {
	name := semconv.ErrorTypeOther.Value.AsString()
	for ; err != nil; err = errors.Unwrap(err) {
		switch t := fmt.Sprintf("%T", err); t {
		case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*treadletype.NodeError", "*llm.ToolError":
		default:
			name = t
		}
	}
	return name
}

// text returns the text of an error. It omits invalid arguments, which a model wrote, unless
// content is recorded.
func (t *tracer) text(err error) string {
	if err == nil {
		return ""
	}
	if bad, ok := errors.AsType[*llm.ArgumentsError](err); ok && !t.content {
		return "tool " + bad.Tool + ": arguments do not match the schema"
	}
	return err.Error()
}
