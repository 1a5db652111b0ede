package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// An ItemChange is a change to a stored memory. It is also emitted as a custom event of the
// run.
type ItemChange struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key"`
	// Version is the version of the item after the change; 0 for a Delete.
	Version int64 `json:"version,omitempty"`
	Change        // its ID is the Key
	// Supersedes is the key of an older memory in the namespace that an Insert makes
	// outdated, because it gives another value for something that has one value, such as a
	// home, or turns the older memory around; empty if there is none. Rules for English
	// decide this, not a model. The key is stored
	// under "supersedes" in the new item's Meta, and the older memory is left unchanged.
	Supersedes string `json:"supersedes,omitempty"`
}

// Provenance records the origin of a memory. It is stored under "provenance" in the item's
// Meta. If the model rated the memory, Meta also contains "importance", a number, and
// "validity", a [Validity]; see [ExtractOptions].Rate. Other entries of Meta are left
// unchanged.
type Provenance struct {
	Thread     string   `json:"thread,omitempty"`
	Checkpoint string   `json:"checkpoint,omitempty"`
	Run        string   `json:"run,omitempty"`
	Branch     string   `json:"branch,omitempty"`   // store branch, if the run had one; see store.Options.Branches
	Messages   []string `json:"messages,omitempty"` // message IDs
	Model      string   `json:"model,omitempty"`
	Reason     string   `json:"reason,omitempty"` // the model's reason for an update
	// Confidence is the model's confidence, from 0 to 1; nil if not given.
	Confidence *float64 `json:"confidence,omitempty"`
}

const (
	metaProvenance = "provenance"
	metaValidity   = "validity"
)

// source returns the provenance of memories from this conversation.
func (m *StoreManager) source(ctx context.Context, messages []llm.Message) Provenance {
	p := sourceOf(ctx)
	if info := llm.Describe(m.manager.model); info.Model != "" {
		p.Model = info.String()
	}
	for _, msg := range messages {
		if msg.ID != "" {
			p.Messages = append(p.Messages, msg.ID)
		}
	}
	return p
}

// keepSource fixes the result of [sourceOf] for later, because the run advances to other
// checkpoints while submitted work waits.
func keepSource(ctx context.Context) context.Context {
	return context.WithValue(ctx, sourceKey{}, sourceOf(ctx))
}

// sourceOf returns the provenance recorded in ctx for a session, or else that of the run
// that ctx belongs to.
func sourceOf(ctx context.Context) Provenance {
	if p, ok := ctx.Value(sourceKey{}).(Provenance); ok {
		return p
	}
	info := treadle.InfoFrom(ctx)
	return Provenance{Thread: info.Thread, Checkpoint: info.CheckpointID, Run: info.RunID, Branch: treadle.StoreFrom(ctx).BranchInfo().Name}
}

// withSource returns an item's Meta with the provenance of its new version.
func withSource(old *store.Item, p Provenance) (map[string]any, error) {
	meta := map[string]any{}
	if old != nil {
		// Keep other entries verbatim, so that numbers keep their digits.
		var others map[string]json.RawMessage
		if err := old.DecodeMeta(&others); err != nil {
			return nil, fmt.Errorf("memory: meta of %q: %w", old.Key, err)
		}
		for name, v := range others {
			meta[name] = v
		}
	}
	delete(meta, metaNoted) // the new version is noted now
	meta[metaProvenance] = p
	return meta, nil
}

// lifeOf returns the TTL for the next version of an item, which is the TTL of the previous
// version. For a new item it returns 0, the store's default.
func lifeOf(item *store.Item) time.Duration {
	if item == nil {
		return 0
	}
	return cmp.Or(item.TTL, store.Forever)
}

// writer stores the changes of a reflection.
type writer struct {
	store     *store.Store
	namespace store.Namespace
	recalled  *recollection
	overwrite bool
	profile   bool // NoInserts: at most one memory
	source    Provenance
	similar   float64
	guard     func(context.Context, *ItemChange) error // never nil

	latch    latch
	repeated []*store.Item // existing memories that inserts would have duplicated
	refused  []error       // errors from the guard
}

// write makes the changes in one batch and emits them as events.
func (w *writer) write(ctx context.Context, cs ChangeSet) ([]ItemChange, error) {
	allowed, items := w.allowed(ctx, cs)
	for {
		changes, err := w.try(ctx, allowed, items)
		if !w.latch.lost(err) || ctx.Err() != nil {
			return changes, err
		}
	}
}

// try makes one attempt to write the changes.
func (w *writer) try(ctx context.Context, allowed []ItemChange, items []*store.Item) ([]ItemChange, error) {
	changes, ops, err := w.plan(ctx, allowed, items)
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, errors.Join(append(w.refused, w.countRepeated(ctx))...)
	}
	results, err := w.store.Batch(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("memory: no change written: %w", err)
	}
	problems := w.refused
	for i := range changes {
		c := &changes[i]
		c.Version = versionOf(results[i])
		if c.Op == Delete && w.overwrite {
			if err := w.store.Forget(ctx, c.Namespace, c.Key); err != nil {
				problems = append(problems, fmt.Errorf("memory: history of %q: %w", c.Key, err))
			}
		}
		treadle.Emit(ctx, *c) // the change is written, even if something else failed
	}
	return changes, errors.Join(append(problems, w.countRepeated(ctx))...)
}

