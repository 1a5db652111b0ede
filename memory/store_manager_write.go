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

// An ItemChange is a change of a stored memory. It is also the custom event that
// a run's stream has of it.
type ItemChange struct {
	Namespace store.Namespace `json:"namespace"`
	Key       string          `json:"key"`
	// Version is that of the item which the change has made; 0 for a Delete.
	Version int64 `json:"version,omitempty"`
	Change        // its ID is the Key
}

// Provenance tells where a memory comes from. It stands under "provenance" in the
// item's Meta, beside what others have put there, and beside "importance" (a
// number) and "validity" (a [Validity]) if the model has rated the memory; see
// [ExtractOptions].Rate.
type Provenance struct {
	Thread     string   `json:"thread,omitempty"`
	Checkpoint string   `json:"checkpoint,omitempty"`
	Run        string   `json:"run,omitempty"`
	Messages   []string `json:"messages,omitempty"` // their ids
	Model      string   `json:"model,omitempty"`
	Reason     string   `json:"reason,omitempty"` // of an update, in the model's words
	// Confidence is how sure the model was, from 0 to 1; nil if it did not say.
	Confidence *float64 `json:"confidence,omitempty"`
}

const (
	metaProvenance = "provenance"
	metaValidity   = "validity"
)

// source is where memories of this conversation come from.
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

// keepSource has [sourceOf] say later what it says now: the run goes on to other
// checkpoints while work that it has submitted waits.
func keepSource(ctx context.Context) context.Context {
	return context.WithValue(ctx, sourceKey{}, sourceOf(ctx))
}

// sourceOf is the run that ctx belongs to, or the one that a session took place in.
func sourceOf(ctx context.Context) Provenance {
	if p, ok := ctx.Value(sourceKey{}).(Provenance); ok {
		return p
	}
	info := treadle.InfoFrom(ctx)
	return Provenance{Thread: info.Thread, Checkpoint: info.CheckpointID, Run: info.RunID}
}

// withSource is an item's Meta with where its new version comes from.
func withSource(old *store.Item, p Provenance) (map[string]any, error) {
	meta := map[string]any{}
	if old != nil {
		// What others have put there stays as it is, to the last digit.
		var others map[string]json.RawMessage
		if err := old.DecodeMeta(&others); err != nil {
			return nil, fmt.Errorf("memory: the meta of %q: %w", old.Key, err)
		}
		for name, v := range others {
			meta[name] = v
		}
	}
	meta[metaProvenance] = p
	return meta, nil
}

// lifeOf is how long the next version of an item lives: as long as the one before
// it. For a new item it is 0, which is for the store to say.
func lifeOf(item *store.Item) time.Duration {
	if item == nil {
		return 0
	}
	return cmp.Or(item.TTL, store.Forever)
}

// A writer stores changes of what was recalled.
type writer struct {
	store     *store.Store
	namespace store.Namespace
	recalled  *recollection
	overwrite bool
	profile   bool // there is one memory at most
	source    Provenance
	similar   float64
	guard     func(context.Context, *ItemChange) error // never nil

	repeated []*store.Item // what inserts would have said again
	refused  []error       // by the guard
}

// write makes the changes in one batch and tells the run of them.
func (w *writer) write(ctx context.Context, cs ChangeSet) ([]ItemChange, error) {
	changes, ops, err := w.plan(ctx, cs)
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, errors.Join(append(w.refused, w.countRepeated(ctx))...)
	}
	results, err := w.store.Batch(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("memory: nothing was written: %w", err)
	}
	problems := w.refused
	for i := range changes {
		c := &changes[i]
		c.Version = versionOf(results[i])
		if c.Op == Delete && w.overwrite {
			if err := w.store.Forget(ctx, c.Namespace, c.Key); err != nil {
				problems = append(problems, fmt.Errorf("memory: the history of %q: %w", c.Key, err))
			}
		}
		treadle.Emit(ctx, *c) // it is written, whatever has failed besides
	}
	return changes, errors.Join(append(problems, w.countRepeated(ctx))...)
}

// versionOf is the version that a write has made; 0 for a delete.
func versionOf(r store.Result) int64 {
	if r.Item == nil {
		return 0
	}
	return r.Item.Version
}

// plan says which writes the changes are.
func (w *writer) plan(ctx context.Context, cs ChangeSet) (changes []ItemChange, ops []store.Op, err error) {
	allowed, items := w.allowed(ctx, cs)
	// What the guard has made of an insert may be known, though what the model said
	// was not.
	known, err := w.duplicates(ctx, allowed)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range allowed {
		if known[i] {
			continue
		}
		op, err := w.op(items[i], c)
		if err != nil {
			return nil, nil, err
		}
		changes, ops = append(changes, c), append(ops, op)
	}
	return changes, ops, nil
}

