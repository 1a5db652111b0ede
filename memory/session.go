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

// Session is a conversation to reflect on later, perhaps in another process. Make one
// with [StoreManager.Session]. It is the payload of a [Reflector] made with
// [StoreManager.ReflectOn]:
//
//	r, err := memory.OpenReflector(ctx, s, store.Namespace{"pending"}, manager.ReflectOn, nil)
type Session struct {
	// Vars are the values of the namespace's variables; see [WithVars].
	Vars map[string]string `json:"vars,omitempty"`
	// Source is the run of the conversation.
	Source   Provenance   `json:"source,omitzero"`
	Messages llm.Messages `json:"messages"`
}

// Reduce appends the messages of a later session, by their ids.
func (s Session) Reduce(later Session) (Session, error) {
	messages, err := s.Messages.Reduce(later.Messages)
	later.Messages = messages
	return later, err
}

// Session records what is needed to reflect on a conversation when its run has
// ended: the variables of the namespace, and the run.
func (m *StoreManager) Session(ctx context.Context, messages ...llm.Message) (Session, error) {
	vars, err := m.ns.values(ctx)
	return Session{Vars: vars, Source: sourceOf(ctx), Messages: messages}, err
}

// sessionKey is the key of sessions that can be merged: the thread, and the
// variables of the namespace. Parts are escaped, so that different sessions have
// different keys.
func (m *StoreManager) sessionKey(ctx context.Context, s Session) string {
	info := treadle.InfoFrom(ctx)
	key := cmp.Or(info.Thread, info.RunID)
	if s.Source.Branch != "" { // what a fork says is not mixed with what others say
		key += "@" + s.Source.Branch
	}
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

// ReflectOn is [StoreManager.Reflect] for a session, in the form that a [Reflector]
// calls; the key is not used. The run has ended, so the manager needs a Store: see
// [StoreManagerOptions].
func (m *StoreManager) ReflectOn(ctx context.Context, _ string, s Session) ([]ItemChange, error) {
	return m.Reflect(context.WithValue(WithVars(ctx, s.Vars), sourceKey{}, s.Source), s.Messages...)
}
