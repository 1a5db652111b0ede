package prompts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// maxRepairs is the maximum number of attempts to correct the result of the last step.
const maxRepairs = 2

// dialogue is a conversation with a model that ends when the model calls the result tool.
// The arguments of the call are the result. The model is offered these tools:
//
//	step  0 … thinking-1   think, critique
//	      thinking …       think, critique, the result
//	      steps-1          the result
//	      then             the result while it is invalid, at most
//	                       maxRepairs times
type dialogue[T any] struct {
	tool, description string
	check             func(*T) error // may modify the result
	thinking, steps   int
}

// run conducts the conversation and returns the result.
func (d dialogue[T]) run(ctx context.Context, model llm.Model, history ...llm.Message) (T, error) {
	var result T
	done := false
	end := llm.NewTool(d.tool, d.description, func(_ context.Context, in T) (string, error) {
		if err := d.check(&in); err != nil {
			return "", err
		}
		if !done { // the first of several results wins
			result, done = in, true
		}
		return replyNoted, nil
	})
	for step := 0; ; step++ {
		offered := d.offered(step, end)
		answer, err := llm.Generate(ctx, offering(model, offered), history...)
		if err == nil {
			err = unusable(&answer)
		}
		if err != nil {
			return result, err
		}
		replies, problem := callOffered(ctx, offered, &answer)
		if done {
			return result, nil
		}
		if step >= d.steps-1+maxRepairs {
			return result, fmt.Errorf("no %s after %d calls of the model: %w", d.tool, step+1, problem)
		}
		history = append(append(slices.Clip(history), answer), replies...)
	}
}

func (d dialogue[T]) offered(step int, end *llm.Tool) []*llm.Tool {
	switch {
	case step >= d.steps-1:
		return []*llm.Tool{end}
	case step < d.thinking:
		return []*llm.Tool{thinkTool, critiqueTool}
	}
	return []*llm.Tool{thinkTool, critiqueTool, end}
}

// replyNoted is the result of a tool call. It is not empty, because some providers reject
// empty results.
const replyNoted = "Noted."

type thought struct {
	Thought string `json:"thought" jsonschema:"what you think"`
}

type criticism struct {
	Criticism string `json:"criticism" jsonschema:"what may be wrong with your thoughts so far"`
}

// These tools do nothing; they let the model think.
var (
	thinkTool = llm.NewTool("think", "Thinks about the task.",
		func(context.Context, thought) (string, error) { return replyNoted, nil })
	critiqueTool = llm.NewTool("critique", "Doubts what was thought so far.",
		func(context.Context, criticism) (string, error) { return replyNoted, nil })
)

// offering returns the model with only these tools, and requires it to call one of them.
func offering(model llm.Model, tools []*llm.Tool) llm.Model {
	return llm.With(model, llm.OnlyTools(tools...), llm.ToolChoice(llm.ToolChoiceAny))
}

// unusable returns an error if the response cannot be repaired by another request.
func unusable(answer *llm.Message) error {
	switch answer.Stop {
	case llm.StopRefusal, llm.StopFilter:
		return fmt.Errorf("%w: %s", llm.ErrRefused, answer.Text())
	case llm.StopLength:
		return llm.ErrLength
	}
	return nil
}

// callOffered executes the tool calls of a response. problem is the last error reported to
// the model.
func callOffered(ctx context.Context, tools []*llm.Tool, answer *llm.Message) (replies []llm.Message, problem error) {
	for _, c := range answer.ToolCalls {
		i := slices.IndexFunc(tools, func(t *llm.Tool) bool { return t.Name == c.Name })
		if i < 0 {
			problem = fmt.Errorf("tool %q is not available now: call %s", c.Name, offeredNames(tools))
			replies = append(replies, llm.ToolResult(c, problem))
			continue
		}
		out, err := tools[i].Call(ctx, c)
		if failed, ok := errors.AsType[*llm.ToolError](err); ok {
			err = failed.Err // omit the tool name, which the model already knows
		}
		if err != nil {
			problem, out = err, err
		}
		replies = append(replies, llm.ToolResult(c, out))
	}
	for _, c := range answer.InvalidToolCalls {
		problem = errors.New(c.Error)
		replies = append(replies, llm.ToolResult(llm.ToolCall{ID: c.ID, Name: c.Name}, problem))
	}
	if len(replies) == 0 {
		problem = fmt.Errorf("no tool was called: call %s", offeredNames(tools))
		replies = append(replies, llm.User(problem.Error()))
	}
	return replies, problem
}

func offeredNames(tools []*llm.Tool) string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, " or ")
}
