package deep

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/llm"
)

// Subagent is an agent that another agent gives tasks to.
type Subagent struct {
	// Name is the name in the calls of the tool task: letters, digits, _, and -.
	Name string
	// Description describes the agent's purpose to the other agent.
	Description string
	// Prompt is the system prompt.
	Prompt string
	// Model, if not nil, replaces the model of the other agent.
	Model llm.Model
	// Tools, if not nil, replaces the tools of the other agent. The tools of middleware
	// are added.
	Tools []*llm.Tool
	// Middleware is added to the inherited middleware of the other agent.
	// Middleware with the name of an inherited one replaces it, even if it guards less:
	// [agent.Gates] of the agent replace the gates of the other agent.
	Middleware []*agent.Middleware
	// Permissions restrict the agent in addition to the permissions of the other
	// agent. An agent cannot have more permissions than its parent.
	Permissions []Permission
	// Skills are the agent's skills. Only the general-purpose agent inherits skills.
	Skills []SkillSource
	// Response, if not nil, requests a structured response, which becomes the result
	// of the task.
	Response *agent.Response
	// Subagents lists agents for tasks of this agent.
	Subagents []Subagent
	// Graph, if not nil, is used unchanged: only Name and Description apply. It inherits
	// the permissions of the other agent, and no middleware. It must have been built by
	// [New] or by [agent.For] with the type [State].
	Graph Runner
}

// A Runner runs an agent. A *treadle.Graph[State, State] is one.
type Runner interface {
	Run(ctx context.Context, in State) (State, error)
}

// SubagentsOptions configures [Subagents].
type SubagentsOptions struct {
	// Agents lists the agents.
	Agents []Subagent
	// NoGeneral omits the general-purpose agent, which has the tools and the
	// middleware of all agents. An agent of that name replaces it.
	NoGeneral bool
	// Tools are the tools of the agents that do not list their own.
	Tools []*llm.Tool
	// Middleware returns the middleware of each agent, in addition to
	// Subagent.Middleware; nil means none. It should include guards of Tools, such as
	// [agent.Gates], because the agents do not inherit the middleware of their parent,
	// unless [New] builds them. [Files] gives an agent the files of its parent's thread.
	Middleware func(s Subagent) []*agent.Middleware

	toolOptions agent.ToolOptions
}

const (
	toolTask    = "task"
	generalName = "general-purpose"
	childSteps  = 9999
)

const generalPrompt = "You work on a task for another agent, which sees only your last message. " +
	"Complete the task with your tools. Then answer with everything that the other agent needs, and nothing else."

// subagents is the middleware.
type subagents struct {
	names []string
	runs  map[string]Runner
}

// Subagents adds the tool task, which the agent uses to give tasks to other agents. Each
// task has a separate conversation; only the last response returns. Several calls in a
// message run concurrently.
//
// A sub-agent runs as a subgraph on the same thread. Its questions, events, and traces
// appear in the run of the parent with their path, and the usage of its models counts
// toward an [agent.Budget] of the parent. If it fails, the error is the result of the
// call. Its changes to the thread's files take effect when the call ends, even if a later step
// fails.
func Subagents(model llm.Model, opts *SubagentsOptions) *agent.Middleware {
	if opts == nil {
		opts = &SubagentsOptions{}
	}
	s, describe, err := newSubagents(model, opts)
	if err != nil {
		return &agent.Middleware{Name: partSubagents, Check: func(agent.Setup) error { return err }}
	}
	return &agent.Middleware{Name: partSubagents, Tools: []*llm.Tool{llm.NewTool(toolTask, describe, s.task)}}
}

