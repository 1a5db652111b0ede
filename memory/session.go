package memory

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
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

// sessionKey is what sessions that can be joined have in common: the thread, and
// whose memories they are about. Parts are escaped, so that no two keys are alike.
func (m *StoreManager) sessionKey(ctx context.Context, s Session) string {
	info := treadle.InfoFrom(ctx)
	key := cmp.Or(info.Thread, info.RunID)
	var owners []string
	for _, p := range slices.Concat(m.ns...) {
		if p.name != "" {
			owners = append(owners, url.PathEscape(s.Vars[p.name]))
		}
	}
	if owners == nil {
		return key
	}
	return url.PathEscape(key) + "/" + strings.Join(owners, "/")
}

type sourceKey struct{}

// ReflectOn is [StoreManager.Reflect] for a session; the key is of no importance.
// As the run is over, the manager needs a Store of its own.
func (m *StoreManager) ReflectOn(ctx context.Context, _ string, s Session) ([]ItemChange, error) {
	return m.Reflect(context.WithValue(WithVars(ctx, s.Vars), sourceKey{}, s.Source), s.Messages...)
}
