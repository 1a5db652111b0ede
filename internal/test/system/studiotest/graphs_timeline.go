package studiotest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/llm"
)

type count struct {
	Upto  int `json:"upto"`
	Every int `json:"every,omitempty"` // a model is called for each multiple of this number
	N     int `json:"n"`
}

type counted struct {
	N int `json:"n"`
}

// newCounter returns a graph with one step per number, for threads with many checkpoints.
func newCounter() (treadle.AnyGraph, error) {
	return erased(counter("counter"))
}

// newTally returns a graph that counts in a subgraph, for subgraphs with many checkpoints.
func newTally() (treadle.AnyGraph, error) {
	inner, err := counter("inner").Compile(nil)
	if err != nil {
		return nil, err
	}
	b := treadle.New[count]("tally")
	treadle.AddGraph(b, "inner", inner)
	b.Edge(treadle.Start, "inner")
	return erased(b)
}

// newNest returns a graph with two subgraphs, which count in a subgraph of their own.
func newNest() (treadle.AnyGraph, error) {
	inner, err := counter("inner").Compile(nil)
	if err != nil {
		return nil, err
	}
	b := treadle.New[count]("nest")
	for _, name := range []string{"left", "right"} {
		side := treadle.New[count](name)
		treadle.AddGraph(side, "inner", inner)
		side.Edge(treadle.Start, "inner")
		compiled, err := side.Compile(nil)
		if err != nil {
			return nil, err
		}
		treadle.AddGraph(b, name, compiled)
	}
	b.Sequence(treadle.Start, "left", "right", treadle.End)
	return erased(b)
}

func counter(name string) *treadle.Builder[count] {
	b := treadle.New[count](name)
	treadle.AddNode(b, "add", func(ctx context.Context, s count) (counted, error) {
		n := s.N + 1
		if s.Every > 0 && n%s.Every == 0 {
			if _, err := llm.Generate(ctx, metered{}, llm.User(strconv.Itoa(n))); err != nil {
				return counted{}, err
			}
		}
		return counted{n}, nil
	})
	b.Edge(treadle.Start, "add")
	treadle.AddBranch(b, "add", func(_ context.Context, s count) (treadle.Goto, error) {
		if s.N < s.Upto {
			return treadle.To("add"), nil
		}
		return treadle.To(treadle.End), nil
	}, treadle.Label(treadle.End, "false"), treadle.Label("add", "true"))
	return b
}

type bulk struct {
	Rows int    `json:"rows"`
	Text string `json:"text"`
	Data []item `json:"data"`
	Done bool   `json:"done"`
}

type item struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
	Text string `json:"text"`
}

type filled struct {
	Text string `json:"text"`
	Data []item `json:"data"`
}

type finished struct {
	Done bool `json:"done"`
}

// newBulk returns a graph with a large state: a thousand rows take a megabyte, and so
// does the text.
func newBulk() (treadle.AnyGraph, error) {
	b := treadle.New[bulk]("bulk")
	treadle.AddNode(b, "fill", func(_ context.Context, s bulk) (filled, error) {
		out := filled{Text: strings.Repeat("a long line of words ", s.Rows*50)}
		for i := range s.Rows {
			out.Data = append(out.Data, item{i, "row", strings.Repeat("cell ", 200)})
		}
		return out, nil
	})
	treadle.AddNode(b, "finish", func(context.Context, bulk) (finished, error) { return finished{true}, nil })
	b.Edge(treadle.Start, "fill")
	b.Edge("fill", "finish")
	return erased(b)
}

type said struct {
	Messages llm.Messages `json:"messages"`
}

// newTraced returns a graph with everything that a trace shows: a subgraph, a model that
// reports its usage, and a tool.
func newTraced() (treadle.AnyGraph, error) {
	inner := treadle.New[llm.Chat]("inner")
	treadle.AddNode(inner, "model", func(ctx context.Context, s llm.Chat) (said, error) {
		answer, err := llm.Generate(ctx, metered{}, s.Messages...)
		return said{llm.Messages{answer}}, err
	})
	treadle.AddNode(inner, "tool", func(_ context.Context, s llm.Chat) (said, error) {
		call := s.Messages[len(s.Messages)-1].ToolCalls[0]
		return said{llm.Messages{llm.ToolResult(call, "42")}}, nil
	})
	inner.Edge(treadle.Start, "model")
	inner.Edge("model", "tool")
	nested, err := inner.Compile(nil)
	if err != nil {
		return nil, err
	}
	b := treadle.New[llm.Chat]("traced")
	treadle.AddNode(b, "plan", func(context.Context, llm.Chat) (said, error) { return said{}, nil })
	treadle.AddGraph(b, "inner", nested)
	treadle.AddNode(b, "answer", func(ctx context.Context, s llm.Chat) (said, error) {
		answer, err := llm.Generate(ctx, metered{}, s.Messages...)
		return said{llm.Messages{answer}}, err
	})
	b.Edge(treadle.Start, "plan")
	b.Edge("plan", "inner")
	b.Edge("inner", "answer")
	return erased(b)
}

