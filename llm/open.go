package llm

import (
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// Provider opens models and embedders by name. Each provider's package has a
// function that returns one. There is no registry.
type Provider struct {
	Name  string // the prefix: "openai"
	Model func(name string) (Model, error)
	// Embedder is nil if the provider has no embedders.
	Embedder func(name string) (store.Embedder, error)
}

// Open opens a model by provider and model name:
//
//	model, err := llm.Open("anthropic:claude-sonnet-4-5", openai.Provider(nil), anthropic.Provider(nil))
//
// The provider must be in providers. Open never infers it from the model name.
func Open(name string, providers ...Provider) (Model, error) {
	p, model, err := choose("model", name, providers)
	if err != nil {
		return nil, err
	}
	if p.Model == nil {
		return nil, fmt.Errorf("llm: open model %q: %s has no models, only embedders", name, p.Name)
	}
	m, err := p.Model(model)
	if err != nil {
		return nil, fmt.Errorf("llm: open model %q: %w", name, err)
	}
	return m, nil
}

// OpenEmbedder opens an embedder by provider and model name, such as
// "openai:text-embedding-3-small".
func OpenEmbedder(name string, providers ...Provider) (store.Embedder, error) {
	p, model, err := choose("embedder", name, providers)
	if err != nil {
		return nil, err
	}
	if p.Embedder == nil {
		return nil, fmt.Errorf("llm: open embedder %q: %s has no embedders", name, p.Name)
	}
	e, err := p.Embedder(model)
	if err != nil {
		return nil, fmt.Errorf("llm: open embedder %q: %w", name, err)
	}
	return e, nil
}

func choose(what, name string, providers []Provider) (p Provider, model string, err error) {
	known := make([]string, len(providers))
	for i, p := range providers {
		known[i] = p.Name
	}
	list := strings.Join(known, ", ")
	if list == "" {
		list = "none: pass some"
	}
	prefix, model, ok := strings.Cut(name, ":")
	if !ok {
		return p, "", fmt.Errorf("llm: open %s %q: want provider:name; the providers are: %s", what, name, list)
	}
	for _, p := range providers {
		if p.Name == prefix {
			if model == "" {
				return p, "", fmt.Errorf("llm: open %s %q: missing name after %s", what, name, prefix)
			}
			return p, model, nil
		}
	}
	return p, "", fmt.Errorf("llm: open %s %q: unknown provider %q; the providers are: %s", what, name, prefix, list)
}
