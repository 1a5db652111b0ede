package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// StoreManagerOptions configure a store manager. The zero value, and a nil *StoreManagerOptions,
// are the defaults.
type StoreManagerOptions struct {
	ManagerOptions
	// Namespace is where memories are kept. A segment may have variables in
	// braces, {user_id}, which get their values from the fields of the run's
	// context ([treadle.Context]), by their JSON names, or from [WithVars]. Nil is
	// {"memories", "{langgraph_user_id}"}, as in LangMem.
	Namespace []string
	// Store is where to keep memories; nil is the store of the run.
	Store *store.Store
	// Default is the first memory of a namespace in which there is none, under the
	// key "default": a string or a struct. It never replaces anything. Without one,
	// what a model begins a namespace with under NoInserts has that key.
	Default any
	// DefaultFunc is Default, made for each call. Only one of them may be set.
	DefaultFunc func(context.Context) (any, error)
	// QueryModel, if not nil, is asked what to look for. Otherwise memories are
	// looked for by the last messages and by what the user said, without a model.
	QueryModel llm.Model
	// Limit is how many memories are recalled at most; 5 if not set.
	Limit int
	// Phases are further passes over what was recalled and changed.
	Phases []Phase
	// Similar, if not 0, is how similar to a memory of its kind an insert may be, from
	// 0 to 1: what is as similar or more (0.95 is a good value) is not written again,
	// and the memory counts as used once more. Inserts of one answer are not compared
	// with each other. The store must have an embedder, and embed whole values, as it
	// does unless its Fields say otherwise.
	Similar float64
	// Guard, if not nil, is asked about each change before it is written. It may
	// alter what is to be written, After and the Reason, for instance to leave out what
	// is nobody's business; an altered update has no Patch. With an error the change
	// is not made, and the error is among those that Reflect returns.
	Guard func(ctx context.Context, c *ItemChange) error
	// Overwrite writes what was decided even where a memory has been changed
	// meanwhile, and removes memories together with their history. Otherwise what
	// was decided on an old version is decided anew, and what it supersedes stays in
	// the history.
	Overwrite bool
}

// A Phase is a pass in which a model goes over the memories again. It may insert
// and remove, unless it is told not to.
type Phase struct {
	// Instructions are those of the pass; if empty, it consolidates.
	Instructions string
	// IncludeMessages shows it the conversation, too.
	IncludeMessages      bool
	NoInserts, NoDeletes bool
}

const (
	defaultRecall   = 5
	defaultKey      = "default"
	reflectAttempts = 3

	phaseInstructions = `Go over the documents and consolidate them: merge those that say the same, remove what others make superfluous, and complete what others make clearer. Lose nothing that is known.`
)

// A StoreManager keeps the memories of a store up to date with conversations. It
// is safe for use by several goroutines.
type StoreManager struct {
	o       StoreManagerOptions
	manager *Manager
	phases  []*Manager
	ns      template
}

// NewStoreManager makes a store manager that asks the model.
func NewStoreManager(model llm.Model, o *StoreManagerOptions) (*StoreManager, error) {
	m := &StoreManager{}
	if o != nil {
		m.o = *o
	}
	m.o.Limit = cmp.Or(m.o.Limit, defaultRecall)
	switch {
	case m.o.Default != nil && m.o.DefaultFunc != nil:
		return nil, errors.New("memory: there are both a Default and a DefaultFunc: set one of them")
	case m.o.Limit < 0:
		return nil, fmt.Errorf("memory: Limit is %d: 1 is the least", m.o.Limit)
	case !(m.o.Similar >= 0 && m.o.Similar <= 1): // so that NaN is none
		return nil, fmt.Errorf("memory: Similar is %v: it must be from 0 to 1", m.o.Similar)
	}
	var err error
	if m.ns, err = newTemplate(m.o.Namespace); err != nil {
		return nil, err
	}
	if m.manager, err = NewManager(model, &m.o.ManagerOptions); err != nil {
		return nil, err
	}
	if m.o.Default != nil {
		if _, err := m.checkDefault(m.o.Default); err != nil {
			return nil, err
		}
	}
	for _, p := range m.o.Phases {
		o := ManagerOptions{ExtractOptions: m.o.ExtractOptions, Steps: m.o.Steps, Instructions: cmp.Or(p.Instructions, phaseInstructions)}
		o.NoInserts, o.Deletes = p.NoInserts, !p.NoDeletes
		pm, err := NewManager(model, &o)
		if err != nil {
			return nil, err
		}
		m.phases = append(m.phases, pm)
	}
	return m, nil
}

// checkDefault is the default as a document. It is held to its kind, as what the
// model writes is.
func (m *StoreManager) checkDefault(v any) (Document, error) {
	d, err := NewDocument(defaultKey, v)
	if err != nil {
		return d, err
	}
	k, ok := m.manager.extract.kind(d.Kind)
	if !ok {
		return d, fmt.Errorf("memory: the default is a %s, which is none of the kinds", d.Kind)
	}
	if d.Content, err = k.check(d.Content); err != nil {
		return d, fmt.Errorf("memory: the default is no valid %s (a nil slice or map is null: make it empty): %w", d.Kind, err)
	}
	return d, nil
}

// first is the document that a namespace begins with, if there is one.
func (m *StoreManager) first(ctx context.Context) (Document, bool, error) {
	v := m.o.Default
	if m.o.DefaultFunc != nil {
		var err error
		if v, err = m.o.DefaultFunc(ctx); err != nil {
			return Document{}, false, fmt.Errorf("memory: the default: %w", err)
		}
	}
	if v == nil {
		return Document{}, false, nil
	}
	d, err := m.checkDefault(v)
	return d, err == nil, err
}

