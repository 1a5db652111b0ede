package store

import (
	"context"
	"errors"
	"testing"
)

// Searches that wait for a slot do not block writers, and can be canceled.
func TestWaitingSearchesDoNotBlockWriters(t *testing.T) {
	m := NewMemoryBackend().(*memory)
	s, err := New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range cap(m.searchSlots) {
		m.searchSlots <- struct{}{}
	}
	n := Namespace{"n"}
	waiting := make(chan error)
	go func() {
		_, err := s.Search(t.Context(), n, &SearchOptions{Query: "a"})
		waiting <- err
	}()
	if err := s.Put(t.Context(), n, "k", map[string]string{"t": "a"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), n, "k", nil); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, n, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled search: %v", err)
	}
	for range cap(m.searchSlots) {
		<-m.searchSlots
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}
