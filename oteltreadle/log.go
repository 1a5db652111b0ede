package oteltreadle

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"github.com/treadle-go/treadle"
)

// LogHandler returns a slog handler that adds attributes to records logged with a context, as
// by slog.InfoContext: trace_id and span_id of the context's span, and run, thread, and node if
// the context belongs to a node. Attributes that a record already has are kept.
func LogHandler(next slog.Handler) slog.Handler { return &logHandler{next} }

type logHandler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var add []slog.Attr
	if ctx == nil {
		return h.Handler.Handle(ctx, r)
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		add = append(add, slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	if info := treadle.InfoFrom(ctx); info.Node != "" {
		add = append(add, slog.String("run", info.RunID))
		if info.Thread != "" {
			add = append(add, slog.String("thread", info.Thread))
		}
		add = append(add, slog.String("node", info.Node))
	}
	if len(add) > 0 {
		r = r.Clone()
		known := map[string]bool{}
		r.Attrs(func(a slog.Attr) bool {
			known[a.Key] = true
			return true
		})
		for _, a := range add {
			if !known[a.Key] {
				r.AddAttrs(a)
			}
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name)}
}