// place is where memories are for this call.
func (m *StoreManager) place(ctx context.Context) (*store.Store, store.Namespace, error) {
	n, err := m.ns.resolve(ctx)
	return storeFor(ctx, m.o.Store), n, err
}

// storeFor is the store, or the run's. A nil one answers with [store.ErrNoStore].
func storeFor(ctx context.Context, s *store.Store) *store.Store {
	if s != nil {
		return s
	}
	return treadle.StoreFrom(ctx)
}

// Reflect recalls what is known of the matter, has the model compare it with the
// messages, goes through the phases, and writes what has changed, all of it or
// nothing. It returns the changes that were written; each is also a custom event
// of the run. If the model got something wrong the rest is written nevertheless,
// and the error says what is missing: see [Extract].
//
// If a memory was changed by others meanwhile, nothing is written, and all of it
// is done anew with the memories as they are now: three times at most, then the
// error is the [*store.ConflictError].
func (m *StoreManager) Reflect(ctx context.Context, messages ...llm.Message) ([]ItemChange, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		changes, err := m.reflect(ctx, s, n, messages)
		_, conflict := errors.AsType[*store.ConflictError](err)
		if !conflict || changes != nil || attempt == reflectAttempts || ctx.Err() != nil {
			return changes, err
		}
	}
}

// reflect does it once.
func (m *StoreManager) reflect(ctx context.Context, s *store.Store, n store.Namespace, messages []llm.Message) ([]ItemChange, error) {
	r, err := m.recall(ctx, s, n, messages)
	if err != nil {
		return nil, err
	}
	d, err := newDraftSet(r.documents())
	if err != nil {
		return nil, err
	}
	problems := []error{m.manager.work(ctx, messages, d)}
	for i, p := range m.phases {
		var heard []llm.Message
		if m.o.Phases[i].IncludeMessages {
			heard = messages
		}
		if len(d.live()) == 0 && heard == nil {
			continue // there is nothing to go over
		}
		if err := p.work(ctx, heard, d); err != nil {
			problems = append(problems, fmt.Errorf("phase %d: %w", i+1, err))
		}
	}
	w := &writer{store: s, namespace: n, recalled: r, overwrite: m.o.Overwrite, profile: m.o.NoInserts, source: m.source(ctx, messages),
		similar: m.o.Similar, guard: m.guard}
	changes, err := w.write(ctx, d.changes())
	return changes, errors.Join(append(problems, err)...)
}

// guard asks the Guard, and holds what it made of the change to its kind.
func (m *StoreManager) guard(ctx context.Context, c *ItemChange) error {
	if m.o.Guard == nil {
		return nil
	}
	said := c.After
	if err := m.o.Guard(ctx, c); err != nil || c.Op == Delete {
		return err
	}
	if !sameJSON(said, c.After) {
		c.Patch = nil // it has what was left out
	}
	k, ok := m.manager.extract.kind(c.Kind)
	if !ok {
		return nil
	}
	var err error
	c.After, err = k.checkChange(c.Before, c.After)
	return err
}

// Recall returns what Reflect would show the model: the memories that fit the
// messages best, then the newest.
func (m *StoreManager) Recall(ctx context.Context, messages ...llm.Message) ([]*store.Item, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	r, err := m.recall(ctx, s, n, messages)
	if err != nil {
		return nil, err
	}
	var items []*store.Item
	for _, item := range r.items {
		if item != nil {
			items = append(items, item)
		}
	}
	return items, nil
}

// Get returns the memory under key, or [store.ErrNotFound]. Where none has been
// stored, "default" is the Default.
func (m *StoreManager) Get(ctx context.Context, key string) (Document, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return Document{}, err
	}
	item, err := s.Get(ctx, n, key, nil)
	if errors.Is(err, store.ErrNotFound) && key == defaultKey {
		if d, ok, ferr := m.first(ctx); ok || ferr != nil {
			return d, ferr
		}
	}
	if err != nil {
		return Document{}, err
	}
	return DocumentOf(item), nil
}

// Put stores a memory: a string, or a struct whose type is its kind.
func (m *StoreManager) Put(ctx context.Context, key string, v any) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	d, err := NewDocument(key, v)
	if err != nil {
		return err
	}
	return s.Put(ctx, n, key, envelope{d.Kind, d.Content}, nil)
}

// Delete removes a memory, if there is one. Its history stays; see
// [StoreManager.Forget].
func (m *StoreManager) Delete(ctx context.Context, key string) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	return s.Delete(ctx, n, key, nil)
}

// Search looks for memories; see [store.Store.Search].
func (m *StoreManager) Search(ctx context.Context, opts *store.SearchOptions) ([]*store.Item, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	return s.Search(ctx, n, opts)
}

// AsOf is Search in the memories as they were at t.
func (m *StoreManager) AsOf(ctx context.Context, t time.Time, opts *store.SearchOptions) ([]*store.Item, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	return s.AsOf(t).Search(ctx, n, opts)
}

// History returns what has become of a memory, newest first.
func (m *StoreManager) History(ctx context.Context, key string) ([]store.Change, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	return s.History(ctx, n, key)
}

// Forget removes a memory together with its history, and how often it was
// recalled.
func (m *StoreManager) Forget(ctx context.Context, key string) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	err = s.Forget(ctx, n, key)
	if counts(n) {
		err = errors.Join(err, s.Forget(ctx, usesOf(n), key))
	}
	return err
}

// ForgetAll is Forget for all memories under the namespace. Conversations that wait
// in a [Reflector] are not among them: see [Reflector.Cancel].
func (m *StoreManager) ForgetAll(ctx context.Context) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	err = s.ForgetAll(ctx, n)
	if counts(n) {
		err = errors.Join(err, s.ForgetAll(ctx, usesOf(n)))
	}
	return err
}
