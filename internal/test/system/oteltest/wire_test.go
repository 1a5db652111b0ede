package oteltest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
	"github.com/treadle-go/treadle/oteltreadle"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
)

type count struct {
	N int `json:"n"`
}

// adder returns a graph of one node that adds one.
func adder() *treadle.Graph[count, count] {
	b := treadle.New[count]("counter")
	treadle.AddNode(b, "count", func(_ context.Context, c count) (count, error) { return count{c.N + 1}, nil })
	b.Edge(treadle.Start, "count")
	return treadle.Must(b.Compile(nil))
}

// database is an in-memory database for a server.
type database struct {
	*checkpoint.Memory
	rows ledger.Backend
}

func newDatabase() *database { return &database{checkpoint.NewMemory(), ledger.NewMemory()} }

func (d *database) Ledger() ledger.Backend { return d.rows }

func (*database) Store(o *store.Options) (*store.Store, error) { return store.NewMemory(o) }

// serve starts a server with a graph.
func serve(t *testing.T, db *database, g treadle.AnyGraph, o server.Options) (url string) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(db, []treadle.AnyGraph{g}, &o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Drain(ctx); err != nil {
			t.Error(err)
		}
		hs.Close()
	})
	return hs.URL
}

const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
)

// post sends a request with the trace context of a caller.
func post(t *testing.T, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("traceparent", "00-"+callersTrace+"-"+callersSpan+"-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", url, resp.StatusCode, raw, err)
	}
}

// checkCaller checks that a span is a child of the caller's span.
func checkCaller(t *testing.T, s *tracepb.Span) {
	t.Helper()
	if got := hex.EncodeToString(s.TraceId); got != callersTrace {
		t.Errorf("%s is in trace %s, want %s", s.Name, got, callersTrace)
	}
	if got := hex.EncodeToString(s.ParentSpanId); got != callersSpan {
		t.Errorf("%s has the parent %s, want %s", s.Name, got, callersSpan)
	}
}

func TestServerRunsJoinCallersTrace(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	url := serve(t, newDatabase(), adder(), server.Options{Context: tel.Context})
	post(t, url+"/runs/wait", `{"assistant_id": "counter", "input": {"n": 1}}`)
	flush()
	run := r.only("invoke_workflow counter")
	checkCaller(t, run)
	if attr(run, "treadle.run.queue.duration") == "" {
		t.Errorf("run has no queue duration: %v", run.Attributes)
	}
}

// One process accepts the run, and another executes it.
func TestTraceContinuesInExecutingProcess(t *testing.T) {
	r := newReceiver(t)
	tel, _ := r.tel(oteltreadle.Options{})
	other, flush := r.tel(oteltreadle.Options{})
	db, b := newDatabase(), bus.NewMemory()
	t.Cleanup(func() { _ = b.Close() })
	g := adder()
	api := serve(t, db, g, server.Options{Context: tel.Context, Workers: -1, Bus: b})
	serve(t, db, g, server.Options{Context: other.Context, Bus: b})
	post(t, api+"/runs/wait", `{"assistant_id": "counter", "input": {"n": 1}}`)
	flush()
	checkCaller(t, r.only("invoke_workflow counter"))
}

// An agent calls a tool of an MCP server, which runs a graph. All spans belong to one trace.
func TestTraceContinuesThroughMCP(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	tool, err := mcptool.Graph(adder(), "Add one.")
	if err != nil {
		t.Fatal(err)
	}
	own := mcp.NewServer(&mcp.Implementation{Name: "own", Version: "v1"}, nil)
	if err := mcptool.Add(own, tool); err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(tel.Handler(mcptool.Handler(own, nil)))
	t.Cleanup(hs.Close)
	treadles := serve(t, newDatabase(), adder(), server.Options{Context: tel.Context})

	for name, url := range map[string]string{"own": hs.URL, "treadle": treadles + "/mcp"} {
		t.Run(name, func(t *testing.T) {
			servers, err := mcptool.Connect(t.Context(), mcptool.Server{Name: name, URL: url, Prefix: true})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = servers.Close() }()
			tools, err := servers.Tools(t.Context())
			if err != nil || len(tools) != 1 {
				t.Fatal(tools, err)
			}
			if _, err := tools[0].Call(tel.Context(t.Context()), llm.ToolCall{ID: "c", Name: tools[0].Name, Args: json.RawMessage(`{"n": 1}`)}); err != nil {
				t.Fatal(err)
			}
			flush()
			client := r.only("execute_tool " + tools[0].Name)
			runs := r.named("invoke_workflow counter")
			run := runs[len(runs)-1]
			if string(run.TraceId) != string(client.TraceId) {
				t.Errorf("run and the call are in different traces:\n%s", r.tree(nil))
			}
			if name == "treadle" && string(run.ParentSpanId) != string(client.SpanId) {
				t.Error("run is not a child of the call")
			}
		})
	}
}

// remote returns a node that runs a graph on a server. Its HTTP client sends the trace
// context.
func remote(t *testing.T, tel *oteltreadle.Telemetry, url, graph string) func(context.Context, struct{}) (struct{}, error) {
	t.Helper()
	client := &http.Client{Transport: tel.Transport(http.DefaultTransport.(*http.Transport).Clone())}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, _ struct{}) (struct{}, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/runs/wait", strings.NewReader(`{"assistant_id": "`+graph+`", "input": {"n": 1}}`))
		if err != nil {
			return struct{}{}, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return struct{}{}, err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return struct{}{}, errors.New(resp.Status)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return struct{}{}, err
	}
}

func TestTransportSendsTraceContext(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	url := serve(t, newDatabase(), adder(), server.Options{Context: tel.Context})
	outer := treadle.New[count]("outer")
	treadle.AddNode(outer, "remote", remote(t, tel, url, "counter"))
	outer.Edge(treadle.Start, "remote")
	if _, err := treadle.Must(outer.Compile(nil)).Run(tel.Context(t.Context()), count{}); err != nil {
		t.Fatal(err)
	}
	flush()
	if run, node := r.only("invoke_workflow counter"), r.only("node remote"); string(run.ParentSpanId) != string(node.SpanId) {
		t.Errorf("run is not a child of the node that requested it:\n%s", r.tree(nil))
	}
}
