package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// memories are what the agent knows of a user, on whichever thread it has heard
// of it.
type memories struct {
	store *store.Store
	space store.Namespace
}

type (
	fact struct {
		Text string `json:"text" jsonschema:"one fact, in a sentence that can be understood alone"`
	}
	memoryQuery struct {
		Query string `json:"query,omitempty" jsonschema:"words to look for; without them the newest memories are returned"`
	}
)

func newMemories(s *store.Store, user string) *memories {
	return &memories{s, store.Namespace{"users", user, "memories"}}
}

func (m *memories) tools() []*llm.Tool {
	return []*llm.Tool{
		llm.NewTool("remember", "Remember a fact about the user in all conversations to come.", m.remember),
		llm.NewTool("search_memory", "Search what is remembered about the user from all conversations.", m.search),
	}
}

// remember keeps a fact. Its key is its text, so that a call which runs again
// after a crash, or a fact that is told twice, is one memory.
func (m *memories) remember(ctx context.Context, f fact) (string, error) {
	f.Text = strings.TrimSpace(f.Text)
	if f.Text == "" {
		return "", errors.New("there is nothing to remember: give a text")
	}
	hash := sha256.Sum256([]byte(strings.ToLower(f.Text)))
	if err := m.store.Put(ctx, m.space, hex.EncodeToString(hash[:8]), f, nil); err != nil {
		return "", err
	}
	return "Remembered.", nil
}

// search lists what it finds, one a line.
func (m *memories) search(ctx context.Context, q memoryQuery) (string, error) {
	items, err := m.store.Search(ctx, m.space, &store.SearchOptions{Query: q.Query})
	if err != nil {
		return "", err
	}
	var found []string
	for _, item := range items {
		var f fact
		if err := item.Decode(&f); err != nil {
			return "", fmt.Errorf("memory %s: %w", item.Key, err)
		}
		found = append(found, f.Text)
	}
	if len(found) == 0 {
		return "Nothing is remembered about it.", nil
	}
	return strings.Join(found, "\n"), nil
}
