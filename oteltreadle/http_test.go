package oteltreadle_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestInvalidTraceparentIsIgnored(t *testing.T) {
	r, tel := newRecorder(t)
	g := oneNode(func(_ context.Context, c count) (count, error) { return c, nil }, nil)
	h := tel.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if _, err := g.Run(req.Context(), count{}); err != nil {
			t.Error(err)
		}
	}))
	for _, bad := range []string{"", "nonsense", "00-" + strings.Repeat("0", 32) + "-00f067aa0ba902b7-01", strings.Repeat("x", 1<<16)} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header.Set("traceparent", bad)
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	spans := r.named("invoke_workflow counter")
	if len(spans) != 4 {
		t.Fatalf("got %d spans", len(spans))
	}
	for _, s := range spans {
		if s.Parent.IsValid() {
			t.Errorf("run has the parent %v", s.Parent.SpanID())
		}
	}
}
