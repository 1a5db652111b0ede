package memory

import (
	"context"

	"github.com/treadle-go/treadle/llm"
)

// A Session is a conversation to reflect on later, maybe in another process; see
// [StoreManager.Session]. With [StoreManager.ReflectOn] it is what a [Reflector]
// works on:
//
//	r, err := memory.OpenReflector(ctx, s, store.Namespace{"pending"}, manager.ReflectOn, nil)
type Session struct {
	// Vars are the variables of the namespace; see [WithVars].
	Vars map[string]string `json:"vars,omitempty"`
	// Source is the run in which the conversation took place.
	Source   Provenance   `json:"source,omitzero"`
	Messages llm.Messages `json:"messages"`
}

// Reduce joins what was said later to the session, by the ids of the messages.
func (s Session) Reduce(later Session) (Session, error) {
	messages, err := s.Messages.Reduce(later.Messages)
	later.Messages = messages
	return later, err
}

// Session notes what is needed to reflect on a conversation when its run is over:
// whose memories it is about, and where it took place.
func (m *StoreManager) Session(ctx context.Context, messages ...llm.Message) (Session, error) {
	vars, err := m.ns.values(ctx)
	return Session{Vars: vars, Source: sourceOf(ctx), Messages: messages}, err
}

type sourceKey struct{}

// ReflectOn is [StoreManager.Reflect] for a session; the key is of no importance.
// As the run is over, the manager needs a Store of its own.
func (m *StoreManager) ReflectOn(ctx context.Context, _ string, s Session) ([]ItemChange, error) {
	return m.Reflect(context.WithValue(WithVars(ctx, s.Vars), sourceKey{}, s.Source), s.Messages...)
}
