package oteltreadle

import (
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Handler returns a handler that calls next with the telemetry in the request's context,
// as a part of the trace that the request's headers name. It makes no span of its own;
// inside of a handler that does, such as that of otelhttp, it leaves the trace as it is.
// A server of package server does not need it: see server.Options.Context.
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := t.Context(r.Context())
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = t.observer.Join(ctx, r.Header.Get)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Transport returns a transport that tells servers which trace a request belongs to.
// It makes no span of its own; any other instrumented transport, such as that of
// otelhttp, can take its place. If base is nil, it is http.DefaultTransport.
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

// CloseIdleConnections is for http.Client.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
