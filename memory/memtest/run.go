package memtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Options configures [Run] and [Evaluate]. A nil *Options means the defaults.
type Options struct {
	// Manager creates the manager under test. The manager must keep its memories in the
	// store and use the model. Manager is called more than once per case. Nil means a
	// manager with the defaults of package memory and Deletes set.
	Manager func(c *Case, model llm.Model, s *store.Store) (*memory.StoreManager, error)
	// Store creates the empty store of a case with the given clock. Nil means an in-memory
	// store that ranks by keywords and spelling, without a model.
	Store func(c *Case, now func() time.Time) (*store.Store, error)
	// Recall configures the recall checks; nil means the defaults. The case sets Namespace,
	// Store, and Now, and a check with Tokens sets MaxTokens.
	Recall *memory.RecallerOptions
	// Model is used in sessions without answers. Use an llmtest.Cassette to record and
	// replay its responses.
	Model llm.Model
}

// Run runs each case as a subtest. It logs and returns the report.
func Run(t *testing.T, cases []Case, opts *Options) *Report {
	t.Helper()
	if err := checkNames(cases); err != nil {
		t.Fatal(err)
	}
	r := newRunner(opts)
	for i := range cases {
		t.Run(cases[i].Name, func(t *testing.T) {
			for _, p := range r.run(t.Context(), &cases[i]) {
				t.Error(p)
			}
		})
	}
	t.Logf("memories:\n%s", r.report)
	return r.report
}

// Evaluate is like [Run], but works outside of tests. Its error joins all failures, each
// prefixed with the name of its case. The report is never nil.
func Evaluate(ctx context.Context, cases []Case, opts *Options) (*Report, error) {
	r := newRunner(opts)
	if err := checkNames(cases); err != nil {
		return r.report, err
	}
	var problems []error
	for i := range cases {
		problems = append(problems, prefixed(cases[i].Name, r.run(ctx, &cases[i]))...)
	}
	return r.report, errors.Join(problems...)
}