// metered first calls a tool and then responds word by word, at the pace that the first
// message names, if any ("paced NAME").
type metered struct{}

// Describe implements [llm.Describer].
func (metered) Describe() llm.Info { return llm.Info{Provider: "openai", Model: "gpt-4o-mini"} }

// Stream implements [llm.Model].
func (metered) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	used := &llm.Usage{Input: 12, Output: 7, Total: 19}
	as := map[string]any{"model_name": "gpt-4o-mini-2024-07-18"} // as the provider reports it
	if req.Messages[len(req.Messages)-1].Role != llm.RoleTool {
		return func(yield func(llm.Chunk, error) bool) {
			yield(llm.Chunk{ToolCalls: []llm.ToolCallChunk{{Index: new(0), ID: "call_1", Name: "lookup", Args: `{"key":"answer"}`}}, Usage: used, Metadata: as}, nil)
		}
	}
	wait := func() error { return delay.For(ctx, 40*time.Millisecond) } // gives its bar a width
	if name, ok := strings.CutPrefix(req.Messages[0].Text(), "paced "); ok {
		wait = func() error { return pace.wait(ctx, name) }
	}
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range inWords("The answer is 42, as all know who have read the book.", wait) {
			if !yield(c, err) || err != nil {
				return
			}
		}
		yield(llm.Chunk{Usage: used, Metadata: as}, nil)
	}
}

// NewClerk returns an agent whose calls have everything that a server records: a system prompt,
// parameters, tools of which one may fail, and a retried attempt.
func NewClerk(model llm.Model) (treadle.AnyGraph, error) {
	weather := llm.NewTool("get_weather", "The weather in a city.", func(_ context.Context, c city) (string, error) {
		if c.City == "Atlantis" {
			return "", errors.New("no station in Atlantis")
		}
		return "sunny in " + c.City, nil
	})
	retried := llm.Retry(model, &treadle.RetryPolicy{Initial: time.Millisecond, NoJitter: true, On: func(error) bool { return true }})
	return agent.New(llm.With(retried, llm.Temperature(0.2), llm.MaxTokens(100)), &agent.Options{
		Name: "clerk", Prompt: "You are a terse clerk.", Tools: []*llm.Tool{weather},
	})
}

func newClerk() (treadle.AnyGraph, error) { return NewClerk(&clerk{}) }

// clerk is a model that asks for the weather in the city that a message names, and then
// responds. Its first call for each user message fails.
type clerk struct{ busy sync.Map }

// Stream implements [llm.Model].
func (c *clerk) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.RoleTool {
		return inWords("It is "+last.Text()+".", nil)
	}
	if _, again := c.busy.LoadOrStore(treadle.InfoFrom(ctx).TaskID, true); !again {
		return func(yield func(llm.Chunk, error) bool) { yield(llm.Chunk{}, errors.New("the clerk is busy")) }
	}
	return calls("get_weather", strings.Fields(last.Text()), func(where string) any { return city{where} })
}

type tries struct {
	Fails int `json:"fails"`
	Calls int `json:"calls"`
}

type tried struct {
	Calls int `json:"calls"`
}

// newFlaky returns a graph with a node that fails as often as its input demands and has
// three attempts.
func newFlaky() (treadle.AnyGraph, error) {
	b := treadle.New[tries]("flaky")
	treadle.AddNode(b, "call", func(ctx context.Context, s tries) (tried, error) {
		n := treadle.InfoFrom(ctx).Attempt
		if n <= s.Fails {
			return tried{}, fmt.Errorf("line is busy (%d)", n)
		}
		return tried{n}, nil
	}, treadle.Retry(treadle.RetryPolicy{Initial: 20 * time.Millisecond, NoJitter: true, On: func(error) bool { return true }}))
	b.Edge(treadle.Start, "call")
	return erased(b)
}

// erased compiles a graph and erases its type.
func erased[S any](b *treadle.Builder[S]) (treadle.AnyGraph, error) {
	g, err := b.Compile(nil)
	if err != nil {
		return nil, err
	}
	return g, nil
}
