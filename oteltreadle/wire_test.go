package oteltreadle_test

import (
	"bytes"
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
	"testing/slogtest"
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

// database is one that ends with the process.
type database struct {
	*checkpoint.Memory
	rows ledger.Backend
}

func (d *database) Ledger() ledger.Backend { return d.rows }

func (*database) Store(o *store.Options) (*store.Store, error) { return store.NewMemory(o) }

// serve starts a process that serves a graph.
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

// post sends a request of a caller that has a trace.
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

func addOne(_ context.Context, c count) (count, error) { return count{c.N + 1}, nil }

// checkCaller checks that a span is a part of the caller's.
func checkCaller(t *testing.T, s *tracepb.Span) {
	t.Helper()
	if got := hex.EncodeToString(s.TraceId); got != callersTrace {
		t.Errorf("%s is in trace %s, want %s", s.Name, got, callersTrace)
	}
	if got := hex.EncodeToString(s.ParentSpanId); got != callersSpan {
		t.Errorf("%s is a part of %s, want %s", s.Name, got, callersSpan)
	}
}

func TestARunOfAServerIsAPartOfTheCallersTrace(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	url := serve(t, &database{checkpoint.NewMemory(), ledger.NewMemory()}, oneNode(addOne, nil), server.Options{Context: tel.Context})
	post(t, url+"/runs/wait", `{"assistant_id": "counter", "input": {"n": 1}}`)
	flush()
	run := r.only("invoke_workflow counter")
	checkCaller(t, run)
	if attr(run, "treadle.run.queue.duration") == "" {
		t.Errorf("the run does not say how long it waited: %v", run.Attributes)
	}
}

// The run is accepted by one process and executed by another.
func TestATraceGoesOnInTheProcessThatExecutesTheRun(t *testing.T) {
	r := newReceiver(t)
	tel, _ := r.tel(oteltreadle.Options{})
	other, flush := r.tel(oteltreadle.Options{})
	db, b := &database{checkpoint.NewMemory(), ledger.NewMemory()}, bus.NewMemory()
	t.Cleanup(func() { _ = b.Close() })
	g := oneNode(addOne, nil)
	api := serve(t, db, g, server.Options{Context: tel.Context, Workers: -1, Bus: b})
	serve(t, db, g, server.Options{Context: other.Context, Bus: b})
	post(t, api+"/runs/wait", `{"assistant_id": "counter", "input": {"n": 1}}`)
	flush()
	checkCaller(t, r.only("invoke_workflow counter"))
}

func TestABadTraceparentIsIgnored(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	h := tel.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if _, err := oneNode(addOne, nil).Run(req.Context(), count{}); err != nil {
			t.Error(err)
		}
	}))
	for _, bad := range []string{"", "nonsense", "00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01", strings.Repeat("x", 1<<16)} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		req.Header.Set("traceparent", bad)
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
	flush()
	spans := r.named("invoke_workflow counter")
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for _, s := range spans {
		if len(s.ParentSpanId) > 0 {
			t.Errorf("a run has the parent %x", s.ParentSpanId)
		}
	}
}

// An agent's tool is the tool of an MCP server, which runs a graph: one trace.
func TestATraceGoesThroughMCP(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	tool, err := mcptool.Graph(oneNode(addOne, nil), "Add one.")
	if err != nil {
		t.Fatal(err)
	}
	own := mcp.NewServer(&mcp.Implementation{Name: "own", Version: "v1"}, nil)
	if err := mcptool.Add(own, tool); err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(tel.Handler(mcptool.Handler(own)))
	t.Cleanup(hs.Close)
	treadles := serve(t, &database{checkpoint.NewMemory(), ledger.NewMemory()}, oneNode(addOne, nil), server.Options{Context: tel.Context})

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
				t.Errorf("the run is in another trace than the call:\n%s", r.tree(nil))
			}
			if name == "treadle" && string(run.ParentSpanId) != string(client.SpanId) {
				t.Error("the run is not a part of the call")
			}
		})
	}
}

// remote returns a node that runs a graph of a server, with an
// HTTP client that sends the trace with its requests.
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

func TestATransportTellsTheTrace(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	url := serve(t, &database{checkpoint.NewMemory(), ledger.NewMemory()}, oneNode(addOne, nil), server.Options{Context: tel.Context})
	outer := treadle.New[count]("outer")
	treadle.AddNode(outer, "remote", remote(t, tel, url, "counter"))
	outer.Edge(treadle.Start, "remote")
	if _, err := treadle.Must(outer.Compile(nil)).Run(tel.Context(t.Context()), count{}); err != nil {
		t.Fatal(err)
	}
	flush()
	if run, node := r.only("invoke_workflow counter"), r.only("node remote"); string(run.ParentSpanId) != string(node.SpanId) {
		t.Errorf("the run is not a part of the node that asked for it:\n%s", r.tree(nil))
	}
}

func TestLogsNameTheSpanAndTheNode(t *testing.T) {
	r := newReceiver(t)
	tel, flush := r.tel(oteltreadle.Options{})
	var out bytes.Buffer
	log := slog.New(oteltreadle.LogHandler(slog.NewJSONHandler(&out, nil)))
	g := oneNode(func(ctx context.Context, c count) (count, error) {
		log.InfoContext(ctx, "inside", "node", "mine")
		log.With("a", 1).WithGroup("g").InfoContext(ctx, "inside")
		return c, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if _, err := g.Thread("7").Run(tel.Context(t.Context()), count{}); err != nil {
		t.Fatal(err)
	}
	log.Info("outside")
	flush()
	node := r.only("node count")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"trace_id": hex.EncodeToString(node.TraceId), "span_id": hex.EncodeToString(node.SpanId),
		"run": attr(node, "treadle.run.id"), "thread": "7", "node": "mine"} {
		if first[key] != want {
			t.Errorf("%s is %v, want %s", key, first[key], want)
		}
	}
	if !strings.Contains(lines[1], `"g":{"trace_id"`) || strings.Contains(lines[2], "trace_id") {
		t.Errorf("the log is\n%s", out.String())
	}
}

func TestTheLogHandlerIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return oteltreadle.LogHandler(slog.NewJSONHandler(&out, nil))
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}
