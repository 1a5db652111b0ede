package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/treadle-go/treadle/server"
)

// metric reads a metric as the JSON has it.
func (c *client) metric(name string, labels map[string]string) float64 {
	c.t.Helper()
	var all map[string]struct {
		Values []struct {
			Labels map[string]string
			Value  json.Number
			Count  uint64
		}
	}
	c.ok("GET", "/metrics?format=json", "", &all)
next:
	for _, v := range all[name].Values {
		for k, want := range labels {
			if v.Labels[k] != want {
				continue next
			}
		}
		if v.Count > 0 {
			return float64(v.Count)
		}
		f, _ := v.Value.Float64()
		return f
	}
	return -1
}

// counts waits until a metric has the value want. A run is counted after its end can be read
// in the database, so its readers may come first.
func (c *client) counts(name string, labels map[string]string, want float64) {
	c.t.Helper()
	for deadline := time.Now().Add(tooLong); c.metric(name, labels) != want; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s %v is %v, want %v", name, labels, c.metric(name, labels), want)
		}
	}
}

func TestMetricsCountRunsAndRequests(t *testing.T) {
	got := make(chan struct{}, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- struct{}{} }))
	defer hook.Close()
	c := serve(t, &server.Options{Workers: 2, Webhooks: &server.Webhooks{AllowPrivate: true}})
	c.ok("POST", "/runs/wait", `{"assistant_id":"router","input":{"target":"left"},"webhook":"`+hook.URL+`"}`, nil)
	c.ok("POST", "/runs/wait", `{"assistant_id":"failing","input":{}}`, nil)
	c.do("GET", "/nothing/here", "")
	<-got
	c.counts("treadle_webhooks_total", map[string]string{"result": "delivered"}, 1)
	for _, x := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"treadle_runs_total", map[string]string{"status": "success"}, 1},
		{"treadle_runs_total", map[string]string{"status": "error"}, 1},
		{"treadle_runs_total", map[string]string{"status": "timeout"}, 0},
		{"treadle_run_seconds", map[string]string{"graph": "router"}, 1},
		{"treadle_requests_total", map[string]string{"method": "POST", "route": "/runs/wait", "status": "200"}, 2},
		{"treadle_requests_total", map[string]string{"route": "other", "status": "404"}, 1},
		{"treadle_request_seconds", map[string]string{"method": "POST", "route": "/runs/wait"}, 2},
		{"treadle_runs_active", nil, 0},
		{"treadle_stream_clients", nil, 0},
	} {
		c.counts(x.name, x.labels, x.want)
	}
	_, head, raw := c.do("GET", "/metrics", "")
	if !strings.HasPrefix(head.Get("Content-Type"), "text/plain") {
		t.Errorf("headers %v", head)
	}
	families, err := func() (map[string]any, error) {
		p := expfmt.NewTextParser(model.UTF8Validation)
		all, err := p.TextToMetricFamilies(strings.NewReader(string(raw)))
		out := map[string]any{}
		for name := range all {
			out[name] = true
		}
		return out, err
	}()
	if err != nil || families["treadle_runs_open"] == nil || families["go_goroutines"] == nil {
		t.Errorf("%v: %s", err, raw)
	}
	if status, _, raw := c.do("GET", "/metrics?format=xml", ""); status != 422 || !strings.Contains(string(raw), "format") {
		t.Errorf("an unknown format: %d %s", status, raw)
	}
}

func TestMetricsCountStreamsAndOpenRuns(t *testing.T) {
	c := serve(t, &server.Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/runs/stream", strings.NewReader(`{"assistant_id":"slow","input":{"count":1000,"delay_ms":20},"on_disconnect":"cancel"}`))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	c.ok("POST", "/runs", `{"assistant_id":"router","input":{}}`, nil)
	for name, want := range map[string]float64{"treadle_stream_clients": 1, "treadle_runs_active": 1} {
		c.counts(name, nil, want)
	}
	for status, want := range map[string]float64{"pending": 1, "running": 1} {
		c.counts("treadle_runs_open", map[string]string{"status": status}, want)
	}
	cancel()
	c.counts("treadle_stream_clients", nil, 0)
}

func TestCallersAreLimitedOneByOne(t *testing.T) {
	o := &server.Options{
		RateLimit: &server.RateLimit{PerSecond: 0.01, Burst: 3},
		Auth: &server.Auth{
			Authenticate: server.APIKeys(map[string]*server.User{"a": {Identity: "a"}, "b": {Identity: "b"}}),
			On: server.Rules{
				"*": func(context.Context, *server.Access) (server.Decision, error) { return server.Allow(nil), nil },
			},
		},
	}
	c := serve(t, o)
	get := func(key string) (int, http.Header) {
		c.head.Set("X-Api-Key", key)
		status, head, _ := c.do("POST", "/threads/count", "{}")
		return status, head
	}
	for range 3 {
		if status, _ := get("a"); status != 200 {
			t.Fatalf("status %d", status)
		}
	}
	status, head := get("a")
	if status != 429 || head.Get("Retry-After") != "100" {
		t.Errorf("the fourth request: %d, Retry-After %q", status, head.Get("Retry-After"))
	}
	if status, _ := get("b"); status != 200 {
		t.Errorf("another caller: %d", status)
	}
	for i, want := range []int{401, 401, 401, 429} {
		if status, _ := get("guess"); status != want {
			t.Errorf("guess %d: %d", i, status)
		}
	}
	if status, _, _ := c.do("GET", "/ok", ""); status != 200 {
		t.Errorf("/ok is limited: %d", status)
	}
	if v := c.metric("treadle_requests_limited_total", nil); v != 2 {
		t.Errorf("%v requests are counted as limited", v)
	}
}

func TestAnswersHaveSecurityHeaders(t *testing.T) {
	c := serve(t, nil)
	for _, path := range []string{"/ok", "/threads/x", "/nothing"} {
		_, head, _ := c.do("GET", path, "")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if head.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, head.Get(name))
			}
		}
	}
}
