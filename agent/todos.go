package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// Todo is an item of an agent's to-do list.
type Todo struct {
	Content string `json:"content" jsonschema:"what is to be done"`
	Status  string `json:"status" enum:"pending,in_progress,completed"`
}

const toolTodos = "write_todos"

const todosPrompt = "You have a to-do list, which " + toolTodos + " writes. For a task of three or more steps write one before you begin, " +
	"mark the item that you are at as in_progress and each one as completed as soon as it is done, and add what turns out to be needed. " +
	"The tool replaces the whole list, so call it at most once in an answer. Do not use it for what takes a step or two."

// Todos gives the agent a to-do list. It adds the tool write_todos, which replaces
// the list, and a prompt that explains it. The list is the field todos of the
// thread's state. To read it, give the agent's state a field Todos []Todo
// `json:"todos"`. If a message calls the tool several times, all these calls get an
// error as their result, because each would overwrite the others.
func Todos() *Middleware {
	write := llm.NewTool(toolTodos, "Replaces the to-do list.", func(ctx context.Context, in struct {
		Todos []Todo `json:"todos" jsonschema:"the whole list"`
	}) (treadle.Command[todoUpdate], error) {
		call, _ := llm.CallFrom(ctx)
		var b strings.Builder
		for _, t := range in.Todos {
			fmt.Fprintf(&b, "\n- [%s] %s", t.Status, t.Content)
		}
		return treadle.Command[todoUpdate]{Update: &todoUpdate{in.Todos, llm.Messages{llm.ToolResult(call, "Updated the to-do list:"+b.String())}}}, nil
	})
	return &Middleware{
		Name:  "todos",
		Tools: []*llm.Tool{write},
		WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
			call.System = strings.TrimPrefix(call.System+"\n\n"+todosPrompt, "\n\n")
			return next(ctx, call)
		},
		AfterModel: NewHook(oneList),
	}
}

type todoUpdate struct {
	Todos    []Todo `json:"todos"`
	Messages llm.Messages
}

// todosRead declares the list as a field of the thread.
type todosRead struct {
	Todos    []Todo `json:"todos"`
	Messages llm.Messages
}

type todosWritten struct {
	Todos    *[]Todo `json:"todos"`
	Messages llm.Messages
}

// oneList rejects lists that would overwrite each other.
func oneList(_ context.Context, s todosRead) (*todosWritten, error) {
	var out llm.Messages
	for _, call := range pending(s.Messages) {
		if call.Name == toolTodos {
			out = append(out, llm.ToolResult(call, llm.Message{Status: llm.StatusError,
				Content: "Error: " + toolTodos + " must not be called several times in one answer: it replaces the whole list. Call it once."}))
		}
	}
	if len(out) < 2 {
		return nil, nil
	}
	return &todosWritten{Messages: out}, nil
}
