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

// StoreManagerOptions configures a [StoreManager]. A nil *StoreManagerOptions means the
// defaults.
type StoreManagerOptions struct {
	ManagerOptions
	// Namespace is the namespace of the memories. A segment may contain variables in
	// braces, such as {user_id}. Their values come from the fields of the run's context
	// ([treadle.Context]), by JSON name, or from [WithVars]. Nil means {"memories",
	// "{langgraph_user_id}"}, as in LangMem.
	//
	// On a server with Auth, {user}, {user_id}, {langgraph_user_id}, and
	// {langgraph_auth_user_id} are the authenticated user, never a value sent by the
	// client. Other values sent by the client are used only if a whole segment is the user.
	// Without Auth, clients set their user in the run's context or configuration.
	Namespace []string
	// Store stores the memories; nil means the run's store. For a conversation that a
	// [Reflector] resumed from an earlier process, nil means the Reflector's store.
	Store *store.Store
	// Default is the first memory of an empty namespace, a string or a struct, with the key
	// "default". It never replaces a memory. Without a Default, the first memory that a
	// model writes under NoInserts gets that key.
	Default any
	// DefaultFunc returns the Default for each call. Set at most one of the two.
	DefaultFunc func(context.Context) (any, error)
	// QueryModel, if not nil, writes the search queries. Otherwise, the last messages and
	// the user's messages are the queries.
	QueryModel llm.Model
	// Limit is the maximum number of memories shown to the model; 0 means 15. Each topic of
	// the conversation gets an equal share.
	Limit int
	// Phases lists additional passes over the recalled and changed memories.
	Phases []Phase
	// Similar, if not 0, is the minimum similarity, from 0 to 1, at which an insert can be
	// a duplicate of an existing memory of its kind; 0.95 is a good value. It is one only
	// if both also say the same in the same words: "the", punctuation, and the case of the
	// first letter can differ, but no number, negation, name, plural, or other word. A
	// duplicate is not written, and it counts as a use of the existing memory.
	// Inserts of the same response are also compared with each other. The store must have
	// an embedder. Without Similar, only an equal memory is a duplicate.
	Similar float64
	// Guard, if not nil, is called with each change before it is written. It may modify
	// After and Reason, for instance to remove personal data; a modified update has no
	// Patch. If Guard returns an error, the change is not written, and Reflect returns the
	// error, joined with any others.
	Guard func(ctx context.Context, c *ItemChange) error
	// Overwrite writes the model's changes even if a memory was changed in the meantime,
	// and removes memories together with their history. By default, the model decides again
	// with the new version, and older versions remain in the history.
	Overwrite bool
}

// A Phase is a pass in which a model revises the memories. The model may insert and remove
// memories unless NoInserts or NoDeletes is set.
type Phase struct {
	// Instructions tell the model what to do; empty means to merge and consolidate.
	Instructions string
	// IncludeMessages also shows the conversation to the model.
	IncludeMessages      bool
	NoInserts, NoDeletes bool
}

const (
	defaultRecall   = 15
	defaultKey      = "default"
	reflectAttempts = 3

	phaseInstructions = `Go over the documents and consolidate them: merge those that say the same, remove what others make superfluous, and complete what others make clearer. Lose nothing that is known.`
)

// A StoreManager keeps the memories in a store up to date with conversations. It is safe
// for concurrent use.
type StoreManager struct {
	o       StoreManagerOptions
	manager *Manager
	phases  []*Manager
	ns      template
}

// NewStoreManager returns a store manager that uses the model.
func NewStoreManager(model llm.Model, opts *StoreManagerOptions) (*StoreManager, error) {
	m := &StoreManager{}
	if opts != nil {
		m.o = *opts
	}
	m.o.Limit = cmp.Or(m.o.Limit, defaultRecall)
	switch {
	case m.o.Default != nil && m.o.DefaultFunc != nil:
		return nil, errors.New("memory: both Default and DefaultFunc are set: set one")
	case m.o.Limit < 0:
		return nil, fmt.Errorf("memory: invalid StoreManagerOptions.Limit %d: want 1 or more, or 0 for %d", m.o.Limit, defaultRecall)
	case !(m.o.Similar >= 0 && m.o.Similar <= 1): // also rejects NaN
		return nil, fmt.Errorf("memory: invalid StoreManagerOptions.Similar %v: want 0 to 1", m.o.Similar)
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
		phase := ManagerOptions{ExtractOptions: m.o.ExtractOptions, Steps: m.o.Steps, Instructions: cmp.Or(p.Instructions, phaseInstructions)}
		phase.NoInserts, phase.Deletes = p.NoInserts, !p.NoDeletes
		pm, err := NewManager(model, &phase)
		if err != nil {
			return nil, err
		}
		m.phases = append(m.phases, pm)
	}
	return m, nil
}

