package demo

import (
	"context"
	"time"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// memories holds the facts about a user from all conversations. The model can search and change
// them with tools. The middleware adds relevant memories to the prompt and extracts new ones
// from the conversation in the background.
type memories struct {
	tools      []*llm.Tool
	middleware *agent.Middleware
	reflector  *memory.Reflector[memory.Session, []memory.ItemChange] // nil unless memories are extracted in the background
}

const (
	userVar = "user"
	// extractionDelay is how long a conversation must be quiet before memories are extracted
	// from it.
	extractionDelay = 20 * time.Second
	// flushTimeout limits how long the end of a conversation waits for the extraction.
	flushTimeout = 30 * time.Second
)

// forUser returns a context that uses the memories of user.
func forUser(ctx context.Context, user string) context.Context {
	return memory.WithVars(ctx, map[string]string{userVar: user})
}

// extraction controls when the model extracts memories from a conversation.
type extraction int

const (
	never extraction = iota
	atOnce
	inBackground // the next process continues unfinished work
)

// openMemories opens the memories of the user named in the context.
func openMemories(ctx context.Context, s *store.Store, model llm.Model, extract extraction) (*memories, error) {
	return newMemories(ctx, []string{"users", "{" + userVar + "}", "memories"}, s, model, extract)
}

// newMemories opens the memories in a namespace of a store; nil means the store of the run.
func newMemories(ctx context.Context, space []string, s *store.Store, model llm.Model, extract extraction) (*memories, error) {
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
	o := memory.MiddlewareOptions{After: extractionDelay}
	if o.Recall, err = memory.NewRecaller(&memory.RecallerOptions{Namespace: space, Store: s}); err != nil {
		return nil, err
	}
	if extract != never {
		if o.Manager, err = memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: space, Store: s}); err != nil {
			return nil, err
		}
	}
	if extract == inBackground {
		m.reflector, err = memory.OpenReflector(ctx, s, store.Namespace{"pending memories"}, o.Manager.ReflectOn, nil)
		if err != nil {
			return nil, err
		}
		o.Reflector = m.reflector
	}
	m.middleware = memory.Middleware(&o)
	return m, nil
}

// flush extracts memories immediately.
func (m *memories) flush(ctx context.Context) error {
	if m.reflector == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	return m.reflector.Flush(ctx)
}

// close stops the extraction; the next process continues it.
func (m *memories) close() error {
	if m.reflector == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a running extraction is repeated later
	return m.reflector.Close(ctx)
}
