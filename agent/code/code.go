package code

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
)

// Options configures [Mode]. A nil *Options means the defaults.
type Options struct {
	// Tools lists the tools that scripts may call; empty means all tools that the agent
	// runs.
	Tools []string
	// Only hides these tools from the model, which then calls them only in scripts.
	Only bool
	// Calls is the maximum number of tool calls of a script; 0 means 256.
	Calls int
	// Time limits the time that a script computes; 0 means 5 seconds. The time of its tool
	// calls does not count.
	Time time.Duration
	// Memory limits the memory of a script in bytes; 0 means 64 MiB, and at least 1 MiB is
	// required.
	Memory int64
	// Output is the maximum number of bytes of a script's result, and of its log; 0 means
	// 20,000 each. More is cut off.
	Output int
	// Source is the maximum number of bytes of a script; 0 means 100,000.
	Source int
}

// toolName is the name of the tool.
const toolName = "run_code"

const minMemory = 1 << 20

// mode is the middleware.
type mode struct {
	Options

	mu        sync.Mutex
	tools     []*llm.Tool // of the last model call
	described *llm.Tool   // for these tools
}

// Mode lets the model write scripts. It adds the tool run_code, which runs JavaScript that
// calls the agent's other tools as functions. The description of run_code lists the tools
// that the model sees, so list Mode after middleware that selects tools.
//
// The calls of a script are nested calls: see [agent.Calls]. They are recorded one by one,
// and gates, limits, permissions, and other middleware apply to them. If the run is
// interrupted or its process is killed, the script is replayed on the recorded results. Its
// clock stands still between calls, and its random numbers are recorded.
//
// A script has no access to files, networks, processes, or modules except through tools. It
// is limited in time, memory, output, and calls. Tool errors are exceptions, which the script
// can catch. If the script fails, the model gets a result that it can act on.
func Mode(opts *Options) *agent.Middleware {
	m := &mode{}
	if opts != nil {
		m.Options = *opts
	}
	check := m.check()
	m.Calls = cmp.Or(m.Calls, 256)
	m.Time = cmp.Or(m.Time, 5*time.Second)
	m.Memory = cmp.Or(m.Memory, 64<<20)
	m.Output = cmp.Or(m.Output, 20_000)
	m.Source = cmp.Or(m.Source, 100_000)
	return &agent.Middleware{Name: "code", Tools: []*llm.Tool{llm.NewTool(toolName, description, m.run)}, WrapModel: m.describe,
		Check: func(s agent.Setup) error { return errors.Join(check, s.RequireOwnTools(m.Options.Tools...)) }}
}

func (m *mode) check() error {
	var err error
	for _, limit := range []struct {
		name  string
		value int64
		text  any
	}{{"Calls", int64(m.Calls), m.Calls}, {"Time", int64(m.Time), m.Time}, {"Output", int64(m.Output), m.Output}, {"Source", int64(m.Source), m.Source}} {
		if limit.value < 0 {
			err = errors.Join(err, fmt.Errorf("invalid %s %v: want more than 0, or 0 for the default", limit.name, limit.text))
		}
	}
	if m.Memory != 0 && m.Memory < minMemory {
		err = errors.Join(err, fmt.Errorf("invalid Memory %d: want %d bytes or more, or 0 for the default", m.Memory, minMemory))
	}
	if slices.Contains(m.Tools, toolName) {
		err = errors.Join(err, fmt.Errorf("Options.Tools lists %s: a script cannot run scripts", toolName))
	}
	return err
}

// callable reports whether scripts may call a tool.
func (m *mode) callable(t *llm.Tool) bool {
	return t.Run != nil && t.Name != toolName && (len(m.Options.Tools) == 0 || slices.Contains(m.Options.Tools, t.Name))
}

// describe lists the callable tools in the description of run_code.
func (m *mode) describe(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
	i := slices.IndexFunc(call.Tools, func(t *llm.Tool) bool { return t.Name == toolName })
	if i < 0 {
		return next(ctx, call)
	}
	own := m.describedFor(call.Tools, call.Tools[i])
	tools := make([]*llm.Tool, 0, len(call.Tools))
	for at, t := range call.Tools {
		switch {
		case at == i:
			tools = append(tools, own)
		case !m.Only || !m.callable(t):
			tools = append(tools, t)
		}
	}
	call.Tools = tools
	return next(ctx, call)
}

// describedFor returns run_code as the model sees it.
func (m *mode) describedFor(tools []*llm.Tool, own *llm.Tool) *llm.Tool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.described != nil && slices.Equal(m.tools, tools) {
		return m.described
	}
	var callable []*llm.Tool
	for _, t := range tools {
		if m.callable(t) {
			callable = append(callable, t)
		}
	}
	t := *own
	t.Description += "\n\n" + declarations(callable, m.Only)
	m.tools, m.described = slices.Clone(tools), &t
	return &t
}

const description = `Runs a script in JavaScript that calls tools as functions. Use it to make several calls, to loop, filter, or combine results, instead of one call per response.

- The script is the body of an async function: await each call, and end with return. Only the returned value and console.log reach you, so return what you need and no more.
- Promise.all runs calls at the same time.
- A failed call throws an Error with the message. Catch it if you can continue without the result.
- There are no modules, files, network, or timers, except through tools. Each script starts from scratch, without earlier variables.`

type runArgs struct {
	Code string `json:"code" jsonschema:"the body of an async function in JavaScript"`
}

// run runs a script. Problems that the model can solve are results.
func (m *mode) run(ctx context.Context, in runArgs) (any, error) {
	if len(in.Code) > m.Source {
		return problem("", fmt.Sprintf("the script is too long: %d bytes, at most %d", len(in.Code), m.Source)), nil
	}
	calls, err := agent.NewCalls(ctx)
	if err != nil {
		return nil, err
	}
	// The engine's version is part of the recorded name: if another version has started the
	// script, the recorded calls cannot be matched, so the run fails, and nothing is done again.
	begun, err := treadle.Do(ctx, toolName+" with engine "+engine, func(context.Context) (start, error) { return newStart(), nil })
	if _, changed := errors.AsType[*treadle.OrderError](err); changed {
		return nil, fmt.Errorf("code: replay script: started by another version of the engine: cancel the run, or finish it with the old program: %w", err)
	}
	if err != nil {
		return nil, err
	}
	s := &script{mode: m, ctx: ctx, source: in.Code, start: begun, calls: calls, names: []string{}}
	for _, t := range calls.Tools() {
		if m.callable(t) {
			s.names = append(s.names, t.Name)
		}
	}
	return s.result()
}

// problem returns the result of a script that failed.
func problem(log, text string) llm.Message {
	return llm.Message{Status: llm.StatusError, Content: output(log, "Error: "+text)}
}

// output joins the log and the result.
func output(log, value string) string {
	if log == "" {
		return value
	}
	return "Log:\n" + strings.TrimSuffix(log, "\n") + "\n\n" + value
}

// cut shortens a text to limit bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s… (cut: %d of %d bytes)", strings.ToValidUTF8(text[:limit], ""), limit, len(text))
}

// start is what a script needs in addition to the results of its calls to be replayed.
type start struct {
	Time int64 `json:"time"` // milliseconds
	Seed int32 `json:"seed"`
}

func (s start) json() string {
	raw, _ := json.Marshal([]int64{s.Time, int64(s.Seed)}) // numbers
	return string(raw)
}