// checkDefault returns the default as a document. It validates the default like a document
// written by the model.
func (m *StoreManager) checkDefault(v any) (Document, error) {
	d, err := NewDocument(defaultKey, v)
	if err != nil {
		return d, err
	}
	k, ok := m.manager.extract.kind(d.Kind)
	if !ok {
		return d, fmt.Errorf("memory: kind %s of Default is not in Kinds", d.Kind)
	}
	if d.Content, err = k.check(d.Content); err != nil {
		return d, fmt.Errorf("memory: Default is not a valid %s (a nil slice or map is null: use an empty one): %w", d.Kind, err)
	}
	return d, nil
}

// first returns the default, if set.
func (m *StoreManager) first(ctx context.Context) (Document, bool, error) {
	v := m.o.Default
	if m.o.DefaultFunc != nil {
		var err error
		if v, err = m.o.DefaultFunc(ctx); err != nil {
			return Document{}, false, fmt.Errorf("memory: default: %w", err)
		}
	}
	if v == nil {
		return Document{}, false, nil
	}
	d, err := m.checkDefault(v)
	return d, err == nil, err
}

// Namespace returns the namespace of the memories for a call: StoreManagerOptions.Namespace
// with its variables replaced. It returns a [*VarError] if a variable has no valid value.
func (m *StoreManager) Namespace(ctx context.Context) (store.Namespace, error) {
	return m.ns.resolve(ctx)
}

// place returns the store and the namespace for a call.
func (m *StoreManager) place(ctx context.Context) (*store.Store, store.Namespace, error) {
	n, err := m.ns.resolve(ctx)
	if err != nil {
		return nil, nil, err
	}
	s, err := storeFor(ctx, m.o.Store)
	return s, n, err
}

// storeFor returns s, or the run's store if s is nil or the run uses a branch of s. Without
// either, it returns the store of the durable reflector that makes the call. The result may
// be nil; its methods return [store.ErrNoStore]. A conversation that is reflected on later
// uses the store branch of its run.
func storeFor(ctx context.Context, s *store.Store) (*store.Store, error) {
	run := treadle.StoreFrom(ctx)
	if run != nil && (s == nil || run.Trunk() == s) {
		return run, nil
	}
	if s == nil {
		j := journaledOf(ctx)
		if j == nil {
			return nil, nil
		}
		s = j.store
	}
	p, _ := ctx.Value(sourceKey{}).(Provenance)
	for name := p.Branch; name != ""; {
		b, err := s.Branch(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("memory: branch of the conversation: %w", err)
		}
		switch info := b.BranchInfo(); info.State {
		case store.Open:
			return b, nil
		case store.Discarded:
			return nil, fmt.Errorf("memory: branch of the conversation: %w", &store.BranchError{Name: name, State: info.State})
		default: // merged into the store that it was forked from
			name = info.Of
		}
	}
	return s, nil
}

// Reflect searches for memories related to the messages, lets the model compare them with
// the messages, runs the phases, and writes the changes in one batch. It returns the
// changes that were written; each is also a custom event of the run. If some of the model's
// calls were invalid, the changes of the other calls are written and returned together with
// the error; see [Extract].
//
// If another writer changed one of the memories in the meantime, Reflect writes nothing and
// starts again with the current memories. After three attempts, it returns the
// [*store.ConflictError].
func (m *StoreManager) Reflect(ctx context.Context, messages ...llm.Message) ([]ItemChange, error) {
	ctx, end := traced(ctx, "reflect", messages)
	changes, err := m.reflectAgain(ctx, messages)
	end(changes, err)
	return changes, err
}

