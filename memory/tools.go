package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// ToolOptions configures [ManageTool], [SearchTool], and [SearchFor]. A nil *ToolOptions
// means the defaults.
type ToolOptions struct {
	// Name is the tool's name; empty means manage_memory or search_memory.
	Name string
	// Namespace is the namespace of the memories; see [StoreManagerOptions].
	Namespace []string
	// Store stores the memories; nil means the run's store.
	Store *store.Store
	// Kinds convert memories to their current shape; see [Kind.Migrate]. A memory without a
	// kind, which is the form that the tool writes, is treated as the tool's type.
	Kinds []Kind
	// Instructions tell the model when to use the tool; empty means the package's default.
	Instructions string
	// Actions lists the allowed actions of manage_memory: "create", "update", and "delete";
	// nil means all three.
	Actions []string
	// Merge makes an update by manage_memory change only the fields that it contains.
	// Objects are merged field by field, lists are replaced, and null counts as absent. The
	// result is validated like a new memory. Without Merge, an update replaces the whole
	// memory. Memories without fields, such as texts, cannot be merged.
	Merge bool
	// Guard, if not nil, is called with each change by manage_memory before it is made,
	// like the Guard of a manager; see [StoreManagerOptions]. Use the same function for
	// both. It may modify After, for instance to remove personal data. If it returns an
	// error, the change is not made, and the model gets the error. To ask a person, see
	// [agent.Gates].
	Guard func(ctx context.Context, c *ItemChange) error
	// Artifact adds the found items to the result of search_memory as an artifact for the
	// program; see [llm.ToolOutput].
	Artifact bool
}

const (
	manageName         = "manage_memory"
	manageInstructions = "Use it on your own initiative: when the user states a preference, asks you to remember something, or tells you something that will matter later, and when a memory turns out to be wrong or outdated."
)

var manageActions = []string{"create", "update", "delete"}

// manageArgs are the arguments of the manage_memory tool.
type manageArgs[T any] struct {
	Content *T      `json:"content,omitempty" jsonschema:"the memory; not for delete"`
	Action  string  `json:"action,omitempty"`
	ID      *string `json:"id,omitempty" jsonschema:"the key of the memory; only for update and delete"`
}

// ManageTool returns the manage_memory tool, which lets a model create, update, and delete
// memories of type T, a string or a struct. New memories are stored as {"content": …};
// memories written by a manager keep their form. The model gets an error if it passes an ID
// for a new memory, if a memory does not exist or is of another kind, or if T's method
// Validate() error fails.
//
// A memory that the tool writes is valid from now on: an update removes a [Validity] that
// has ended, and a memory that is no longer valid does not prevent the creation of an equal
// one.
func ManageTool[T any](opts *ToolOptions) (*llm.Tool, error) {
	m, err := newManaged(opts, manageName)
	if err != nil {
		return nil, err
	}
	actions, err := m.actions()
	if err != nil {
		return nil, err
	}
	t := llm.NewTool(m.o.Name, manageDescription(actions, m.o.Instructions), func(ctx context.Context, a manageArgs[T]) (string, error) {
		var content json.RawMessage
		if a.Content != nil {
			var err error
			if content, err = encodeValid(a.Content); err != nil {
				return "", err
			}
		}
		return m.do(ctx, a.Action, a.ID, content)
	})
	if t.Parameters == nil {
		return nil, fmt.Errorf("memory: no schema for content type %T", *new(T))
	}
	if typ := reflect.TypeFor[T](); typ.Kind() == reflect.Struct {
		m.kind = typ.Name()
	}
	m.whole = Kind{name: m.o.Name, tool: documentTool[T](m.o.Name, "")}
	// A copy of the schema with the allowed actions.
	schema, run := t.Parameters.CloneSchemas(), t.Run
	for _, a := range actions {
		schema.Properties["action"].Enum = append(schema.Properties["action"].Enum, a)
	}
	schema.Properties["action"].Default = json.RawMessage(`"` + m.first + `"`)
	if m.o.Merge {
		if schema.Properties["content"], err = partial(schema.Properties["content"]); err != nil {
			return nil, err
		}
		run = m.runMerging
	}
	return &llm.Tool{Name: t.Name, Description: t.Description, Parameters: schema, Run: run}, nil
}

// actions returns the allowed actions and sets the default: create if it is allowed,
// otherwise the first action.
func (m *managed) actions() ([]string, error) {
	actions := m.o.Actions
	if actions == nil {
		actions = manageActions
	}
	for _, a := range actions {
		if !slices.Contains(manageActions, a) {
			return nil, fmt.Errorf("memory: unknown action %q: want some of %s", a, strings.Join(manageActions, ", "))
		}
	}
	if len(actions) == 0 {
		return nil, errors.New("memory: no actions: list at least one of create, update, delete")
	}
	m.first = actions[0]
	if slices.Contains(actions, "create") {
		m.first = "create"
	}
	return actions, nil
}

