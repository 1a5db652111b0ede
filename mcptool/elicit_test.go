package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
)

// The protocol versions with and without sessions.
var protocols = []string{"2025-11-25", "2026-07-28"}

// nameForm is a question with a required field and a field with a default.
const nameForm = `{"type":"object","properties":{"name":{"type":"string"},"size":{"type":"integer","default":7}},"required":["name","size"]}`

// asker is a server whose tool makes requests, such as questions, before it acts.
type asker struct {
	questions []mcp.InputRequest
	starts    atomic.Int32 // calls, or first rounds of calls
	acts      atomic.Int32
	life      context.Context // a server does not notice that a client with a session is gone
}

// tool implements the tool for clients of both protocols.
func (a *asker) tool(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var said []string
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(a.life, cancel)()
	if r.Session.InitializeParams() != nil && r.Session.InitializeParams().ProtocolVersion < "2026-07-28" {
		a.starts.Add(1)
		for _, q := range a.questions {
			var got mcp.InputResponse
			var err error
			switch q := q.(type) {
			case *mcp.ElicitParams:
				got, err = r.Session.Elicit(ctx, q)
			case *mcp.CreateMessageWithToolsParams:
				got, err = r.Session.CreateMessageWithTools(ctx, q)
			}
			if err != nil {
				return nil, err
			}
			said = append(said, inWords(got))
		}
	} else {
		if r.Params.RequestState != "" {
			if err := json.Unmarshal([]byte(r.Params.RequestState), &said); err != nil {
				return nil, err
			}
		} else {
			a.starts.Add(1)
		}
		if got, ok := r.Params.InputResponses["q"]; ok {
			said = append(said, inWords(got))
		}
		if len(said) < len(a.questions) {
			state, err := json.Marshal(said)
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": a.questions[len(said)]}, RequestState: string(state)}, err
		}
	}
	a.acts.Add(1)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(said, ", ")}}}, nil
}

// inWords returns what a client answered.
func inWords(got mcp.InputResponse) string {
	switch got := got.(type) {
	case *mcp.ElicitResult:
		return fmt.Sprint(got.Action, got.Content)
	case *mcp.CreateMessageWithToolsResult:
		return fmt.Sprint(got.Model, " ", got.StopReason, " ", got.Content[0].(*mcp.TextContent).Text)
	}
	return fmt.Sprintf("%T", got)
}

// serve serves the tool with one protocol version.
func (a *asker) serve(t *testing.T, protocol string) mcptool.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "v1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{protocol}})
	s.AddTool(&mcp.Tool{Name: "order", InputSchema: json.RawMessage(`{"type":"object"}`)}, a.tool)
	h := httptest.NewServer(mcptool.Handler(s, &mcptool.HandlerOptions{Sessions: true}))
	var stop context.CancelFunc
	a.life, stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		h.Close()
	})
	return mcptool.Server{Name: "shop", URL: h.URL, Elicit: true}
}

// ordering returns a thread of a workflow that calls the tool.
func ordering(t *testing.T, tools toolset, saver checkpoint.Saver) *treadle.Thread[string, string] {
	t.Helper()
	g, err := treadle.NewWorkflow("ordering", func(ctx context.Context, _ string) (string, error) {
		m, err := tools.call(ctx, "order", "{}")
		return m.Text(), err
	}, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("1")
}

// asked returns the question that stopped a run.
func asked(t *testing.T, err error) mcptool.Elicitation {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 1 {
		t.Fatalf("err = %v, want an interrupt", err)
	}
	var e mcptool.Elicitation
	if err := stop.Pauses[0].Decode(&e); err != nil {
		t.Fatal(err)
	}
	return e
}

func accept(name string) mcptool.Answer {
	return mcptool.Answer{Action: "accept", Content: map[string]any{"name": name}}
}

func ask2(t *testing.T) *asker {
	t.Helper()
	return &asker{questions: []mcp.InputRequest{
		&mcp.ElicitParams{Mode: "form", Message: "Who?", RequestedSchema: json.RawMessage(nameForm)},
		&mcp.ElicitParams{Mode: "form", Message: "For whom?", RequestedSchema: json.RawMessage(nameForm)},
	}}
}

func TestElicitationInterruptsRun(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			shop := ask2(t)
			_, tools := open(t, shop.serve(t, protocol))
			thread := ordering(t, tools, checkpoint.NewMemory())
			_, err := thread.Run(t.Context(), "")
			e := asked(t, err)
			if e.Type != "mcp_elicitation" || e.Server != "shop" || e.Tool != "order" || e.Mode != "form" || e.Message != "Who?" || len(e.Schema) == 0 {
				t.Errorf("question %+v", e)
			}
			if _, err := thread.Resume(t.Context(), mcptool.Answer{Action: "accept"}); err == nil || shop.acts.Load() != 0 {
				t.Errorf("an answer without a required field: %v", err)
			}
			_, err = thread.Resume(t.Context(), accept("Ada"))
			if e := asked(t, err); e.Message != "For whom?" {
				t.Errorf("second question %+v", e)
			}
			got, err := thread.Resume(t.Context(), mcptool.Answer{Action: "decline"})
			if want := "acceptmap[name:Ada size:7], declinemap[]"; err != nil || got != want {
				t.Errorf("result %q, %v, want %q", got, err, want)
			}
			if shop.starts.Load() != 1 || shop.acts.Load() != 1 {
				t.Errorf("%d starts, %d acts, want 1 and 1", shop.starts.Load(), shop.acts.Load())
			}
		})
	}
}

