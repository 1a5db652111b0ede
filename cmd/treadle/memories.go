package main

import (
	"context"
	"time"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// memories are what the agent knows of a user, on whichever thread it has heard
// of it. The model can look after them itself, and is reminded of those that bear
// on what is said; what else is worth knowing is worked out in the background.
type memories struct {
	tools      []*llm.Tool
	middleware *agent.Middleware
	reflector  *memory.Reflector[memory.Session, []memory.ItemChange] // nil if nothing is kept
}

const (
	userVar = "user"
	// quiet is how long nothing must be said before a conversation is thought over.
	quiet = 20 * time.Second
	// patience is how long the end of a conversation waits for that.
	patience = 30 * time.Second
)

// forUser says in a context whose memories are meant.
func forUser(ctx context.Context, user string) context.Context {
	return memory.WithVars(ctx, map[string]string{userVar: user})
}

// openMemories opens the memories in a store. With keep, the model thinks over
// what is said; what it has not got round to is done by the next process.
func openMemories(ctx context.Context, s *store.Store, model llm.Model, keep bool) (*memories, error) {
	space := []string{"users", "{" + userVar + "}", "memories"}
	m := &memories{}
	manage, err := memory.ManageTool[string](&memory.ToolOptions{Namespace: space, Store: s})
	if err != nil {
		return nil, err
	}
	search, err := memory.SearchTool(&memory.ToolOptions{Namespace: space, Store: s})
	if err != nil {
		return nil, err
	}
	m.tools = []*llm.Tool{manage, search}
	o := memory.MiddlewareOptions{After: quiet}
	if o.Recall, err = memory.NewRecaller(&memory.RecallerOptions{Namespace: space, Store: s}); err != nil {
		return nil, err
	}
	if keep {
		if o.Manager, err = memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: space, Store: s}); err != nil {
			return nil, err
		}
		m.reflector, err = memory.OpenReflector(ctx, s, store.Namespace{"pending memories"}, o.Manager.ReflectOn, nil)
		if err != nil {
			return nil, err
		}
		o.Reflector = m.reflector
	}
	m.middleware = memory.Middleware(&o)
	return m, nil
}

// settle thinks over what was said, now that no more will be.
func (m *memories) settle(ctx context.Context) error {
	if m.reflector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.reflector.Flush(ctx)
}

// close leaves the rest to the next process.
func (m *memories) close() error {
	if m.reflector == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what is under way is done again
	return m.reflector.Close(ctx)
}
