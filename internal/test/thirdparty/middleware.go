package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// Breaker stops calling a tool after it has failed the given number of times in a row. Later
// calls get an error as their result, and the tool does not run until the process restarts.
func Breaker(failures int, tools ...string) *agent.Middleware {
	b := &breaker{limit: failures, tools: tools, failed: map[string]int{}}
	return &agent.Middleware{Name: "breaker", WrapTool: b.call, Check: b.check}
}

type breaker struct {
	limit int
	tools []string

	mu     sync.Mutex
	failed map[string]int // failures in a row by tool
}

// check fails the build if an option is invalid. A misspelled tool would never be stopped.
func (b *breaker) check(s agent.Setup) error {
	var errs []error
	if b.limit < 1 {
		errs = append(errs, fmt.Errorf("invalid number of failures %d: want at least 1", b.limit))
	}
	if len(b.tools) == 0 {
		errs = append(errs, errors.New("no tools"))
	}
	return errors.Join(append(errs, s.RequireOwnTools(b.tools...))...)
}

func (b *breaker) call(ctx context.Context, call agent.ToolCall, next agent.ToolFunc) (any, error) {
	if !slices.Contains(b.tools, call.Name) {
		return next(ctx, call)
	}
	if b.open(call.Name) {
		return llm.Message{Content: call.Name + " is out of order. Do not call it again.", Status: llm.StatusError}, nil
	}
	out, err := next(ctx, call)
	if final := treadle.Propagate(ctx, err); final != nil {
		return nil, final // an interrupt or a failing saver is not a failure of the tool
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed[call.Name]++
	if err == nil {
		b.failed[call.Name] = 0
	}
	if b.failed[call.Name] == b.limit {
		treadle.LoggerFrom(ctx).WarnContext(ctx, "tool out of order", "tool", call.Name, "error", err)
	}
	return out, err
}

// open reports whether the tool must not run.
func (b *breaker) open(tool string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[tool] >= b.limit
}

// Titled is the field that [Titles] adds to the state of a thread.
type Titled struct{ Title string }

// Titles gives each thread a title, which the agent's own model writes at the end of the first
// turn. A thread without a title is not an error: the next turn tries again.
func Titles() *agent.Middleware {
	return &agent.Middleware{Name: "titles", AfterAgent: agent.NewHook(func(ctx context.Context, in titleInput) (*Titled, error) {
		if in.Title != "" {
			return nil, nil
		}
		m, err := llm.Generate(ctx, agent.ModelFrom(ctx), append(in.Messages, llm.User("Give this conversation a title."))...)
		if final := treadle.Propagate(ctx, err); final != nil {
			return nil, final
		}
		if err != nil {
			treadle.LoggerFrom(ctx).WarnContext(ctx, "thread not titled", "error", err)
			return nil, nil
		}
		return &Titled{m.Text()}, nil
	})}
}

type titleInput struct {
	Titled
	llm.Chat
}