// allowed are the changes that the guard lets pass, and the items that they are of.
func (w *writer) allowed(ctx context.Context, cs ChangeSet) (changes []ItemChange, items []*store.Item) {
	for i, c := range cs {
		var item *store.Item
		out := ItemChange{Namespace: w.namespace, Key: c.ID}
		recalled := i < len(w.recalled.items) // these come first, in their order
		if recalled {
			if item = w.recalled.items[i]; item != nil {
				out.Namespace, out.Key = item.Namespace, item.Key
			} else if out.Key = defaultKey; c.Op == Delete {
				continue // it was never stored
			} else {
				c.Op, c.Before, c.Patch = Insert, nil, nil
			}
		} else if i == 0 && w.profile {
			out.Key = defaultKey // of two that begin one at once, one is to see the other's
		}
		if c.Op == Keep {
			continue
		}
		out.Change = c
		out.ID = out.Key
		if err := w.guard(ctx, &out); err != nil {
			w.refused = append(w.refused, fmt.Errorf("memory: the %s of %q was refused: %w", c.Op, out.Key, err))
			continue
		}
		changes, items = append(changes, out), append(items, item)
	}
	return changes, items
}

// op is the write of one change. Unless it is to overwrite, it holds only if the
// item is still the one that the model saw.
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
	if c.Importance != nil { // what it was stays otherwise
		meta[metaImportance] = *c.Importance
	}
	if delete(meta, metaValidity); c.Validity != (Validity{}) {
		meta[metaValidity] = c.Validity
	}
	var value any = envelope{c.Kind, c.After}
	if item != nil {
		_, wrap := readItem(item)
		value = wrap(c.After)
	}
	return store.PutOp{Namespace: c.Namespace, Key: c.Key, Value: value,
		PutOptions: store.PutOptions{Meta: meta, TTL: lifeOf(item), IfVersion: version, IfAbsent: item == nil}}, nil
}

// duplicates are the inserts of what is stored already, though it was not
// recalled.
func (w *writer) duplicates(ctx context.Context, cs []ItemChange) (map[int]bool, error) {
	var ops []store.Op
	var places []int
	for i, c := range cs {
		if c.Op != Insert {
			continue
		}
		places, ops = append(places, i), append(ops, sameItem(w.namespace, sameContent(c.Change)))
		if w.similar > 0 {
			op, err := w.likeItem(c.Change)
			if err != nil {
				return nil, err
			}
			places, ops = append(places, i), append(ops, op)
		}
	}
	if ops == nil {
		return nil, nil
	}
	results, err := w.store.Batch(ctx, ops...)
	if err != nil {
		return nil, err
	}
	known := map[int]bool{}
	gone := removed(cs)
	for j, r := range results {
		byMeaning := ops[j].(store.SearchOp).Query != ""
		for _, item := range r.Items {
			// What the same changes remove or rewrite is no duplicate, nor is what
			// holds at another time.
			if gone[itemID(item)] || byMeaning && item.Score < w.similar || !validityOf(item).covers(cs[places[j]].Validity) {
				continue
			}
			if !known[places[j]] {
				w.repeated = append(w.repeated, item)
			}
			known[places[j]] = true
		}
	}
	return known, nil
}

// likeItem is a search for what says much the same as an insert. The query is what
// would be stored, since that is what is embedded.
func (w *writer) likeItem(c Change) (store.SearchOp, error) {
	raw, err := encodeAny(envelope{c.Kind, c.After})
	return store.SearchOp{Prefix: w.namespace, SearchOptions: store.SearchOptions{Query: string(raw), Ranking: store.Semantic,
		Filter: store.Eq("kind", c.Kind), Limit: 3, NoRefresh: true}}, err
}

// countRepeated counts what was told again as used once more.
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

// saying describes the items that say what a change would insert.
func sameContent(c Change) store.Filter {
	same := store.And(store.Eq("kind", c.Kind), store.Eq("content", c.After))
	var m Memory
	if c.Kind == memoryKind && json.Unmarshal(c.After, &m) == nil {
		return store.Or(same, store.Eq("content", m.Content)) // as the tools write it
	}
	return same
}

// removed are the items that will not say what they said.
func removed(cs []ItemChange) map[string]bool {
	gone := map[string]bool{}
	for _, c := range cs {
		if c.Op != Insert {
			gone[itemID(&store.Item{Namespace: c.Namespace, Key: c.Key})] = true
		}
	}
	return gone
}

// sameItem is a search for items that a filter describes.
func sameItem(n store.Namespace, f store.Filter) store.SearchOp {
	return store.SearchOp{Prefix: n, SearchOptions: store.SearchOptions{Filter: f, Limit: 10, NoRefresh: true}}
}
