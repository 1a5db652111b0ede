package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// Route chooses a model for each model call. If choose returns nil, the agent's
// model is used:
//
//	agent.Route(func(_ context.Context, call agent.ModelCall) (llm.Model, error) {
//		if len(call.Messages) > 50 {
//			return long, nil
//		}
//		return nil, nil
//	})
//
// [RouteBy] lets a small model choose.
func Route(choose func(ctx context.Context, call ModelCall) (llm.Model, error)) *Middleware {
	var err error
	if choose == nil {
		err = errors.New("nil function")
	}
	return &Middleware{Name: "route", Check: invalid(err), WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		model, err := choose(ctx, call)
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: route: %w", err)
		}
		if model != nil {
			call.Model = model
		}
		return next(ctx, call)
	}}
}

// RouteOptions configures [RouteBy].
type RouteOptions struct {
	// Routes lists the models to choose from. Each has a name and a description of
	// the tasks that it is for.
	Routes []ModelRoute
	// Prompt is the instruction for the choice; empty means a default prompt.
	Prompt string
}

// ModelRoute is a model that [RouteBy] can choose.
type ModelRoute struct {
	Name, Description string
	Model             llm.Model
}

const routePrompt = "Choose the model that should answer the user's message."

// routeKey is the metadata of a response that names its route.
const routeKey = "route"

// RouteBy makes another, usually small, model choose the agent's model, based on the
// user's last message. All calls up to the next user message use the same model; the
// metadata of their responses names the route. If the small model names an unknown
// route, the run fails.
func RouteBy(model llm.Model, opts *RouteOptions) *Middleware {
	o := valueOf(opts)
	o.Prompt = cmp.Or(o.Prompt, routePrompt)
	if err := errors.Join(noModel(model), o.check()); err != nil {
		return &Middleware{Name: "route", Check: invalid(err)}
	}
	model = quiet(model)
	return &Middleware{Name: "route", WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		last := turns.LastHuman(call.Messages)
		if last < 0 {
			return next(ctx, call)
		}
		route, err := o.taken(call.Messages[last:]), error(nil)
		if route == nil {
			route, err = o.choose(ctx, model, call.Messages[last])
		}
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: route: %w", err)
		}
		call.Model = route.Model
		answer, err := next(ctx, call)
		return noted(answer, routeKey, route.Name), err
	}}
}

// check reports invalid routes.
func (o RouteOptions) check() error {
	if len(o.Routes) == 0 {
		return errors.New("no routes")
	}
	seen := map[string]bool{}
	for _, r := range o.Routes {
		switch {
		case r.Name == "" || r.Description == "" || r.Model == nil:
			return fmt.Errorf("route %q needs a name, a description, and a model", r.Name)
		case seen[r.Name]:
			return fmt.Errorf("duplicate route %q", r.Name)
		}
		seen[r.Name] = true
	}
	return nil
}

// find returns the route with a name, or nil.
func (o RouteOptions) find(name string) *ModelRoute {
	for i := range o.Routes {
		if o.Routes[i].Name == name {
			return &o.Routes[i]
		}
	}
	return nil
}

// taken returns the route of the turn's first response, or nil before it.
func (o RouteOptions) taken(turn llm.Messages) *ModelRoute {
	for _, m := range turn {
		if name, ok := m.Metadata[routeKey].(string); ok && m.Role == llm.RoleAI {
			return o.find(name)
		}
	}
	return nil
}

// modelChoice is the response of the choosing model.
type modelChoice struct {
	Model string `json:"model" jsonschema:"the name of the model"`
}

func (o RouteOptions) choose(ctx context.Context, model llm.Model, message llm.Message) (*ModelRoute, error) {
	var list strings.Builder
	for _, r := range o.Routes {
		fmt.Fprintf(&list, "\n- %s: %s", r.Name, r.Description)
	}
	choice, err := llm.Object[modelChoice](ctx, model, llm.System(o.Prompt+" The models are:"+list.String()), message)
	if err != nil {
		return nil, err
	}
	route := o.find(choice.Model)
	if route == nil {
		return nil, fmt.Errorf("model chose unknown route %q", choice.Model)
	}
	return route, nil
}

// noted returns a response with one more entry in its metadata.
func noted(m llm.Message, key string, value any) llm.Message {
	m.Metadata = maps.Clone(m.Metadata)
	if m.Metadata == nil {
		m.Metadata = map[string]any{}
	}
	m.Metadata[key] = value
	return m
}
