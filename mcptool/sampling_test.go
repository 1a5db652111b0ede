package mcptool_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
)

// request returns a request for a model.
func request(text string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{SystemPrompt: "You name owls.", MaxTokens: 20, Temperature: 0.5, StopSequences: []string{"\n"},
		Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: text}}}}}
}

func TestServerUsesModel(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			shop := &asker{questions: []mcp.InputRequest{request("A name?"), request("Another?")}}
			said := llmtest.Say("Merlin")
			said.Message.Metadata, said.Message.Stop = map[string]any{"model_name": "owl-1"}, llm.StopLength
			model := llmtest.Scripted(t, said, llmtest.Say("Morgana"))
			at := shop.serve(t, protocol)
			at.Elicit, at.Sampling = false, &mcptool.Sampling{Model: model}
			_, tools := open(t, at)
			for ev, err := range ordering(t, tools, checkpoint.NewMemory()).Stream(t.Context(), "", treadle.Modes(treadle.ModeMessages, treadle.ModeValues)) {
				if err != nil {
					t.Fatal(err)
				}
				switch ev := ev.(type) {
				case treadle.Token:
					t.Errorf("the stream of the run contains %+v", ev)
				case treadle.Finished[string]:
					if want := "owl-1 maxTokens Merlin, unknown endTurn Morgana"; ev.Output != want {
						t.Errorf("result %q, want %q", ev.Output, want)
					}
				}
			}
			sent := model.Requests()
			if len(sent) != 2 {
				t.Fatalf("%d requests", len(sent))
			}
			r := sent[0]
			if len(r.Messages) != 2 || r.Messages[0].Text() != "You name owls." || r.Messages[1].Text() != "A name?" ||
				r.MaxTokens != 20 || r.Temperature == nil || *r.Temperature != 0.5 || len(r.StopWords) != 1 {
				t.Errorf("request %+v", r)
			}
		})
	}
}

// After the model's response, the tool asks the user, and the program restarts.
func TestSamplingSurvivesRestart(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			shop := &asker{questions: []mcp.InputRequest{request("A name?"), ask2(t).questions[0], request("Another?")}}
			model := llmtest.Scripted(t, llmtest.Say("Merlin"), llmtest.Say("Morgana"))
			at, saver := shop.serve(t, protocol), checkpoint.NewMemory()
			at.Sampling = &mcptool.Sampling{Model: model}
			servers, tools := open(t, at)
			_, err := ordering(t, tools, saver).Run(t.Context(), "")
			asked(t, err)
			if err := servers.Close(); err != nil {
				t.Fatal(err)
			}
			_, tools = open(t, at)
			got, err := ordering(t, tools, saver).Resume(t.Context(), accept("Ada"))
			if want := "unknown endTurn Merlin, acceptmap[name:Ada size:7], unknown endTurn Morgana"; err != nil || got != want {
				t.Errorf("result %q, %v, want %q", got, err, want)
			}
			if len(model.Requests()) != 2 || shop.acts.Load() != 1 {
				t.Errorf("%d requests to the model, %d acts", len(model.Requests()), shop.acts.Load())
			}
		})
	}
}

func TestGreedySamplingIsRefused(t *testing.T) {
	long, tools := request(strings.Repeat("An owl. ", 50_000)), request("A name?")
	tools.Tools = []*mcp.Tool{{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}}
	none, null := request(""), request("")
	none.Messages, null.Messages = nil, []*mcp.SamplingMessageV2{nil}
	many := make([]mcp.InputRequest, 40)
	for i := range many {
		many[i] = request("A name?")
	}
	used := func(tokens int) []llmtest.Turn {
		var out []llmtest.Turn
		for range 20 {
			turn := llmtest.Say("Merlin")
			if tokens > 0 {
				turn.Message.Usage = &llm.Usage{Total: tokens}
			}
			out = append(out, turn)
		}
		return out
	}
	for name, test := range map[string]struct {
		requests []mcp.InputRequest
		sampling *mcptool.Sampling
		turns    []llmtest.Turn
		calls    int
	}{
		"not allowed":   {many[:1], nil, nil, 0},
		"tools":         {[]mcp.InputRequest{tools}, &mcptool.Sampling{}, nil, 0},
		"no messages":   {[]mcp.InputRequest{none}, &mcptool.Sampling{}, nil, 0},
		"null message":  {[]mcp.InputRequest{null}, &mcptool.Sampling{}, nil, 0},
		"long prompt":   {[]mcp.InputRequest{long}, &mcptool.Sampling{}, nil, 0},
		"many calls":    {many, &mcptool.Sampling{}, used(10), 10},
		"few calls":     {many, &mcptool.Sampling{MaxCalls: 2}, used(10), 2},
		"many tokens":   {many, &mcptool.Sampling{MaxTokens: 3000}, used(1000), 3},
		"unknown usage": {many, &mcptool.Sampling{MaxTokens: 60}, used(0), 2}, // 20 and a prompt of 11 each
	} {
		for _, protocol := range protocols {
			t.Run(name+" "+protocol, func(t *testing.T) {
				shop, model := &asker{questions: test.requests}, llmtest.NewScript(test.turns...)
				at := shop.serve(t, protocol)
				if at.Sampling = test.sampling; at.Sampling != nil {
					with := *test.sampling
					with.Model = model
					at.Sampling = &with
				}
				_, tools := open(t, at)
				_, err := tools.call(t.Context(), "order", "{}")
				if err == nil || shop.acts.Load() != 0 {
					t.Errorf("err = %v, %d acts", err, shop.acts.Load())
				}
				if sent := len(model.Requests()); sent != test.calls {
					t.Errorf("%d requests to the model, want %d", sent, test.calls)
				}
			})
		}
	}
}

func TestFailedSamplingFailsCall(t *testing.T) {
	for _, protocol := range protocols {
		shop := &asker{questions: []mcp.InputRequest{request("A name?")}}
		at := shop.serve(t, protocol)
		down := errors.New("out of owls")
		at.Sampling = &mcptool.Sampling{Model: llmtest.Scripted(t, llmtest.Fail(down))}
		_, tools := open(t, at)
		_, err := ordering(t, tools, checkpoint.NewMemory()).Run(t.Context(), "")
		if !errors.Is(err, down) || shop.acts.Load() != 0 {
			t.Errorf("%s: %v, %d acts", protocol, err, shop.acts.Load())
		}
	}
}
