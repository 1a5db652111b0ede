package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/ui"
)

// newChat returns a graph that answers messages like model.
func newChat(m *model) (treadle.AnyGraph, error) {
	b := treadle.New[llm.Chat]("chat")
	treadle.AddNode(b, "answer", func(ctx context.Context, s llm.Chat) (answered, error) {
		answer, err := llm.Generate(ctx, m, s.Messages...)
		return answered{llm.Messages{answer}}, err
	})
	b.Edge(treadle.Start, "answer")
	return b.Compile(nil)
}

// newWeather returns a graph that shows a component, first without and then with all of its props.
func newWeather(*model) (treadle.AnyGraph, error) {
	type state struct {
		City string      `json:"city"`
		UI   ui.Messages `json:"ui"`
	}
	type update struct {
		UI ui.Messages `json:"ui"`
	}
	b := treadle.New[state]("weather")
	treadle.AddNode(b, "show", func(ctx context.Context, s state) (update, error) {
		card, err := ui.Push(ctx, "forecast", map[string]any{"city": s.City}, &ui.PushOptions{ID: "forecast"})
		if err != nil {
			return update{}, err
		}
		full, err := ui.Push(ctx, "forecast", map[string]any{"celsius": 21}, &ui.PushOptions{ID: "forecast", Merge: true})
		return update{ui.Messages{card, full}}, err
	})
	b.Edge(treadle.Start, "show")
	return b.Compile(nil)
}

type answered struct {
	Messages llm.Messages `json:"messages"`
}

// A desk calls the tools whose names the user's message contains. It offers the tools of
// a request and those of a page.
type desk struct {
	*model
	page []string
}

// Stream implements [llm.Model].
func (d desk) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.RoleTool {
		return said("Done: " + last.Text() + ".")
	}
	names := slices.Clone(d.page)
	for _, tool := range req.Tools {
		names = append(names, tool.Name)
	}
	for _, name := range names {
		if strings.Contains(last.Text(), name) {
			return called(fmt.Sprintf("call_%s_%d", name, len(req.Messages)), name)
		}
	}
	return d.model.Stream(ctx, req)
}

func said(text string) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, w := range word.FindAllString(text, -1) {
			if !yield(llm.Chunk{Content: w}, nil) {
				return
			}
		}
	}
}

func called(id, name string) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, piece := range []llm.ToolCallChunk{{Index: new(0), ID: id, Name: name}, {Index: new(0), Args: `{"order":42,`}, {Index: new(0), Args: `"color":"green"}`}} {
			if !yield(llm.Chunk{ToolCalls: []llm.ToolCallChunk{piece}}, nil) {
				return
			}
		}
	}
}

type order struct {
	Order int    `json:"order"`
	Color string `json:"color"`
}

func refund(_ context.Context, o order) (string, error) {
	return fmt.Sprintf("refunded order %d", o.Order), nil
}

var refundTool = llm.NewTool("refund", "Refund an order.", refund)

// newHelper returns an agent with a tool that needs approval and the tools of its page.
func newHelper(m *model) (treadle.AnyGraph, error) {
	return agent.New(desk{model: m}, &agent.Options{
		Name: "helper", Tools: []*llm.Tool{refundTool},
		Middleware: []*agent.Middleware{agent.Gates(agent.Gate{Tool: "refund"}), agent.ClientTools()},
	})
}

// pageTool is a tool of a page as CopilotKit's connector writes it into the state.
type pageTool struct {
	Name string `json:"name"`
}

// newCopilot returns a graph as CopilotKit's connector for LangGraph expects it: the
// state contains the tools of the page, and a run ends if it calls one of them.
func newCopilot(m *model) (treadle.AnyGraph, error) {
	type state struct {
		Messages llm.Messages `json:"messages"`
		Tools    []pageTool   `json:"tools"`
	}
	b := treadle.New[state]("copilot")
	treadle.AddNode(b, "answer", func(ctx context.Context, s state) (answered, error) {
		names := []string{refundTool.Name}
		for _, tool := range s.Tools {
			names = append(names, tool.Name)
		}
		answer, err := llm.Generate(ctx, desk{m, names}, s.Messages...)
		return answered{llm.Messages{answer}}, err
	})
	treadle.AddNode(b, "refund", func(ctx context.Context, s state) (answered, error) {
		call := s.Messages[len(s.Messages)-1].ToolCalls[0]
		if _, err := treadle.Interrupt[json.RawMessage](ctx, map[string]any{"question": "approve?"}); err != nil {
			return answered{}, err
		}
		out, err := refundTool.Call(ctx, call)
		return answered{llm.Messages{llm.ToolResult(call, out)}}, err
	})
	b.Edge(treadle.Start, "answer")
	treadle.AddBranch(b, "answer", func(_ context.Context, s state) (treadle.Goto, error) {
		calls := s.Messages[len(s.Messages)-1].ToolCalls
		if len(calls) > 0 && calls[0].Name == refundTool.Name {
			return treadle.To("refund"), nil
		}
		return treadle.To(treadle.End), nil
	}, "refund", treadle.End)
	b.Edge("refund", "answer")
	return b.Compile(nil)
}