// reflectAgain is like reflect, but retries after conflicts.
func (m *StoreManager) reflectAgain(ctx context.Context, messages []llm.Message) ([]ItemChange, error) {
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

// reflect makes one attempt.
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
			continue // nothing to revise
		}
		if err := p.work(ctx, heard, d); err != nil {
			problems = append(problems, fmt.Errorf("phase %d: %w", i+1, err))
		}
	}
	w := &writer{store: s, namespace: n, recalled: r, overwrite: m.o.Overwrite, profile: m.o.NoInserts, source: m.source(ctx, messages),
		similar: m.o.Similar, guard: m.guard}
	if err := checkErased(ctx); err != nil {
		return nil, err
	}
	changes, err := w.write(ctx, d.changes())
	return changes, errors.Join(append(problems, err)...)
}

// guard calls the Guard and validates the modified content.
func (m *StoreManager) guard(ctx context.Context, c *ItemChange) error {
	if m.o.Guard == nil {
		return nil
	}
	said := c.After
	if err := m.o.Guard(ctx, c); err != nil || c.Op == Delete {
		return err
	}
	if !sameJSON(said, c.After) {
		c.Patch = nil // it still contains what the Guard removed
	}
	k, ok := m.manager.extract.kind(c.Kind)
	if !ok {
		return nil
	}
	var err error
	c.After, err = k.checkChange(c.Before, c.After)
	return err
}

// Recall returns the memories that Reflect would show to the model: the best matches for
// the messages, then the newest.
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

// Get returns the memory stored under key. It returns an error matching [store.ErrNotFound]
// if the memory does not exist. If no memory is stored under "default", it returns the
// Default.
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
	if err := m.migrate(item); err != nil {
		return Document{}, err
	}
	return DocumentOf(item), nil
}

// Put stores a memory: a string, or a struct whose type becomes the kind. The paths in
// opts.Index begin with "kind" or "content", such as "content.name".
func (m *StoreManager) Put(ctx context.Context, key string, v any, opts *store.PutOptions) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	d, err := NewDocument(key, v)
	if err != nil {
		return err
	}
	return s.Put(ctx, n, key, envelope{d.Kind, d.Content}, opts)
}

// Delete removes a memory. Deleting a missing memory is not an error. The history remains;
// see [StoreManager.Forget].
func (m *StoreManager) Delete(ctx context.Context, key string) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	return s.Delete(ctx, n, key, nil)
}

// Search searches the memories; see [store.Store.Search].
func (m *StoreManager) Search(ctx context.Context, opts *store.SearchOptions) ([]*store.Item, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	items, err := s.Search(ctx, n, opts)
	if err != nil {
		return nil, err
	}
	return items, m.migrate(items...)
}

// AsOf searches the memories as of time t.
func (m *StoreManager) AsOf(ctx context.Context, t time.Time, opts *store.SearchOptions) ([]*store.Item, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	items, err := s.AsOf(t).Search(ctx, n, opts)
	if err != nil {
		return nil, err
	}
	return items, m.migrate(items...)
}

// History returns the changes of a memory, newest first.
func (m *StoreManager) History(ctx context.Context, key string) ([]store.Change, error) {
	s, n, err := m.place(ctx)
	if err != nil {
		return nil, err
	}
	return s.History(ctx, n, key)
}

// Forget removes a memory together with its history, use count, and ratings. Conversations that
// mention the fact are kept, so a manager that reads such a conversation again, after its
// next message or at the end of the current run, stores the fact again. Delete these
// threads too, with [checkpoint.Saver.DeleteThread] or [Erasure].
func (m *StoreManager) Forget(ctx context.Context, key string) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	err = s.Forget(ctx, n, key)
	if counts(n) {
		err = errors.Join(err, s.Forget(ctx, usesOf(n), key))
	}
	if rateable(n) {
		err = errors.Join(err, s.Forget(ctx, ratingsOf(n), key))
	}
	return err
}

// ForgetAll forgets all memories under the namespace. As with Forget, a conversation that
// continues brings its facts back: delete the user's threads too. ForgetAll does not affect
// conversations pending in a [Reflector]; see [Reflector.Cancel].
func (m *StoreManager) ForgetAll(ctx context.Context) error {
	s, n, err := m.place(ctx)
	if err != nil {
		return err
	}
	err = s.ForgetAll(ctx, n)
	if counts(n) {
		err = errors.Join(err, s.ForgetAll(ctx, usesOf(n)))
	}
	if sleeps(n) {
		err = errors.Join(err, s.ForgetAll(ctx, sleepOf(n)))
	}
	if t := latchSpace(n); len(t.Encode()) <= store.MaxNamespace {
		err = errors.Join(err, s.ForgetAll(ctx, t))
	}
	return err
}
