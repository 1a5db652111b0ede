package mcptool_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/mcptool"
)

type size struct {
	Size int `json:"size"`
}

// shopping serves a graph that asks three questions.
func shopping(t *testing.T, saver checkpoint.Saver, protocol string) string {
	t.Helper()
	g, err := treadle.NewWorkflow("shop", func(ctx context.Context, _ struct {
		Item string `json:"item,omitempty"`
	}) (string, error) {
		sure, err := treadle.Interrupt[bool](ctx, treadle.Question{Value: "Sure?", Key: "sure"})
		if err != nil || !sure {
			return "no", err
		}
		form, err := treadle.Interrupt[size](ctx, map[string]string{"question": "Which size?"})
		if err != nil {
			return "", err
		}
		note, err := treadle.Interrupt[any](ctx, "A note?")
		text, _ := note.(string)
		return strings.Repeat("owl ", form.Size) + text, err
	}, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	tool, err := mcptool.Graph(g, "Buys owls.")
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{protocol}})
	if err := mcptool.Add(s, tool); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true}))
	t.Cleanup(h.Close)
	return h.URL
}

// customer connects the SDK's client. With manual, the test answers the questions itself.
func customer(t *testing.T, url string, manual bool, answer func(*mcp.ElicitParams) *mcp.ElicitResult) *mcp.ClientSession {
	t.Helper()
	opts := &mcp.ClientOptions{MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: manual}}
	if answer != nil {
		opts.ElicitationHandler = func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return answer(r.Params), nil }
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, opts).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func accepted(content map[string]any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

func buy(state string, responses mcp.InputResponseMap) *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: "shop", Arguments: map[string]any{}, RequestState: state, InputResponses: responses}
}

func textOf(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestInterruptBecomesElicitation(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			answers := map[string]map[string]any{"Sure?": {"answer": true}, "Which size?": {"size": 2}, "A note?": {"answer": "please"}}
			c := customer(t, shopping(t, checkpoint.NewMemory(), protocol), false, func(p *mcp.ElicitParams) *mcp.ElicitResult { return accepted(answers[p.Message]) })
			got, err := c.CallTool(t.Context(), buy("", nil))
			if err != nil || got.IsError || textOf(got) != `"owl owl please"` {
				t.Errorf("result %+v, %v", got, err)
			}
			c = customer(t, shopping(t, checkpoint.NewMemory(), protocol), false, func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: "decline"} })
			if got, err = c.CallTool(t.Context(), buy("", nil)); err != nil || !got.IsError || !strings.Contains(textOf(got), "did not answer") {
				t.Errorf("declined: %+v, %v", got, err)
			}
			c = customer(t, shopping(t, checkpoint.NewMemory(), protocol), false, nil)
			if got, err = c.CallTool(t.Context(), buy("", nil)); err != nil || !got.IsError {
				t.Errorf("without elicitation: %+v, %v", got, err)
			}
		})
	}
}

// The second server has the saver of the first, as after a restart or on another replica.
// A run that waits for a signal is not lost: the client learns its thread, which the program can continue.
func TestWaitingRunOfServedGraphRemains(t *testing.T) {
	g, err := treadle.NewWorkflow("ship", func(ctx context.Context, _ struct {
		Item string `json:"item,omitempty"`
	}) (string, error) {
		by, err := treadle.WaitFor[string](ctx, "paid", nil)
		return "paid by " + by, err
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, nil)
	if err := mcptool.Add(s, treadle.Must(mcptool.Graph(g, "Ships owls."))); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(mcptool.Handler(s, nil))
	t.Cleanup(h.Close)
	c := customer(t, h.URL, true, func(*mcp.ElicitParams) *mcp.ElicitResult { return nil })
	got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "ship", Arguments: map[string]any{}})
	if err != nil || !got.IsError {
		t.Fatalf("result %+v, %v", got, err)
	}
	_, id, named := strings.Cut(textOf(got), "waits for a time or a signal on thread ")
	if !named {
		t.Fatalf("the result names no thread: %s", textOf(got))
	}
	thread := g.Thread(id)
	if err := thread.Signal(t.Context(), "paid", "ada"); err != nil {
		t.Fatal(err)
	}
	if out, err := thread.Continue(t.Context()); err != nil || out != "paid by ada" {
		t.Errorf("output %q, %v", out, err)
	}
}

func TestServedInterruptSurvivesRestart(t *testing.T) {
	saver := checkpoint.NewMemory()
	refuse := func(*mcp.ElicitParams) *mcp.ElicitResult { return nil } // declares the capability
	call := func(p *mcp.CallToolParams) (*mcp.CallToolResult, error) {
		return customer(t, shopping(t, saver, "2026-07-28"), true, refuse).CallTool(t.Context(), p)
	}
	first, err := call(buy("", nil))
	if err != nil || first.InputRequests["sure"] == nil {
		t.Fatalf("first round %+v, %v", first, err)
	}
	again, err := call(buy(first.RequestState, mcp.InputResponseMap{"other": accepted(nil)}))
	if err != nil || again.InputRequests["sure"] == nil || again.RequestState != first.RequestState {
		t.Fatalf("without an answer: %+v, %v", again, err)
	}
	wrong, err := call(buy(first.RequestState, mcp.InputResponseMap{"sure": accepted(map[string]any{"answer": "perhaps"})}))
	if err != nil || wrong.InputRequests["sure"] == nil {
		t.Fatalf("with an invalid answer: %+v, %v", wrong, err)
	}
	yes := mcp.InputResponseMap{"sure": accepted(map[string]any{"answer": true})}
	second, err := call(buy(first.RequestState, yes))
	if err != nil || len(second.InputRequests) != 1 || second.RequestState == first.RequestState {
		t.Fatalf("second round %+v, %v", second, err)
	}
	for name, state := range map[string]string{
		"replayed": first.RequestState,
		"tampered": second.RequestState + "x",
		"forged":   "mcp-AAAA-0123456789abcdef.0123456789abcdef",
		"foreign":  "thread-1.0123456789abcdef",
	} {
		_, err := call(buy(state, yes))
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s state: %v", name, err)
		}
	}
	for key := range second.InputRequests {
		third, err := call(buy(second.RequestState, mcp.InputResponseMap{key: accepted(map[string]any{"size": 1})}))
		if err != nil || len(third.InputRequests) != 1 {
			t.Errorf("third round %+v, %v", third, err)
		}
	}
}
