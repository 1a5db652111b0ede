package adapter

import (
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// Models returns a provider that opens all models with the same options.
func Models[O any, M llm.Model](name string, opts *O, open func(string, *O) (M, error)) llm.Provider {
	return llm.Provider{Name: name, Model: func(model string) (llm.Model, error) {
		m, err := open(model, opts)
		if err != nil {
			return nil, err // a nil *Model would be a non-nil Model
		}
		return m, nil
	}}
}

// Provider returns a provider that opens all models and embedders with the same options.
func Provider[O any, M llm.Model, E store.Embedder](name string, opts *O, model func(string, *O) (M, error), embedder func(string, *O) (E, error)) llm.Provider {
	p := Models(name, opts, model)
	p.Embedder = func(name string) (store.Embedder, error) {
		e, err := embedder(name, opts)
		if err != nil {
			return nil, err
		}
		return e, nil
	}
	return p
}