func newSubagents(model llm.Model, opts *SubagentsOptions) (*subagents, string, error) {
	all := opts.Agents
	if general := generalAgent(opts); general != nil {
		all = append([]Subagent{*general}, all...)
	}
	s := &subagents{runs: map[string]Runner{}}
	var errs []error
	var list strings.Builder
	if len(all) == 0 {
		errs = append(errs, errors.New("no sub-agents"))
	}
	for i, a := range all {
		switch {
		case !agentName.MatchString(a.Name):
			errs = append(errs, fmt.Errorf("invalid name %q of sub-agent at index %d: use letters, digits, _ and -", a.Name, i))
			continue
		case s.runs[a.Name] != nil:
			errs = append(errs, fmt.Errorf("duplicate sub-agent %q", a.Name))
			continue
		case a.Description == "":
			errs = append(errs, fmt.Errorf("sub-agent %q has no description", a.Name))
		}
		g, err := opts.build(model, a)
		if err != nil {
			errs = append(errs, fmt.Errorf("sub-agent %q: %w", a.Name, err))
			continue
		}
		s.names, s.runs[a.Name] = append(s.names, a.Name), g
		fmt.Fprintf(&list, "\n- %s: %s", a.Name, a.Description)
	}
	return s, "Gives a task to another agent and returns its report. The agent sees only the description, so put everything that it needs into it, " +
		"including what to report. It has no memory of earlier tasks. The user does not see the report. " +
		"To work on independent tasks at the same time, call this tool several times in one answer. The agents are:" + list.String(), errors.Join(errs...)
}

var agentName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// generalAgent returns the general-purpose agent, or nil.
func generalAgent(opts *SubagentsOptions) *Subagent {
	if opts.NoGeneral {
		return nil
	}
	for _, a := range opts.Agents {
		if a.Name == generalName {
			return nil
		}
	}
	return &Subagent{Name: generalName, Prompt: generalPrompt,
		Description: "for tasks of several steps, such as research, whose details would fill this conversation; it has the same tools"}
}

func (o *SubagentsOptions) build(model llm.Model, a Subagent) (Runner, error) {
	if a.Graph != nil {
		return a.Graph, nil
	}
	if a.Model != nil {
		model = a.Model
	}
	tools := a.Tools
	if tools == nil {
		tools = o.Tools
	}
	var middleware []*agent.Middleware
	if o.Middleware != nil {
		middleware = o.Middleware(a)
	}
	own := &agent.Options{Name: a.Name, Prompt: a.Prompt, Tools: tools, ToolOptions: o.toolOptions,
		Middleware: replaced(middleware, a.Middleware), Response: a.Response}
	own.Graph.StepLimit = childSteps
	return agent.For[State](model, own)
}

type taskArgs struct {
	Description string `json:"description" jsonschema:"the whole task, and what to report"`
	Agent       string `json:"subagent_type" jsonschema:"the name of the agent"`
}

// task runs an agent.
func (s *subagents) task(ctx context.Context, in taskArgs) (any, error) {
	run := s.runs[in.Agent]
	if run == nil {
		return problem("Error: unknown agent %q. The agents are %s.", in.Agent, strings.Join(s.names, ", ")), nil
	}
	overlay := files.OverlayFrom(ctx)
	given := State{State: agent.Ask(in.Description)}
	if overlay != nil {
		given.Files = overlay.Files()
	}
	out, err := run.Run(ctx, given)
	if err := treadle.Propagate(ctx, err); err != nil {
		return nil, err
	}
	m := llm.Message{Content: report(out)}
	switch {
	case err != nil:
		m = problem("Error: the agent %s failed: %v", in.Agent, err)
	case m.Content == "":
		m = problem("Error: the agent %s ended without an answer.", in.Agent)
	}
	// A failed agent returns its state before the step that failed; a failed request to a server
	// returns none.
	if overlay != nil && (err == nil || len(out.Messages) > 0) {
		overlay.Apply(given.Files.Changes(out.Files))
	}
	m.Metadata = agent.Delegated(out.Messages)
	return m, nil
}

// report returns the result of a task: the structured response, or the last response
// with a text.
func report(s State) string {
	if len(s.Response) > 0 {
		return string(s.Response)
	}
	for i := len(s.Messages) - 1; i >= 0 && s.Messages[i].Role != llm.RoleHuman; i-- {
		if text := strings.TrimSpace(s.Messages[i].Text()); text != "" && s.Messages[i].Role == llm.RoleAI {
			return text
		}
	}
	return ""
}