func manageDescription(actions []string, instructions string) string {
	if instructions == "" {
		instructions = manageInstructions
	}
	text := strings.Join(actions, ", ")
	if i := strings.LastIndex(text, ", "); i >= 0 {
		text = text[:i] + " or " + text[i+2:]
	}
	text = strings.ToUpper(text[:1]) + text[1:] + " a memory that lasts beyond this conversation."
	if slices.Contains(actions, "update") || slices.Contains(actions, "delete") {
		text += " Give the id only to update or delete an existing memory."
	}
	return text + " " + instructions
}

// managed holds the options and types of a tool.
type managed struct {
	o     ToolOptions
	ns    template
	first string // the default action
	kind  string // kind of the memories; empty if T is not a struct
	whole Kind   // validates merged memories and keeps their unknown fields
}

func newManaged(opts *ToolOptions, name string) (*managed, error) {
	m := &managed{}
	if opts != nil {
		m.o = *opts
	}
	if m.o.Name == "" {
		m.o.Name = name
	}
	var err error
	m.ns, err = newTemplate(m.o.Namespace)
	return m, err
}

// do performs one action and returns the text for the model.
func (m *managed) do(ctx context.Context, action string, key *string, content json.RawMessage) (string, error) {
	id := ""
	if key != nil {
		id = *key
	}
	action = cmp.Or(action, m.first)
	switch {
	case action == "create" && id != "":
		return "", errors.New("create with an ID: omit the ID, or use update")
	case action != "create" && id == "":
		return "", fmt.Errorf("missing ID of the memory to %s", action)
	case action != "delete" && (content == nil || string(content) == "null"):
		return "", fmt.Errorf("missing content of the memory to %s", action)
	}
	n, err := m.ns.resolve(ctx)
	if err != nil {
		return "", err
	}
	s, err := storeFor(ctx, m.o.Store)
	if err != nil {
		return "", err
	}
	if action == "create" {
		return m.create(ctx, s, n, content)
	}
	item, err := s.Get(ctx, n, id, nil)
	if errors.Is(err, store.ErrNotFound) {
		return "", fmt.Errorf("unknown memory %s: search for it first", id)
	}
	if err != nil {
		return "", err
	}
	if err := migrateItems(m.o.Kinds, m.kind, item); err != nil {
		return "", err
	}
	if action == "delete" {
		return m.remove(ctx, s, item)
	}
	return m.update(ctx, s, item, content)
}

func (m *managed) create(ctx context.Context, s *store.Store, n store.Namespace, content json.RawMessage) (string, error) {
	content, err := m.complete(nil, content)
	if err != nil {
		return "", err
	}
	change := ItemChange{Namespace: n, Key: newID(), Change: Change{Op: Insert, After: content}}
	if err := m.guard(ctx, &change); err != nil {
		return "", err
	}
	for {
		said, held, err := m.insert(ctx, s, n, change)
		if !held.lost(err) || ctx.Err() != nil {
			return said, err
		}
	}
}

// insert makes one attempt to write a new memory.
func (m *managed) insert(ctx context.Context, s *store.Store, n store.Namespace, change ItemChange) (string, latch, error) {
	content := change.After
	held := latchOf(s, n)
	// Managers store the same memory with its kind.
	same := store.Or(store.Eq("content", content), store.And(store.Eq("kind", memoryKind), store.Eq("content.content", content)))
	ops := append(held.read(), sameItem(n, same))
	reads := len(ops) - 1
	var text string
	if json.Unmarshal(content, &text) == nil && strings.TrimSpace(text) != "" {
		ops = append(ops, outdated(n, text))
	}
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return "", held, err
	}
	held.see(results[:reads])
	results = results[reads:]
	for _, item := range results[0].Items {
		if slices.Equal(item.Namespace, n) && validityOf(item).covers(Validity{}) {
			return fmt.Sprintf("memory %s says this already", item.Key), held, nil
		}
	}
	meta, err := withSource(nil, sourceOf(ctx))
	if err != nil {
		return "", held, err
	}
	value := map[string]json.RawMessage{"content": content}
	op := store.PutOp{Namespace: n, Key: change.Key, Value: value, PutOptions: store.PutOptions{Meta: meta, IfAbsent: true}}
	var said strings.Builder
	said.WriteString("created memory " + change.Key)
	for _, r := range results[1:] {
		if old := superseded(r.Items, text, time.Now(), nil); old != nil && slices.Equal(old.Namespace, n) {
			change.Supersedes, meta[metaSupersedes] = old.Key, old.Key
			fmt.Fprintf(&said, "; memory %s may be outdated now: update or delete it if so", old.Key)
		}
	}
	return said.String(), held, m.write(ctx, s, change, append([]store.Op{op}, held.take()...)...)
}

