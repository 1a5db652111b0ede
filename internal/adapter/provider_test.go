package adapter

import (
	"errors"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

type model struct{ llm.Model }

type embedder struct{ store.Embedder }

func TestProviderReturnsNilWithError(t *testing.T) {
	invalid := errors.New("invalid")
	p := Provider("p", new(int), func(name string, opts *int) (*model, error) {
		*opts++
		if name == "" {
			return nil, invalid
		}
		return &model{}, nil
	}, func(name string, opts *int) (*embedder, error) {
		*opts++
		if name == "" {
			return nil, invalid
		}
		return &embedder{}, nil
	})
	if m, err := p.Model(""); m != nil || !errors.Is(err, invalid) {
		t.Errorf("model %v, %v", m, err)
	}
	if e, err := p.Embedder(""); e != nil || !errors.Is(err, invalid) {
		t.Errorf("embedder %v, %v", e, err)
	}
	if m, err := p.Model("m"); m == nil || err != nil || p.Name != "p" {
		t.Errorf("model %v, %v", m, err)
	}
	if e, err := p.Embedder("e"); e == nil || err != nil {
		t.Errorf("embedder %v, %v", e, err)
	}
}