// versionOf returns the version that a write created, or 0 for a delete.
func versionOf(r store.Result) int64 {
	if r.Item == nil {
		return 0
	}
	return r.Item.Version
}

// plan returns the writes for the changes. With inserts, the last write takes the latch.
func (w *writer) plan(ctx context.Context, allowed []ItemChange, items []*store.Item) (changes []ItemChange, ops []store.Op, err error) {
	// After the guard, because a modified insert may be a duplicate.
	known, err := w.duplicates(ctx, allowed)
	if err != nil {
		return nil, nil, err
	}
	old, err := w.supersedes(ctx, allowed, known)
	if err != nil {
		return nil, nil, err
	}
	inserts := false
	for i, c := range allowed {
		if known[i] {
			continue
		}
		if old[i] != nil {
			c.Supersedes = old[i].Key
		}
		op, err := w.op(items[i], c)
		if err != nil {
			return nil, nil, err
		}
		changes, ops = append(changes, c), append(ops, op)
		inserts = inserts || c.Op == Insert
	}
	if inserts {
		ops = append(ops, w.latch.take()...)
	}
	return changes, ops, nil
}

// allowed returns the changes that the guard allows, and their items.
func (w *writer) allowed(ctx context.Context, cs ChangeSet) (changes []ItemChange, items []*store.Item) {
	for i, c := range cs {
		var item *store.Item
		out := ItemChange{Namespace: w.namespace, Key: c.ID}
		recalled := i < len(w.recalled.items) // existing documents come first, in order
		if recalled {
			if item = w.recalled.items[i]; item != nil {
				out.Namespace, out.Key = item.Namespace, item.Key
			} else if out.Key = defaultKey; c.Op == Delete {
				continue // never stored
			} else {
				c.Op, c.Before, c.Patch = Insert, nil, nil
			}
		} else if i == 0 && w.profile {
			out.Key = defaultKey // so that one of two concurrent writers gets a conflict
		}
		if c.Op == Keep {
			continue
		}
		out.Change = c
		out.ID = out.Key
		if err := w.guard(ctx, &out); err != nil {
			w.refused = append(w.refused, fmt.Errorf("memory: Guard rejected the %s of %q: %w", c.Op, out.Key, err))
			continue
		}
		changes, items = append(changes, out), append(items, item)
	}
	return changes, items
}

// op returns the write for a change. Unless Overwrite is set, the write fails if the item's
// version is not the one that the model saw.
func (w *writer) op(item *store.Item, c ItemChange) (store.Op, error) {
	var version int64
	if item != nil && !w.overwrite {
		version = item.Version
	}
	if c.Op == Delete {
		return store.DeleteOp{Namespace: c.Namespace, Key: c.Key, DeleteOptions: store.DeleteOptions{IfVersion: version}}, nil
	}
	source := w.source
	source.Reason, source.Confidence = c.Reason, c.Confidence
	meta, err := withSource(item, source)
	if err != nil {
		return nil, err
	}
	if c.Importance != nil { // otherwise keep the old importance
		meta[metaImportance] = *c.Importance
	}
	if delete(meta, metaValidity); c.Validity != (Validity{}) {
		meta[metaValidity] = c.Validity
	}
	if c.Supersedes != "" {
		meta[metaSupersedes] = c.Supersedes
	}
	var value any = envelope{c.Kind, c.After}
	if item != nil {
		_, wrap := readItem(item)
		value = wrap(c.After)
	}
	return store.PutOp{Namespace: c.Namespace, Key: c.Key, Value: value,
		PutOptions: store.PutOptions{Meta: meta, TTL: lifeOf(item), IfVersion: version, IfAbsent: item == nil}}, nil
}

// countRepeated counts a use of each existing memory that an insert would have duplicated.
func (w *writer) countRepeated(ctx context.Context) error {
	if w.similar == 0 {
		return nil
	}
	uses, err := readUses(ctx, w.store, w.repeated)
	if err != nil {
		return err
	}
	return count(ctx, w.store, w.repeated, uses, time.Now())
}

// sameContent returns a filter for items with the content of an insert.
func sameContent(c Change) store.Filter {
	same := store.And(store.Eq("kind", c.Kind), store.Eq("content", c.After))
	var m Memory
	if c.Kind == memoryKind && json.Unmarshal(c.After, &m) == nil {
		return store.Or(same, store.Eq("content", m.Content)) // the form that the tools write
	}
	return same
}

// removed returns the IDs of the items that the changes remove or rewrite.
func removed(cs []ItemChange) map[string]bool {
	gone := map[string]bool{}
	for _, c := range cs {
		if c.Op != Insert {
			gone[itemID(&store.Item{Namespace: c.Namespace, Key: c.Key})] = true
		}
	}
	return gone
}

// sameItem returns a search for the items that a filter selects.
func sameItem(n store.Namespace, f store.Filter) store.SearchOp {
	return store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Filter: f, Limit: 10, NoRefresh: true}}
}
