package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

// InstructionsOptions configures [Instructions]. A nil *InstructionsOptions means the
// defaults.
type InstructionsOptions struct {
	// Namespace is the namespace that stores the prompt under its name. It may contain
	// variables; see [StoreManagerOptions]. Nil means {"instructions"}.
	Namespace []string
	// Store stores the prompt; nil means the run's store.
	Store *store.Store
}

// Instructions is a prompt kept in a store. Running agents read it before each model call,
// so they use an improved version immediately. Earlier versions remain in the store's
// history. It is safe for concurrent use.
type Instructions struct {
	initial prompts.Prompt
	store   *store.Store
	ns      template
}

// NewInstructions returns instructions with an initial prompt, stored under the prompt's
// name. The initial prompt itself is not written to the store.
func NewInstructions(initial prompts.Prompt, opts *InstructionsOptions) (*Instructions, error) {
	if opts == nil {
		opts = &InstructionsOptions{}
	}
	if initial.Name == "" {
		return nil, errors.New("memory: instructions require a name: set Prompt.Name")
	}
	namespace := opts.Namespace
	if len(namespace) == 0 {
		namespace = []string{"instructions"}
	}
	ns, err := newTemplate(namespace)
	return &Instructions{initial, opts.Store, ns}, err
}

// Prompt returns the current version.
func (i *Instructions) Prompt(ctx context.Context) (prompts.Prompt, error) {
	p, _, err := i.read(ctx)
	return p, err
}

func (i *Instructions) read(ctx context.Context) (prompts.Prompt, *store.Item, error) {
	n, err := i.ns.resolve(ctx)
	if err != nil {
		return i.initial, nil, err
	}
	s, err := storeFor(ctx, i.store)
	if err != nil {
		return i.initial, nil, err
	}
	item, err := s.Get(ctx, n, i.initial.Name, nil)
	if errors.Is(err, store.ErrNotFound) {
		return i.initial, nil, nil
	}
	if err != nil {
		return i.initial, nil, err
	}
	var p prompts.Prompt
	err = DocumentOf(item).Decode(&p)
	if err == nil && p.Text == "" {
		err = errors.New("empty text")
	}
	if err != nil {
		return i.initial, nil, fmt.Errorf("memory: stored instructions %q are not a prompt: %w", i.initial.Name, err)
	}
	return p, item, nil
}

// Improve lets the optimizer rewrite the instructions, based on conversations that used
// them, and stores the new version. If another writer has changed the instructions in the
// meantime, Improve returns a [*store.ConflictError] and stores nothing.
func (i *Instructions) Improve(ctx context.Context, optimizer *prompts.Optimizer, ts []prompts.Trajectory) (prompts.Improvement, error) {
	if optimizer == nil {
		return prompts.Improvement{Prompt: i.initial}, errors.New("memory: Instructions.Improve: nil optimizer")
	}
	p, item, err := i.read(ctx)
	if err != nil {
		return prompts.Improvement{Prompt: p}, err
	}
	better, err := optimizer.Improve(ctx, p, ts)
	if err != nil || !better.Changed {
		return better, err
	}
	source := sourceOf(ctx)
	source.Reason = better.Rationale
	if info := llm.Describe(optimizer.Model()); info.Model != "" {
		source.Model = info.String()
	}
	meta, err := withSource(item, source)
	if err != nil {
		return better, err
	}
	options := store.PutOptions{Meta: meta, NoIndex: true, TTL: lifeOf(item), IfAbsent: item == nil}
	if item != nil {
		options.IfVersion = item.Version
	}
	d, err := NewDocument(p.Name, better.Prompt)
	if err != nil {
		return better, err
	}
	n, err := i.ns.resolve(ctx)
	if err != nil {
		return better, err
	}
	var value any = envelope{d.Kind, d.Content}
	if item != nil {
		old, wrap := readItem(item)
		content, err := promptKind.carry(old.Content, d.Content)
		if err != nil {
			return better, err
		}
		value = wrap(content)
	}
	s, err := storeFor(ctx, i.store)
	if err != nil {
		return better, err
	}
	return better, s.Put(ctx, n, i.initial.Name, value, &options)
}

// promptKind is used to preserve unknown fields of stored instructions.
var promptKind = NewKind[prompts.Prompt]("instructions")

// Middleware returns a middleware that inserts the instructions before the system prompt of
// each model call. Their variables take their values from the run's context or from
// [WithVars], like those of namespaces.
func (i *Instructions) Middleware() *agent.Middleware {
	return &agent.Middleware{
		Name: "instructions",
		WrapModel: func(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
			p, err := i.Prompt(ctx)
			if err != nil {
				return llm.Message{}, err
			}
			text, err := prompts.Fill(p.Text, func(name string) (string, error) {
				v, _, err := variable(ctx, name)
				return v, err
			})
			if err != nil {
				return llm.Message{}, fmt.Errorf("memory: instructions %q: %w", p.Name, err)
			}
			call.System = paragraphs(text, call.System)
			return next(ctx, call)
		},
	}
}
