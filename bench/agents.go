package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// ourAgents is the part of the catalog about agents and conversations.
var ourAgents = []work{
	newMessageWork("react10", "", ourReact(10, 1)),
	newMessageWork("react100", "", ourReact(100, 1)),
	newMessageWork("react10_memory", "a fresh thread each run", ourReactMemory(10)),
	newMessageWork("react100_memory", "a fresh thread each run", ourReactMemory(100)),
	newMessageWork("tool_parallel50", "", ourReact(1, 50)),
	newMessageWork("message_reduce_10k", "", reduceMessages),
	newMessageWork("trim_10k", "", trimMessages),
}

// talking runs a job once and returns the final number of messages.
type talking func(ctx context.Context) (messages int, err error)

// newMessageWork is like newWork, but for jobs whose result is a conversation.
func newMessageWork(name, note string, build func(j job) (talking, error)) work {
	j := mustFind(name)
	var run talking
	return work{name: j.name, unit: j.unit, n: j.n, note: note, run: func(ctx context.Context) (err error) {
		if run == nil {
			if run, err = build(j); err != nil {
				return fmt.Errorf("%s: build: %w", name, err)
			}
		}
		n, err := run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return j.checkMessages(n)
	}}
}

// caller is a model that calls tools for a number of turns and then finishes. It
// counts the turns in the conversation, as models do. A response is a single chunk
// and costs almost nothing, so the job measures the agent around it.
type caller struct {
	rounds, calls int
}

// Stream implements [llm.Model].
func (c caller) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		round := (len(req.Messages) - 1) / (1 + c.calls)
		id := "answer-" + strconv.Itoa(round)
		if round == c.rounds {
			yield(llm.Chunk{ID: id, Content: "done", Stop: llm.StopEnd}, nil)
			return
		}
		calls := make([]llm.ToolCallChunk, c.calls)
		for i := range calls {
			n := strconv.Itoa(round*c.calls + i)
			calls[i] = llm.ToolCallChunk{Index: new(i), ID: "call-" + n, Name: "double", Args: `{"n":` + n + `}`}
		}
		yield(llm.Chunk{ID: id, ToolCalls: calls, Stop: llm.StopTools}, nil)
	}
}

type number struct {
	N int `json:"n"`
}

var double = llm.NewTool("double", "Doubles a number.", func(_ context.Context, in number) (string, error) {
	return strconv.Itoa(2 * in.N), nil
})

func reactGraph(rounds, calls int, saver checkpoint.Saver) (*treadle.Graph[agent.State, agent.State], error) {
	return agent.New(caller{rounds, calls}, &agent.Options{
		Tools: []*llm.Tool{double},
		// The check, which go test enables, reads the whole input.
		Graph: treadle.Options{StepLimit: 2*rounds + 2, Saver: saver, Check: new(false)},
	})
}

func ourReact(rounds, calls int) func(job) (talking, error) {
	return func(job) (talking, error) {
		g, err := reactGraph(rounds, calls, nil)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (int, error) {
			out, err := g.Run(ctx, agent.Ask("Double the numbers."))
			return len(out.Messages), err
		}, nil
	}
}

func ourReactMemory(rounds int) func(job) (talking, error) {
	return func(job) (talking, error) {
		saver := checkpoint.NewMemory()
		g, err := reactGraph(rounds, 1, saver)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (int, error) {
			out, err := g.Thread("t").Run(ctx, agent.Ask("Double the numbers."))
			if err != nil {
				return 0, err
			}
			return len(out.Messages), saver.DeleteThread(ctx, "t")
		}, nil
	}
}

// longTalk returns a conversation of n messages.
func longTalk(n int) llm.Messages {
	ms := make(llm.Messages, n)
	for i := range ms {
		if i%2 == 0 {
			ms[i] = llm.User(strings.Repeat("What about the owls? ", 5))
		} else {
			ms[i] = llm.Assistant(strings.Repeat("They fly at night. ", 10))
		}
		ms[i].ID = strconv.Itoa(i)
	}
	return ms
}

// reduceMessages merges messages one after the other, as a graph does.
func reduceMessages(j job) (talking, error) {
	talk := longTalk(j.want)
	r := llm.Messages(nil).Reducer()
	return func(context.Context) (int, error) {
		var val, acc any
		for i := range talk {
			var err error
			if val, acc, err = r.Reduce(val, acc, talk[i:i+1:i+1], true); err != nil {
				return 0, err
			}
		}
		return len(val.(llm.Messages)), nil
	}, nil
}

func trimMessages(j job) (talking, error) {
	talk := longTalk(j.want)
	return func(ctx context.Context) (int, error) {
		const most = 4000
		got, err := llm.Trim(ctx, talk, &llm.TrimOptions{MaxTokens: most, StartOn: []llm.Role{llm.RoleHuman}})
		if err != nil {
			return 0, err
		}
		if n := llm.CountTokens(got, nil); n > most || n < most*9/10 || got[0].Role != llm.RoleHuman {
			return 0, fmt.Errorf("%d messages with %d tokens left", len(got), n)
		}
		return len(talk), nil
	}, nil
}
