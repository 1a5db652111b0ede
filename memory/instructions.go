package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// InstructionsOptions configure [Instructions]. The zero value, and a nil
// *InstructionsOptions, are the defaults.
type InstructionsOptions struct {
	// Namespace is where the prompt is kept, under its name; it may have variables,
	// see [StoreManagerOptions]. Nil is {"instructions"}.
	Namespace []string
	// Store is where to keep it; nil is the store of the run.
	Store *store.Store
}

// Instructions are a prompt that is kept in a store, so that agents which are
// running get better as it is improved. Versions that were replaced are in the
// store's history. They are safe for use by several goroutines.
type Instructions struct {
	initial Prompt
	store   *store.Store
	ns      template
}

// NewInstructions makes instructions that begin with the given prompt, which is
// not written to the store. Its name is its key.
func NewInstructions(initial Prompt, o *InstructionsOptions) (*Instructions, error) {
	if o == nil {
		o = &InstructionsOptions{}
	}
	if initial.Name == "" {
		return nil, errors.New("memory: instructions need a name, under which they are kept: set Prompt.Name")
	}
	namespace := o.Namespace
	if len(namespace) == 0 {
		namespace = []string{"instructions"}
	}
	ns, err := newTemplate(namespace)
	return &Instructions{initial, o.Store, ns}, err
}

// Prompt returns the instructions as they are now.
func (i *Instructions) Prompt(ctx context.Context) (Prompt, error) {
	p, _, err := i.read(ctx)
	return p, err
}

func (i *Instructions) read(ctx context.Context) (Prompt, *store.Item, error) {
	n, err := i.ns.resolve(ctx)
	if err != nil {
		return i.initial, nil, err
	}
	item, err := storeFor(ctx, i.store).Get(ctx, n, i.initial.Name, nil)
	if errors.Is(err, store.ErrNotFound) {
		return i.initial, nil, nil
	}
	if err != nil {
		return i.initial, nil, err
	}
	var p Prompt
	err = DocumentOf(item).Decode(&p)
	if err == nil && p.Text == "" {
		err = errors.New("it has no text")
	}
	if err != nil {
		return i.initial, nil, fmt.Errorf("memory: what is stored as the instructions %q is no prompt: %w", i.initial.Name, err)
	}
	return p, item, nil
}

// Improve has the optimizer rewrite the instructions by conversations that were
// held with them, and keeps what it makes of them. If somebody else has changed
// them meanwhile, the error is a [*store.ConflictError] and nothing is kept.
func (i *Instructions) Improve(ctx context.Context, o *Optimizer, ts []Trajectory) (Improvement, error) {
	if o == nil {
		return Improvement{Prompt: i.initial}, errors.New("memory: Instructions.Improve: there is no optimizer")
	}
	p, item, err := i.read(ctx)
	if err != nil {
		return Improvement{Prompt: p}, err
	}
	better, err := o.Improve(ctx, p, ts)
	if err != nil || !better.Changed {
		return better, err
	}
	source := sourceOf(ctx)
	source.Reason = better.Rationale
	if info := llm.Describe(o.model); info.Model != "" {
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
	return better, storeFor(ctx, i.store).Put(ctx, n, i.initial.Name, value, &options)
}

// promptKind knows which fields of stored instructions are not ours.
var promptKind = NewKind[Prompt]("instructions")

// Middleware puts the instructions in front of the system prompt of each call of
// the model. Variables in them get their values as those of namespaces do: from
// the run's context, or [WithVars].
func (i *Instructions) Middleware() *agent.Middleware {
	return &agent.Middleware{
		Name: "instructions",
		WrapModel: func(ctx context.Context, call agent.ModelCall, next agent.ModelFunc) (llm.Message, error) {
			p, err := i.Prompt(ctx)
			if err != nil {
				return llm.Message{}, err
			}
			text, err := fillTemplate(p.Text, func(name string) (string, error) { return variable(ctx, name) })
			if err != nil {
				return llm.Message{}, fmt.Errorf("memory: the instructions %q: %w", p.Name, err)
			}
			call.System = paragraphs(text, call.System)
			return next(ctx, call)
		},
	}
}