// checkNames checks that the names are unique and not empty.
func checkNames(cases []Case) error {
	names := map[string]bool{}
	for i, c := range cases {
		if c.Name == "" || names[c.Name] {
			return fmt.Errorf("memtest: case %d: name %q is empty or taken", i+1, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// runner runs cases.
type runner struct {
	Options
	report *Report
}

func newRunner(opts *Options) *runner {
	r := &runner{report: &Report{}}
	if opts != nil {
		r.Options = *opts
	}
	if r.Manager == nil {
		r.Manager = defaultManager
	}
	if r.Store == nil {
		r.Store = defaultStore
	}
	return r
}

func defaultManager(c *Case, model llm.Model, s *store.Store) (*memory.StoreManager, error) {
	if c.Setup != "" {
		return nil, fmt.Errorf("case requires setup %q: set Options.Manager", c.Setup)
	}
	o := memory.StoreManagerOptions{Store: s}
	o.Deletes = true
	return memory.NewStoreManager(model, &o)
}

func defaultStore(_ *Case, now func() time.Time) (*store.Store, error) {
	return store.NewMemory(&store.Options{Embedder: store.NewHashEmbedder(256), Ranking: store.Hybrid, Now: now})
}

// fixture is the state of a running case.
type fixture struct {
	*runner
	c       *Case
	now     time.Time
	store   *store.Store
	manager *memory.StoreManager
	model   *player
}

// run runs a case and returns its failures.
func (r *runner) run(ctx context.Context, c *Case) (problems []error) {
	b := &fixture{runner: r, c: c, now: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC),
		model: &player{real: r.Model}}
	defer func() {
		r.report.Cases++
		if problems != nil {
			r.report.Failed++
		}
		r.report.Requests += b.model.requests
		r.report.RequestTokens += b.model.tokens
	}()
	if err := b.open(ctx); err != nil {
		return []error{err}
	}
	for i := range c.Sessions {
		s := &c.Sessions[i]
		problems := b.session(ctx, s)
		if problems != nil {
			// Later sessions would fail for the same reason.
			return prefixed(fmt.Sprintf("session %d", i+1), problems)
		}
	}
	return prefixed("in the end", b.check(b.as(ctx, nil), &c.Then))
}

// session runs a session, in its branch if it has one.
func (b *fixture) session(ctx context.Context, s *Session) []error {
	if s.Branch == "" && s.End != "" {
		return []error{fmt.Errorf("end %q requires a session with a branch", s.End)}
	}
	if s.Branch != "" && (s.Do == "erase" || s.Do == "move") {
		return []error{fmt.Errorf("%q requires a session without a branch, because it affects the whole store", s.Do)}
	}
	if s.Branch != "" {
		trunk, manager := b.store, b.manager
		defer func() { b.store, b.manager = trunk, manager }()
		if err := b.enter(ctx, s.Branch); err != nil {
			return []error{fmt.Errorf("branch %q: %w", s.Branch, err)}
		}
	}
	problems := b.reflect(ctx, s)
	if problems == nil {
		problems = b.check(b.as(ctx, s.Vars), &s.Then)
	}
	if problems != nil {
		return problems
	}
	var err error
	switch s.End {
	case "":
	case "merge":
		err = memory.Merge(ctx, b.store, nil)
	case "discard":
		err = b.store.Discard(ctx)
	default:
		err = fmt.Errorf("unknown end %q: want merge or discard", s.End)
	}
	if err != nil {
		return []error{fmt.Errorf("branch %q: %w", s.Branch, err)}
	}
	return nil
}

// enter makes a branch the current store and creates a manager for it, creating the branch
// if necessary.
func (b *fixture) enter(ctx context.Context, name string) error {
	branch, err := b.store.Branch(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		branch, err = b.store.Fork(ctx, store.Latest, store.BranchInfo{Name: name})
	}
	if err != nil {
		return err
	}
	b.store = branch
	b.manager, err = b.Manager(b.c, b.model, branch)
	return err
}

func prefixed(where string, problems []error) []error {
	for i, p := range problems {
		problems[i] = fmt.Errorf("%s: %w", where, p)
	}
	return problems
}

// open creates the store and the manager, and stores the given memories.
func (b *fixture) open(ctx context.Context) error {
	var err error
	if b.store, err = b.Store(b.c, func() time.Time { return b.now }); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if b.manager, err = b.Manager(b.c, b.model, b.store); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	for _, g := range b.c.Given {
		if err := b.pass(g.At, time.Minute); err != nil {
			return fmt.Errorf("given %q: %w", g.Key, err)
		}
		if err := b.put(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// pass sets the clock to at or, if at is zero, advances it by while.
func (b *fixture) pass(at time.Time, while time.Duration) error {
	if at.IsZero() {
		at = b.now.Add(while)
	}
	if at.Before(b.now) {
		return fmt.Errorf("%s is before %s: list events in order", stamp(at), stamp(b.now))
	}
	b.now = at
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// as returns the context with the variables of the case, overridden by vars.
func (b *fixture) as(ctx context.Context, vars map[string]string) context.Context {
	return memory.WithVars(ctx, b.vars(vars))
}

// vars returns the variables of the case, overridden by vars.
func (b *fixture) vars(vars map[string]string) map[string]string {
	all := map[string]string{"langgraph_user_id": "user"}
	maps.Copy(all, b.c.Vars)
	maps.Copy(all, vars)
	return all
}

// put stores a memory directly, without the manager.
func (b *fixture) put(ctx context.Context, g Given) error {
	value, err := g.value()
	if err != nil {
		return fmt.Errorf("given %q: %w", g.Key, err)
	}
	n, err := b.place(b.as(ctx, g.Vars))
	if err != nil {
		return fmt.Errorf("given %q: %w", g.Key, err)
	}
	var o store.PutOptions
	if g.Meta != nil {
		o.Meta = g.Meta
	}
	return b.store.Put(ctx, n, g.Key, value, &o)
}

// value returns the value to store.
func (g Given) value() (any, error) {
	forms := 0
	var value any
	if g.Text != "" {
		d, err := memory.NewDocument(g.Key, g.Text)
		if err != nil {
			return nil, err
		}
		forms, value = forms+1, map[string]any{"kind": d.Kind, "content": d.Content}
	}
	if g.Content != nil {
		forms, value = forms+1, map[string]any{"kind": g.Kind, "content": g.Content}
	}
	if g.Value != nil {
		forms, value = forms+1, g.Value
	}
	if forms != 1 || (g.Content == nil) != (g.Kind == "") {
		return nil, errors.New("want a text, a kind with a content, or a value")
	}
	return value, nil
}

// place returns the namespace of the manager's memories for ctx. Only the manager can
// resolve it, so place lets a second manager write a memory to a scratch store and returns
// the memory's namespace.
func (b *fixture) place(ctx context.Context) (store.Namespace, error) {
	scratch, err := store.NewMemory(nil)
	if err != nil {
		return nil, err
	}
	m, err := b.Manager(b.c, b.model, scratch)
	if err != nil {
		return nil, err
	}
	if err := m.Put(ctx, "memtest", "where memories are kept", nil); err != nil {
		return nil, err
	}
	all, err := scratch.Namespaces(ctx, nil)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		return nil, errors.New("manager does not use the given store: see Options.Manager")
	}
	return all[0], nil
}

// reflect runs a session and checks its outcome.
func (b *fixture) reflect(ctx context.Context, s *Session) []error {
	if err := b.pass(s.At, 24*time.Hour); err != nil {
		return []error{err}
	}
	b.model.begin(s, func(ctx context.Context) error {
		for _, g := range s.Meanwhile {
			if err := b.put(ctx, g); err != nil {
				return err
			}
		}
		return nil
	})
	start := time.Now()
	changes, err := b.work(b.as(ctx, s.Vars), s)
	b.report.Reflects = append(b.report.Reflects, time.Since(start)-b.model.spent)
	var problems []error
	if err := b.model.end(); err != nil {
		problems = append(problems, err)
	}
	switch {
	case s.Error == "" && err != nil && problems == nil: // otherwise, problems already contains the error
		problems = append(problems, fmt.Errorf("failed: %w", err))
	case s.Error != "" && err == nil:
		problems = append(problems, fmt.Errorf("succeeded, want an error with %q", s.Error))
	case s.Error != "" && !strings.Contains(err.Error(), s.Error):
		problems = append(problems, fmt.Errorf("want an error with %q, got: %w", s.Error, err))
	}
	if s.Changes != nil {
		problems = append(problems, compareChanges(s.Changes, changes)...)
	}
	return problems
}

// work performs the operation of the session.
func (b *fixture) work(ctx context.Context, s *Session) ([]memory.ItemChange, error) {
	kinds := 0
	for _, set := range []bool{len(s.Messages) > 0, s.Consolidate != nil, s.Edits != nil, s.Do != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return nil, errors.New("session must have one of messages, consolidate, edits, and do")
	case s.Consolidate != nil:
		return b.consolidate(ctx, s)
	case s.Edits != nil:
		return nil, b.edit(ctx, s.Edits)
	case s.Do == "erase":
		return nil, b.erase(ctx, s)
	case s.Do == "move":
		return nil, b.move(ctx, s)
	case s.Do == "look":
		return nil, nil
	case s.Do != "":
		return nil, fmt.Errorf("unknown do %q: want erase, move, or look", s.Do)
	}
	return b.manager.Reflect(ctx, s.Messages...)
}

// consolidate lets the manager consolidate its memories.
func (b *fixture) consolidate(ctx context.Context, s *Session) ([]memory.ItemChange, error) {
	done, err := b.manager.Consolidate(ctx, s.Consolidate)
	if s.Undo {
		for _, set := range slices.Backward(done.Sets) {
			_, undone := b.manager.Undo(ctx, set...)
			err = errors.Join(err, undone)
		}
	}
	return slices.Concat(done.Sets...), err
}

// blocksRoot is the first segment of the default namespace of blocks; the user is the
// second.
const blocksRoot = "blocks"

// blocks returns the blocks of the case.
func (b *fixture) blocks() (*memory.Blocks, error) {
	return memory.NewBlocks(&memory.BlocksOptions{Blocks: b.c.Blocks, Namespace: []string{blocksRoot, "{langgraph_user_id}"}, Store: b.store})
}

// edit calls the tool that edits blocks.
func (b *fixture) edit(ctx context.Context, edits []json.RawMessage) error {
	blocks, err := b.blocks()
	if err != nil {
		return err
	}
	tool := blocks.Tool()
	if tool == nil {
		return errors.New("all blocks are read-only: no edit tool")
	}
	for i, args := range edits {
		if _, err := tool.Call(ctx, llm.ToolCall{Name: tool.Name, Args: args}); err != nil {
			return fmt.Errorf("edit %d: %w", i+1, err)
		}
	}
	return nil
}

// belongings returns the namespaces of the session's user.
func (b *fixture) belongings(ctx context.Context, user string) ([]store.Namespace, error) {
	n, err := b.place(ctx)
	return []store.Namespace{n, {blocksRoot, user}}, err
}

// erase erases all data of the session's user.
func (b *fixture) erase(ctx context.Context, s *Session) error {
	user := b.vars(s.Vars)["langgraph_user_id"]
	namespaces, err := b.belongings(ctx, user)
	if err != nil {
		return err
	}
	_, err = (&memory.Erasure{Person: user, Namespaces: namespaces, Store: b.store}).Run(ctx)
	return err
}

// move exports the data of the session's user and continues with a store that contains only
// that data.
func (b *fixture) move(ctx context.Context, s *Session) error {
	namespaces, err := b.belongings(ctx, b.vars(s.Vars)["langgraph_user_id"])
	if err != nil {
		return err
	}
	to, err := b.Store(b.c, func() time.Time { return b.now })
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, n := range namespaces {
		var file bytes.Buffer
		if _, err := memory.Export(ctx, b.store, &file, n); err != nil {
			return err
		}
		if _, err := to.Import(ctx, &file); err != nil {
			return err
		}
	}
	b.store = to
	b.manager, err = b.Manager(b.c, b.model, to)
	return err
}

func compareChanges(want []string, changes []memory.ItemChange) []error {
	got := []string{}
	var lines strings.Builder
	for _, c := range changes {
		got = append(got, string(c.Op))
		fmt.Fprintf(&lines, "\n\t%s %s %s %s", c.Op, c.Key, c.Kind, cmp.Or(string(c.After), string(c.Before)))
	}
	// The order of changes is not checked.
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if slices.Equal(got, want) {
		return nil
	}
	return []error{fmt.Errorf("changes are %q, want %q:%s", got, want, cmp.Or(lines.String(), " none was written"))}
}
