package deep

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

// State is the state of a deep agent.
type State struct {
	agent.State
	// Files are the files of the thread; see [files.Thread]. In an input, they are added
	// to the files of the thread.
	Files files.Records `json:"files"`
	Todos []agent.Todo  `json:"todos"`
}

// Ask returns an input with one message from the user.
func Ask(text string) State { return State{State: agent.Ask(text)} }

// Answer returns the text of the last message.
func Answer(s State) string { return agent.Answer(s.State) }

// Options configures a deep agent. A nil *Options means the defaults.
type Options struct {
	// Name is the name of the graph and of the agent.
	Name string
	// Prompt is the first part of the system prompt.
	Prompt string
	// Tools are the tools that the agent has in addition to those of its parts.
	Tools []*llm.Tool
	// ToolOptions configures tool calls.
	ToolOptions agent.ToolOptions
	// Middleware is added to the agent's parts. Middleware named files, subagents,
	// context, todos, skills,
	// background, or memory replaces the part of that name.
	Middleware []*agent.Middleware
	// Files configures the file tools.
	Files FilesOptions
	// Subagents lists agents that the agent may give tasks to, in addition to a
	// general-purpose agent.
	Subagents []Subagent
	// NoGeneral omits the general-purpose agent.
	NoGeneral bool
	// Background lists agents that work in the background; see [InBackground].
	Background []BackgroundAgent
	// Skills lists where to find skills, by increasing priority.
	Skills []SkillSource
	// Memory lists files with instructions, such as "/AGENTS.md", that are part of the
	// prompt. The agent edits them unless a permission denies it.
	Memory []string
	// Context configures how a long conversation is shortened.
	Context ContextOptions
	// Response, if not nil, adds a structured response at the end of the run.
	Response *agent.Response
	// Graph configures the graph. Its StepLimit defaults to 9999.
	Graph treadle.Options
}

const defaultName = "deep"

const defaultPrompt = `You complete tasks with your tools, from start to finish.

- Find out what is really asked, and look at the facts before you decide. Act instead of announcing what you will do.
- Verify the result against the request before you report it. If something fails repeatedly, look for the cause instead of trying again.
- Do not stop before the task is done, unless you are blocked or a decision is the user's. Then ask for the minimum, and for nothing that was given.
- Be accurate rather than agreeable, and brief: no preamble, no summary of the obvious.`

// New returns an agent for long tasks: it plans with a list of to-dos, works with files,
// gives tasks to sub-agents, has skills and memory files, and shortens its conversation.
//
//	a, err := deep.New(model, &deep.Options{Graph: treadle.Options{Saver: saver}})
//	out, err := a.Thread("1").Run(ctx, deep.Ask("Compare the papers in /papers."))
//
// Each part is a middleware that also works in [agent.New]: [agent.Todos], [Files],
// [Subagents], [InBackground], [Compact], [Skills], and [Memory].
func New(model llm.Model, opts *Options) (*treadle.Graph[State, State], error) {
	if opts == nil {
		opts = &Options{}
	}
	own := &agent.Options{Name: opts.Name, Prompt: defaultPrompt, Tools: opts.Tools, ToolOptions: opts.ToolOptions,
		Middleware: opts.assemble(model), Response: opts.Response, Graph: opts.Graph}
	if own.Name == "" {
		own.Name = defaultName
	}
	if opts.Prompt != "" {
		own.Prompt = opts.Prompt + "\n\n" + defaultPrompt
	}
	if own.Graph.StepLimit == 0 {
		own.Graph.StepLimit = childSteps
	}
	g, err := agent.For[State](model, own)
	if err != nil {
		return nil, fmt.Errorf("deep: %w", err)
	}
	return g, nil
}

// assemble returns the middleware in a fixed order, so that the prompt and the list of
// tools are the same in each call, and providers can cache them.
func (o *Options) assemble(model llm.Model) []*agent.Middleware {
	parts := o.common(o.Skills)
	if !o.NoGeneral || len(o.Subagents) > 0 {
		parts = slices.Insert(parts, 1, o.subagents(model, o.Subagents, o.NoGeneral))
	}
	if len(o.Background) > 0 {
		parts = append(parts, InBackground(o.Background...))
	}
	if len(o.Memory) > 0 { // last, so that a changed file leaves the start of the prompt as it is
		parts = append(parts, Memory(&MemoryOptions{Paths: o.Memory, Backend: o.Files.Backend}))
	}
	var added []*agent.Middleware
	for _, m := range o.Middleware {
		i := slices.IndexFunc(parts, func(p *agent.Middleware) bool { return m != nil && p.Name == m.Name })
		if i < 0 {
			added = append(added, m)
		} else {
			parts[i] = m
		}
	}
	return append(parts, added...)
}

// common returns the middleware of the agent and of each sub-agent.
func (o *Options) common(skills []SkillSource) []*agent.Middleware {
	parts := []*agent.Middleware{Files(&o.Files), agent.Todos(), Compact(&o.Context)}
	if len(skills) > 0 {
		parts = append(parts, Skills(&SkillsOptions{Sources: skills, Backend: o.Files.Backend}))
	}
	return parts
}

// subagents returns the sub-agents, which have the same parts.
func (o *Options) subagents(model llm.Model, agents []Subagent, noGeneral bool) *agent.Middleware {
	return Subagents(model, &SubagentsOptions{Agents: agents, NoGeneral: noGeneral, Tools: o.Tools, Middleware: func(s Subagent) []*agent.Middleware {
		child := *o
		child.Files.above, _ = compilePolicy(o.Files.Permissions) // Files reports the error
		child.Files.above = append(child.Files.above, o.Files.above...)
		child.Files.Permissions = s.Permissions
		skills := s.Skills
		if s.Name == generalName && skills == nil {
			skills = o.Skills
		}
		parts := child.common(skills)
		if len(s.Subagents) > 0 {
			if s.Tools != nil {
				child.Tools = s.Tools
			}
			own := model
			if s.Model != nil {
				own = s.Model
			}
			parts = slices.Insert(parts, 1, child.subagents(own, s.Subagents, true))
		}
		return parts
	}})
}

// appendPrompt adds a part to the system prompt of a call.
func appendPrompt(call agent.ModelCall, text string) agent.ModelCall {
	if call.System != "" && text != "" {
		text = "\n\n" + text
	}
	call.System += text
	return call
}

// backendFields are the fields that a hook reads to use a backend.
type backendFields struct {
	Files files.Records `json:"files"`
}

// within returns a context in which a hook can use a backend.
func (f backendFields) within(ctx context.Context) (context.Context, *files.Overlay) {
	return files.WithOverlay(ctx, f.Files)
}
