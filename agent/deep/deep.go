package deep

import (
	"cmp"
	"context"
	"errors"
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
	// Tools lists additional tools of the agent.
	Tools []*llm.Tool
	// ToolOptions configures tool calls, including those of sub-agents.
	ToolOptions agent.ToolOptions
	// Middleware is added to the parts of the agent and of its sub-agents, so that gates,
	// limits, redaction, and other guards apply at every level. A limit counts the calls of
	// each task of a sub-agent separately. Middleware named files, shell, subagents, todos,
	// context, skills, background, or memory replaces the part of that name. Sub-agents do
	// not inherit subagents, background, and memory; only the general-purpose agent
	// inherits skills.
	Middleware []*agent.Middleware
	// Files configures the file tools.
	Files FilesOptions
	// Shell, if its Sandbox is set, gives the agent and its sub-agents a tool that runs
	// commands. Its files are then the sandbox's files, unless Files.Backend is set.
	Shell ShellOptions
	// Subagents lists agents for tasks, in addition to a general-purpose agent.
	Subagents []Subagent
	// NoGeneral omits the general-purpose agent.
	NoGeneral bool
	// Background lists agents that work in the background; see [InBackground].
	Background []BackgroundAgent
	// Skills lists the sources of skills, by increasing priority.
	Skills []SkillSource
	// SkillTools lists the tools of skills; see [SkillsOptions].Tools. Sub-agents with skills
	// get them too.
	SkillTools map[string][]*llm.Tool
	// Memory lists files with instructions, such as "/AGENTS.md", that are part of the
	// prompt. The agent edits them unless a permission denies it.
	Memory []string
	// Context configures the shortening of long conversations.
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
// Each part is a middleware that also works in [agent.New]: [agent.Todos], [Files], [Shell],
// [Subagents], [InBackground], [Compact], [Skills], and [Memory].
func New(model llm.Model, opts *Options) (*treadle.Graph[State, State], error) {
	if opts == nil {
		opts = &Options{}
	}
	if len(opts.SkillTools) > 0 && len(opts.Skills) == 0 && len(opts.Subagents) == 0 {
		return nil, errors.New("deep: SkillTools have no effect: set Skills")
	}
	if opts.Shell.Sandbox != nil && opts.Files.Backend == nil {
		with := *opts
		with.Files.Backend = opts.Shell.Sandbox.Files()
		opts = &with
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
	var last []*agent.Middleware
	if len(o.Background) > 0 {
		last = append(last, InBackground(o.Background...))
	}
	if len(o.Memory) > 0 { // last, so that a changed file does not change the start of the prompt
		last = append(last, Memory(&MemoryOptions{Paths: o.Memory, Backend: o.Files.Backend}))
	}
	return o.parts(model, nil, last...)
}

// parts returns the middleware of an agent or a sub-agent. above are the tools of the agents
// that it works for.
func (o *Options) parts(model llm.Model, above []*llm.Tool, last ...*agent.Middleware) []*agent.Middleware {
	own := []*agent.Middleware{Files(&o.Files)}
	if o.hasShell() {
		own = append(own, Shell(&o.Shell))
	}
	// tasks holds the place of the sub-agents, which are made when all tools are known.
	tasks := &agent.Middleware{Name: partSubagents, Tools: []*llm.Tool{llm.NewTool(toolTask, "", (*subagents)(nil).task)}}
	if !o.NoGeneral || len(o.Subagents) > 0 {
		own = append(own, tasks)
	}
	shorten := o.Context
	shorten.messages = cmp.Or(o.Files.MessageLimit, defaultMessage)
	own = append(own, agent.Todos(), Compact(&shorten))
	if len(o.Skills) > 0 {
		own = append(own, Skills(&SkillsOptions{Sources: o.Skills, Backend: o.Files.Backend, Tools: o.SkillTools, Sandbox: o.Shell.Sandbox}))
	}
	all := replaced(append(own, last...), o.Middleware)
	if len(o.Files.Permissions) > 0 && !slices.Contains(all, own[0]) {
		err := errors.New("permissions have no effect: middleware files replaces the file tools: set the permissions of that middleware")
		all = append(all, &agent.Middleware{Name: "permissions", Check: func(agent.Setup) error { return err }})
	}
	if i := slices.Index(all, tasks); i >= 0 {
		all[i] = o.subagents(model, slices.Concat(above, o.Tools, toolsOf(all)))
	}
	return all
}

// hasShell reports whether any field of Shell is set: options without a sandbox are a mistake,
// which the middleware reports.
func (o *Options) hasShell() bool {
	return o.Shell.Sandbox != nil || len(o.Shell.Permissions) > 0 || o.Shell.At != "" || o.Shell.OutputLimit != 0
}

// replaced returns the middleware of base and then of own, which replaces the middleware of the
// same name in its place.
func replaced(base, own []*agent.Middleware) []*agent.Middleware {
	named := func(all []*agent.Middleware, like *agent.Middleware) (same []*agent.Middleware) {
		for _, m := range all {
			if m != nil && like != nil && m.Name == like.Name {
				same = append(same, m)
			}
		}
		return same
	}
	var out []*agent.Middleware
	for _, m := range base {
		switch by := named(own, m); {
		case by == nil:
			out = append(out, m)
		case !slices.Contains(out, by[0]):
			out = append(out, by...)
		}
	}
	for _, m := range own {
		if named(base, m) == nil {
			out = append(out, m)
		}
	}
	return out
}

func toolsOf(all []*agent.Middleware) (tools []*llm.Tool) {
	for _, m := range all {
		if m != nil {
			tools = append(tools, m.Tools...)
		}
	}
	return tools
}

// subagents returns the sub-agents, which have the same parts and middleware.
func (o *Options) subagents(model llm.Model, tools []*llm.Tool) *agent.Middleware {
	return Subagents(model, &SubagentsOptions{Agents: o.Subagents, NoGeneral: o.NoGeneral, Tools: o.Tools, toolOptions: o.ToolOptions,
		Middleware: func(s Subagent) []*agent.Middleware {
			general := s.Name == generalName && s.Skills == nil
			child := Options{Tools: o.Tools, ToolOptions: o.ToolOptions, Files: o.Files, Shell: o.Shell, Context: o.Context,
				Skills: s.Skills, SkillTools: o.SkillTools, Subagents: s.Subagents, NoGeneral: true}
			child.Files.Permissions = s.Permissions // this agent's permissions apply too: see withPolicy
			if general {
				child.Skills = o.Skills
			}
			if s.Tools != nil {
				child.Tools = s.Tools
			}
			for _, m := range o.Middleware {
				if m != nil && !slices.Contains(notInherited, m.Name) && (m.Name != partSkills || general) {
					child.Middleware = append(child.Middleware, inherited(m, tools))
				}
			}
			child.Middleware = replaced(child.Middleware, s.Middleware)
			if s.Model != nil {
				return child.parts(s.Model, tools)
			}
			return child.parts(model, tools)
		}})
}

const (
	partSubagents = "subagents"
	partSkills    = "skills"
)

// notInherited are the parts that only the agent itself has.
var notInherited = []string{partSubagents, "background", "memory"}

// inherited returns the middleware of an agent for a sub-agent. It may name tools that the
// agent has but the sub-agent lacks: a gate for such a tool is not a mistake.
func inherited(m *agent.Middleware, tools []*llm.Tool) *agent.Middleware {
	out := *m
	if m.Check != nil {
		out.Check = func(s agent.Setup) error {
			s.Tools = slices.Concat(s.Tools, tools)
			return m.Check(s)
		}
	}
	return &out
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
