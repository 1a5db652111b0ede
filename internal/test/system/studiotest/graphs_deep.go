package studiotest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/code"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// newCoder returns an agent that answers with a script, which calls a tool twice, the second
// time in vain.
func newCoder() (treadle.AnyGraph, error) {
	type order struct {
		Item string `json:"item"`
	}
	price := llm.NewTool("price", "price returns the price of an item.", func(_ context.Context, in order) (int, error) {
		if in.Item == "tea" {
			return 4, nil
		}
		return 0, fmt.Errorf("no price of %s", in.Item)
	})
	const script = `const tea = await tools.price({item: "tea"});
try {
  await tools.price({item: "coal"});
} catch (err) {
  return {tea};
}`
	model := llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		if req.Messages[len(req.Messages)-1].Role == llm.RoleTool {
			return llm.Assistant("Tea costs 4."), nil
		}
		return llm.Assistant("", llmtest.ToolCall("run_code", map[string]string{"code": script})), nil
	})
	return agent.New(model, &agent.Options{Name: "coder", Tools: []*llm.Tool{price}, Middleware: []*agent.Middleware{code.Mode(nil)}})
}

// newScribe returns a deep agent that plans, writes and edits a file, and gives a task away.
func newScribe() (treadle.AnyGraph, error) {
	reader := deep.Subagent{Name: "reader", Description: "reads files"}
	counter := deep.Subagent{Name: "counter", Description: "counts lines", Subagents: []deep.Subagent{reader}}
	return deep.New(scribe{}, &deep.Options{Name: "scribe", Subagents: []deep.Subagent{counter}})
}

// scribe is a model that follows a script, also as its own sub-agents.
type scribe struct{}

// Stream implements [llm.Model].
func (scribe) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	turn, asked := 0, ""
	for _, m := range req.Messages {
		switch m.Role {
		case llm.RoleAI:
			turn++
		case llm.RoleHuman:
			asked = m.Text()
		}
	}
	switch {
	case asked == readLines:
		return inWords("One, second, three.", nil)
	case asked == countLines && turn == 0:
		return call("task", map[string]string{"subagent_type": "reader", "description": readLines})
	case asked == countLines:
		return inWords("It has three lines.", nil)
	}
	todos := func(first, second string) any {
		return map[string]any{"todos": []agent.Todo{{Content: "Write the notes", Status: first}, {Content: "Count their lines", Status: second}}}
	}
	const file = "/notes.md"
	switch turn {
	case 0:
		return call("write_todos", todos("in_progress", "pending"))
	case 1:
		return call("write_file", map[string]string{"file_path": file, "content": "one\ntwo\nthree\n"})
	case 2:
		return call("edit_file", map[string]string{"file_path": file, "old_string": "two", "new_string": "second"})
	case 3:
		return call("task", map[string]string{"subagent_type": "counter", "description": countLines})
	case 4:
		return call("write_todos", todos("completed", "completed"))
	default:
		return inWords("The notes are written.", nil)
	}
}

const (
	countLines = "Count the lines of /notes.md."
	readLines  = "Read /notes.md."
)

// call is a response that calls a tool.
func call(tool string, args any) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		raw, err := json.Marshal(args)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		yield(llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: fmt.Sprintf("call_%s_%x", tool, len(raw)), Name: tool, Args: string(raw)}}}, nil)
	}
}
