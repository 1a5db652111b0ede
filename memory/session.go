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

// A Session is a conversation to reflect on later, possibly in another process. Create one
// with [StoreManager.Session]. It is the payload of a [Reflector] that runs
// [StoreManager.ReflectOn]:
//
//	r, err := memory.OpenReflector(ctx, s, store.Namespace{"pending"}, manager.ReflectOn, nil)
type Session struct {
	// Vars contains the values of the namespace's variables; see [WithVars].
	Vars map[string]string `json:"vars,omitempty"`
	// Source identifies the run of the conversation.
	Source   Provenance   `json:"source,omitzero"`
	Messages llm.Messages `json:"messages"`
}

// Reduce returns the later session with the messages of both, merged by message ID.
func (s Session) Reduce(later Session) (Session, error) {
	messages, err := s.Messages.Reduce(later.Messages)
	later.Messages = messages
	return later, err
}

// Session returns a session with the data needed to reflect on a conversation after its run
// has ended: the namespace variables, the run, and the messages.
func (m *StoreManager) Session(ctx context.Context, messages ...llm.Message) (Session, error) {
	vars, err := m.ns.values(ctx)
	return Session{Vars: vars, Source: sourceOf(ctx), Messages: messages}, err
}

// sessionKey returns a key shared by sessions that can be merged: the thread and the
// namespace variables. Parts are escaped, so that different sessions have different keys.
func (m *StoreManager) sessionKey(ctx context.Context, s Session) string {
	info := treadle.InfoFrom(ctx)
	key := cmp.Or(info.Thread, info.RunID)
	if s.Source.Branch != "" { // keep conversations of a store branch separate
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

// ReflectOn is like [StoreManager.Reflect], but takes a session and has the signature that
// a [Reflector] requires; it ignores the key. If StoreManagerOptions.Store is nil, it uses
// the store of the run that submitted the session or, if that run belonged to an earlier
// process, the store of the durable Reflector.
func (m *StoreManager) ReflectOn(ctx context.Context, _ string, s Session) ([]ItemChange, error) {
	return m.Reflect(context.WithValue(WithVars(ctx, s.Vars), sourceKey{}, s.Source), s.Messages...)
}