// With sessions, the server's call ends with the client's process, so it is sent again.
func TestElicitationSurvivesRestart(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			shop := ask2(t)
			at, saver := shop.serve(t, protocol), checkpoint.NewMemory()
			for i, answer := range []any{nil, accept("Ada"), accept("Eve")} {
				servers, tools := open(t, at)
				thread := ordering(t, tools, saver)
				var got string
				var err error
				if i == 0 {
					_, err = thread.Run(t.Context(), "")
				} else {
					got, err = thread.Resume(t.Context(), answer)
				}
				if i < 2 {
					asked(t, err)
				} else if err != nil || got != "acceptmap[name:Ada size:7], acceptmap[name:Eve size:7]" {
					t.Errorf("result %q, %v", got, err)
				}
				if err := servers.Close(); err != nil {
					t.Error(err)
				}
			}
			starts := int32(1)
			if protocol == "2025-11-25" {
				starts = 3
			}
			if shop.starts.Load() != starts || shop.acts.Load() != 1 {
				t.Errorf("%d starts, %d acts, want %d and 1", shop.starts.Load(), shop.acts.Load(), starts)
			}
		})
	}
}

func TestHostileElicitationsAreRefused(t *testing.T) {
	form := func(schema string) *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "form", Message: "?", RequestedSchema: json.RawMessage(schema)}
	}
	link := func(url string) *mcp.ElicitParams { return &mcp.ElicitParams{Mode: "url", Message: "?", URL: url} }
	var many strings.Builder
	for i := range 200 {
		fmt.Fprintf(&many, `"f%d":{"type":"string"},`, i)
	}
	for name, q := range map[string]*mcp.ElicitParams{
		"password":  form(`{"type":"object","properties":{"password":{"type":"string"}}}`),
		"titled":    form(`{"type":"object","properties":{"x":{"type":"string","title":"Your API key"}}}`),
		"format":    form(`{"type":"object","properties":{"x":{"type":"string","format":"password"}}}`),
		"nested":    form(`{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"string"}}}}}`),
		"reference": form(`{"type":"object","properties":{"x":{"$ref":"#"}}}`),
		"cyclic":    form(`{"$ref":"#"}`),
		"huge":      form(`{"type":"object","properties":{` + many.String() + `"x":{"type":"string"}}}`),
		"file":      link("file:///etc/passwd"),
		"script":    link("javascript:alert(1)"),
		"user":      link("https://bank.example@evil.example/"),
		"mode":      {Mode: "telepathy", Message: "?"},
	} {
		t.Run(name, func(t *testing.T) {
			shop := &asker{questions: []mcp.InputRequest{q}}
			_, tools := open(t, shop.serve(t, "2026-07-28"))
			_, err := ordering(t, tools, checkpoint.NewMemory()).Run(t.Context(), "")
			if _, stopped := errors.AsType[*treadle.InterruptError](err); err == nil || stopped || shop.acts.Load() != 0 {
				t.Errorf("err = %v, %d acts", err, shop.acts.Load())
			}
		})
	}
}

func TestEndlessQuestionsAreRefused(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			shop := ask2(t)
			for range 20 {
				shop.questions = append(shop.questions, shop.questions[0])
			}
			_, tools := open(t, shop.serve(t, protocol))
			thread := ordering(t, tools, checkpoint.NewMemory())
			_, err := thread.Run(t.Context(), "")
			rounds := 0
			for ; rounds < 20; rounds++ {
				if _, stopped := errors.AsType[*treadle.InterruptError](err); !stopped {
					break
				}
				_, err = thread.Resume(t.Context(), accept("Ada"))
			}
			if err == nil || rounds > 11 || shop.acts.Load() != 0 {
				t.Errorf("after %d rounds: %v", rounds, err)
			}
		})
	}
}

func TestURLElicitationIsShown(t *testing.T) {
	shop := &asker{questions: []mcp.InputRequest{&mcp.ElicitParams{Mode: "url", Message: "Pay.", URL: "https://pay.example/1"}}}
	_, tools := open(t, shop.serve(t, "2026-07-28"))
	thread := ordering(t, tools, checkpoint.NewMemory())
	_, err := thread.Run(t.Context(), "")
	if e := asked(t, err); e.Mode != "url" || e.URL != "https://pay.example/1" || e.Schema != nil {
		t.Errorf("question %+v", e)
	}
	if got, err := thread.Resume(t.Context(), mcptool.Answer{Action: "accept"}); err != nil || got != "acceptmap[]" {
		t.Errorf("result %q, %v", got, err)
	}
}

func TestElicitationNeedsPermission(t *testing.T) {
	for _, protocol := range protocols {
		shop := ask2(t)
		at := shop.serve(t, protocol)
		at.Elicit = false
		_, tools := open(t, at)
		m, err := tools.call(t.Context(), "order", "{}")
		if err == nil && m.Status != llm.StatusError || shop.acts.Load() != 0 {
			t.Errorf("%s: result %q, %v", protocol, m.Text(), err)
		}
	}
}
