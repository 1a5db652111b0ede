package oteltreadle

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Handler returns a handler that calls next with the telemetry in the request's context, as
// part of the trace named in the request's headers. It creates no span. Inside a handler that
// does, such as otelhttp's, it leaves the trace unchanged. Package server does not need it: see
// server.Options.Context.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.Context(r.Context())
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = t.observer.Join(ctx, r.Header.Get)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Transport returns a transport that propagates the trace context of requests to servers. It
// creates no span; any other instrumented transport, such as otelhttp's, can take its place. If
// base is nil, http.DefaultTransport is used.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base, t.tracer.propagator}
}

type transport struct {
	base       http.RoundTripper
	propagator propagation.TextMapPropagator
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	t.inject(r)
	return t.base.RoundTrip(r)
}

func (t *transport) inject(r *http.Request) {
	defer caught("inject", nil)
	t.propagator.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
}

// CloseIdleConnections is called by http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
