package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// InMemory is the name of a database that lasts only as long as the process.
const InMemory = ":memory:"

// Options configures an assistant.
type Options struct {
	Model llm.Model
	// File is the SQLite file for conversations and memories, or [InMemory].
	File string
	// Notes is the directory for notes. If empty, it is the directory notes next to File. With
	// InMemory and no directory, notes cannot be written.
	Notes string
	// User is the user whose memories are used.
	User string
}

const prompt = `You are the assistant of Treadle's demo, in a terminal. Answer briefly and in plain text.
Use the calculator for every computation. Use manage_memory when the user asks you to remember something, and
search_memory before you say that you do not know something about the user; with an empty query it lists all memories.
When the user asks you to forget something, find it with search_memory and delete it with manage_memory. Notes are
files: write_note asks the user for permission itself, so do not ask first.`

// An Assistant is an agent with its tools, its memories, and the database that stores them.
// Close it after use.
type Assistant struct {
	db       *sqlite.DB
	memories *memories
	graph    *agentGraph
	user     string
}

type agentGraph = treadle.Graph[agent.State, agent.State]

// Open opens the database and builds the assistant.
func Open(ctx context.Context, o Options) (_ *Assistant, err error) {
	a := &Assistant{user: o.User}
	if a.db, err = sqlite.Open(o.File, nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	items, err := a.db.Store(nil)
	if err != nil {
		return nil, err
	}
	keep := o.File != InMemory
	notes := &noteDir{path: o.Notes}
	if notes.path == "" && keep {
		notes.path = filepath.Join(filepath.Dir(o.File), "notes")
	}
	model, extractor := o.Model, o.Model
	if m, ok := model.(offline); ok {
		m.temporary = !keep
		model, extractor = m, offline{} // the extractor's output is not shown, so it needs no pace
	}
	extract := never
	if keep {
		extract = inBackground
	}
	if a.memories, err = openMemories(ctx, items, extractor, extract); err != nil {
		return nil, err
	}
	a.graph, err = newAgent(model, notes, a.memories, treadle.Options{Saver: a.db, Store: items})
	return a, err
}

func newAgent(model llm.Model, notes *noteDir, m *memories, o treadle.Options) (*agentGraph, error) {
	return agent.New(model, &agent.Options{
		Prompt:     prompt,
		Tools:      slices.Concat([]*llm.Tool{newCalculator()}, notes.tools(), m.tools),
		Middleware: []*agent.Middleware{m.middleware},
		Graph:      o,
	})
}

// newAssistantGraph builds the assistant's graph without a database, for diagrams.
func newAssistantGraph(saver checkpoint.Saver) (treadle.AnyGraph, error) {
	items, err := store.NewMemory(nil)
	if err != nil {
		return nil, err
	}
	m, err := openMemories(context.Background(), items, offline{}, atOnce)
	if err != nil {
		return nil, err
	}
	return newAgent(offline{}, &noteDir{}, m, treadle.Options{Saver: saver, Store: items})
}

// Context returns a context whose runs use the user's memories.
func (a *Assistant) Context(ctx context.Context) context.Context { return forUser(ctx, a.user) }

// Thread opens a conversation. It returns an error if the thread belongs to another graph.
func (a *Assistant) Thread(ctx context.Context, id string) (*treadle.Thread[agent.State, agent.State], error) {
	cp, err := a.db.Get(ctx, checkpoint.Key{Thread: id})
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if _, ok := cp.Values["messages"]; !ok && len(cp.Values) > 0 {
			return nil, fmt.Errorf("thread %q is not a conversation: use another --thread", id)
		}
	}
	return a.graph.Thread(id), nil
}

// Flush extracts memories from the conversation so far. It gives up after a timeout; the next
// process continues.
func (a *Assistant) Flush(ctx context.Context) error { return a.memories.flush(ctx) }

// Close closes the database.
func (a *Assistant) Close() error {
	var err error
	if a.memories != nil {
		err = a.memories.close()
	}
	return errors.Join(err, a.db.Close())
}
