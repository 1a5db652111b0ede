package platform

import (
	"context"
	"iter"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// newAgent returns a graph with a model that can call a tool, built by hand to show its
// nodes and edges. Package agent provides the same graph ready-made.
func newAgent(opts *treadle.Options) (treadle.AnyGraph, error) {
	weather := llm.NewTool("get_weather", "Tells the weather of a city.", getWeather)
	b := treadle.New[llm.Chat]("agent")
	treadle.AddNode(b, "agent", func(ctx context.Context, s llm.Chat) (answered, error) {
		answer, err := llm.Generate(ctx, script{}, s.Messages...)
		return answered{llm.Messages{answer}}, err
	})
	treadle.AddNode(b, "tools", func(ctx context.Context, s llm.Chat) (answered, error) {
		var results llm.Messages
		for _, call := range s.Messages[len(s.Messages)-1].ToolCalls {
			out, err := weather.Call(ctx, call)
			if err != nil {
				out = err // for the model to read
			}
			results = append(results, llm.ToolResult(call, out))
		}
		return answered{results}, nil
	})
	b.Edge(treadle.Start, "agent")
	treadle.AddBranch(b, "agent", agent.ToolsCondition("tools", treadle.End), "tools", treadle.End)
	b.Edge("tools", "agent")
	return compiled(b, opts)
}

type answered struct {
	Messages llm.Messages `json:"messages"`
}

type place struct {
	City string `json:"city"`
}

func getWeather(_ context.Context, p place) (string, error) { return "sunny in " + p.City, nil }

// script is a model whose response depends on the last message.
type script struct{}

// Stream implements [llm.Model].
func (script) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	last := req.Messages[len(req.Messages)-1]
	switch text := last.Text(); {
	case last.Role == llm.RoleHuman && strings.Contains(text, "weather"):
		return callWeather
	case last.Role == llm.RoleTool:
		return words("It is " + text + " today.")
	default:
		return words("Echo: " + text)
	}
}

// callWeather streams a tool call in three chunks, as providers do.
func callWeather(yield func(llm.Chunk, error) bool) {
	for _, piece := range []llm.ToolCallChunk{
		{Index: new(0), ID: "call_weather_1", Name: "get_weather"},
		{Index: new(0), Args: `{"city":`},
		{Index: new(0), Args: `"Paris"}`},
	} {
		if !yield(llm.Chunk{ToolCalls: []llm.ToolCallChunk{piece}}, nil) {
			return
		}
	}
}

// word matches a word and the whitespace after it.
var word = regexp.MustCompile(`\S+\s*`)

// words streams a text word by word.
func words(text string) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, w := range word.FindAllString(text, -1) {
			if !yield(llm.Chunk{Content: w}, nil) {
				return
			}
		}
	}
}
