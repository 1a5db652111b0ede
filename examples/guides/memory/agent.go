package main

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Guest is the context of a run. Its JSON name sets the variable {user} of namespaces.
type Guest struct {
	Name string `json:"user"`
}

// newManager returns a manager that decides what to remember about a guest.
func newManager(extractor llm.Model, s *store.Store) (*memory.StoreManager, error) {
	return memory.NewStoreManager(extractor, &memory.StoreManagerOptions{Namespace: []string{"memories", "{user}"}, Store: s})
}

// newWaiter returns an agent with short-term and long-term memory.
func newWaiter(model llm.Model, manager *memory.StoreManager, saver checkpoint.Saver, s *store.Store) (*treadle.Graph[agent.State, agent.State], error) {
	recaller, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{"memories", "{user}"}, Store: s})
	if err != nil {
		return nil, err
	}
	return agent.New(model, &agent.Options{
		Name:   "waiter",
		Prompt: "You recommend cakes.",
		Middleware: []*agent.Middleware{
			agent.Summarize(model, &agent.SummarizeOptions{Messages: 40}),
			memory.Middleware(&memory.MiddlewareOptions{Recall: recaller, Manager: manager}),
		},
		Graph: treadle.Options{Saver: saver, Store: s},
	})
}