func (m *managed) update(ctx context.Context, s *store.Store, item *store.Item, content json.RawMessage) (string, error) {
	old := DocumentOf(item)
	meta, err := withSource(item, sourceOf(ctx))
	if err != nil {
		return "", err
	}
	if old.Validity.ended(time.Now()) {
		delete(meta, metaValidity) // otherwise, the memory would never be recalled
	}
	var has struct {
		Kind    *string         `json:"kind"`
		Content json.RawMessage `json:"content"`
	}
	managed := item.Decode(&has) == nil && has.Kind != nil
	if managed {
		// A manager wrote it, so its kind must not change.
		switch isText := content[0] == '"'; {
		case isText && *has.Kind != memoryKind:
			return "", fmt.Errorf("memory %s is a %s: a string cannot replace it", item.Key, *has.Kind)
		case isText:
			if content, err = encodeAny(map[string]json.RawMessage{"content": content}); err != nil {
				return "", err
			}
		case m.kind != "" && m.kind != *has.Kind:
			return "", fmt.Errorf("memory %s is a %s: a %s cannot replace it", item.Key, *has.Kind, m.kind)
		}
	}
	if content, err = m.complete(old.Content, content); err != nil {
		return "", fmt.Errorf("memory %s would be invalid: %w", item.Key, err)
	}
	change := ItemChange{Namespace: item.Namespace, Key: item.Key, Change: Change{Op: Update, Kind: old.Kind, Before: old.Content, After: content}}
	if err := m.guard(ctx, &change); err != nil {
		return "", err
	}
	content = change.After
	var value any = map[string]json.RawMessage{"content": content}
	switch {
	case has.Content != nil:
		value = valueWith(item, has.Kind, content)
	case managed:
		value = envelope{*has.Kind, content}
	}
	op := store.PutOp{Namespace: item.Namespace, Key: item.Key, Value: value, PutOptions: store.PutOptions{Meta: meta, TTL: lifeOf(item), IfVersion: item.Version}}
	return "updated memory " + item.Key, m.write(ctx, s, change, op)
}

func (m *managed) remove(ctx context.Context, s *store.Store, item *store.Item) (string, error) {
	old := DocumentOf(item)
	change := ItemChange{Namespace: item.Namespace, Key: item.Key, Change: Change{Op: Delete, Kind: old.Kind, Before: old.Content}}
	if err := m.guard(ctx, &change); err != nil {
		return "", err
	}
	op := store.DeleteOp{Namespace: item.Namespace, Key: item.Key, DeleteOptions: store.DeleteOptions{IfVersion: item.Version}}
	return "Deleted memory " + item.Key, m.write(ctx, s, change, op)
}

// guard calls the Guard and validates the modified content.
func (m *managed) guard(ctx context.Context, c *ItemChange) error {
	if m.o.Guard == nil {
		return nil
	}
	c.ID = c.Key
	said, guarded := c.After, *c
	if err := m.o.Guard(ctx, &guarded); err != nil {
		return fmt.Errorf("memory: Guard rejected the %s: %w", c.Op, err)
	}
	if c.Op == Delete || sameJSON(said, guarded.After) {
		return nil
	}
	if m.kind != "" {
		var err error
		c.After, err = m.whole.checkChange(c.Before, guarded.After)
		return err
	}
	// A text must remain a text, and a manager's text must remain an object.
	if after := bytes.TrimSpace(guarded.After); !json.Valid(after) || after[0] != said[0] {
		return fmt.Errorf("memory: Guard changed the type of the content: %.80s, was %.80s", guarded.After, said)
	}
	c.After = guarded.After
	return nil
}

// write makes a change with the first of ops and emits it as an event.
func (m *managed) write(ctx context.Context, s *store.Store, c ItemChange, ops ...store.Op) error {
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return err
	}
	c.ID, c.Version = c.Key, versionOf(results[0])
	treadle.Emit(ctx, c)
	return nil
}

// SearchTool returns the search_memory tool, which lets a model search the namespace and
// its child namespaces. The result is a list of {namespace, key, value, created_at,
// updated_at, score}, with valid_from and valid_until if a memory has a [Validity]. It
// includes memories whose validity has ended.
func SearchTool(opts *ToolOptions) (*llm.Tool, error) {
	m, err := newManaged(opts, searchName)
	if err != nil {
		return nil, err
	}
	return llm.NewTool(m.o.Name, strings.TrimSpace(searchDescription+" "+m.o.Instructions), func(ctx context.Context, a searchArgs) (any, error) {
		n, err := m.ns.resolve(ctx)
		if err != nil {
			return nil, err
		}
		op, err := a.op(n)
		if err != nil {
			return nil, err
		}
		s, err := storeFor(ctx, m.o.Store)
		if err != nil {
			return nil, err
		}
		items, err := s.Search(ctx, op.Prefix, &op.SearchOptions)
		if err != nil {
			return nil, err
		}
		if err := migrateItems(m.o.Kinds, "", items...); err != nil {
			return nil, err
		}
		found := foundItems(items, strings.TrimSpace(a.Query) != "")
		if m.o.Artifact {
			return llm.ToolOutput{Content: found, Artifact: found}, nil
		}
		return found, nil
	}), nil
}
