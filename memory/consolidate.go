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

// ConsolidateOptions configures [StoreManager.Consolidate]. A nil *ConsolidateOptions means
// the defaults.
type ConsolidateOptions struct {
	// Tokens limits the tokens that the model may read and write; 0 means 10,000. Tokens
	// are estimated before each call, and a call that might exceed the rest of the budget
	// is skipped.
	Tokens int `json:"tokens,omitempty"`
	// Count counts tokens; nil means [llm.CountTokens].
	Count llm.Counter `json:"-"`
	// Similar is the minimum semantic similarity, from 0 to 1, at which the model compares
	// two memories; 0 means 0.85. It requires a store with an embedder that embeds whole
	// values. Memories that share most of their words are always compared.
	Similar float64 `json:"similar,omitempty"`
	// Topic is the number of memories, at least 3, that must share a name or a rare word to
	// get a summary, which is stored as a separate memory; 0 disables summaries.
	Topic int `json:"topic,omitempty"`
	// Pinned lists keys of memories that are neither changed nor removed; nil means
	// {"default"}, as in [RecallerOptions].
	Pinned []string `json:"pinned,omitempty"`
}

const (
	defaultConsolidateTokens  = 10_000
	defaultConsolidateSimilar = 0.85
	minTopic                  = 3
)

// Consolidation is the result of [StoreManager.Consolidate].
type Consolidation struct {
	// Sets lists the change sets that were written, each in one batch. [StoreManager.Undo]
	// reverts a change set as a whole.
	Sets [][]ItemChange `json:"sets,omitempty"`
	// Tokens is the number of tokens used, as reported by the model or estimated.
	Tokens int `json:"tokens"`
	// Unaffordable counts the groups of memories skipped because the token budget was too
	// small. Conflicts counts the groups skipped because another writer changed one of
	// their memories in the meantime. The next call processes them.
	Unaffordable int `json:"unaffordable,omitempty"`
	Conflicts    int `json:"conflicts,omitempty"`
}

// Field names in an item's Meta.
const (
	// metaMerged lists the keys of the memories merged into a memory. They remain in their
	// histories.
	metaMerged = "merged"
	// metaSummary lists the keys of the memories that a summary covers.
	metaSummary = "summary_of"
	// metaNoted is the time at which the newest part of a rewritten memory was noted.
	// Without it, all merged memories would seem recent.
	metaNoted = "noted"
)

// notedAt returns the time at which a memory was noted.
func notedAt(item *store.Item) time.Time {
	var meta struct {
		Noted time.Time `json:"noted"`
	}
	// Meta is user-writable, so values of another form are ignored.
	if item.DecodeMeta(&meta) != nil || meta.Noted.IsZero() || meta.Noted.After(item.Updated) {
		return item.Updated
	}
	return meta.Noted
}

// Consolidate cleans up the memories of the namespace. Call it in the background, for
// instance with a [Reflector]. It merges notes with the same text. For groups of notes that
// are semantically similar or share most of their words, it calls the model, which merges
// notes that say the same and ends the validity of notes that a newer one makes outdated.
// With Topic set, the model also summarizes the notes about a topic.
//
//   - Each group is one change set. Merged memories are removed but remain in the history;
//     the Meta of the resulting memory lists their keys under "merged". An outdated memory
//     gets an end of its [Validity], and the newer memory gets its key under "supersedes".
//     A summary lists the keys of its memories under "summary_of".
//   - A decided group is not examined again until one of its memories changes, even if its
//     change set was undone. If nothing has changed, a second call does not call the model.
//   - Memories that are pinned, have a TTL, are no longer valid, belong to a child
//     namespace, or are not texts are left unchanged.
//   - If a memory of a group changes during the model call, the group is skipped.
//
// If some groups fail, Consolidate still processes the others and returns the result
// together with the errors.
func (m *StoreManager) Consolidate(ctx context.Context, opts *ConsolidateOptions) (*Consolidation, error) {
	ctx, end := traced(ctx, "consolidate", nil)
	out, err := m.consolidate(ctx, opts)
	end(out, err)
	return out, err
}

func (m *StoreManager) consolidate(ctx context.Context, opts *ConsolidateOptions) (*Consolidation, error) {
	c := &consolidator{StoreManager: m, out: &Consolidation{}}
	if opts != nil {
		c.o = *opts
	}
	c.o.Tokens = cmp.Or(c.o.Tokens, defaultConsolidateTokens)
	c.o.Similar = cmp.Or(c.o.Similar, defaultConsolidateSimilar)
	if c.o.Pinned == nil {
		c.o.Pinned = []string{defaultKey}
	}
	if c.o.Count == nil {
		c.o.Count = func(_ context.Context, ms []llm.Message) (int, error) { return llm.CountTokens(ms, nil), nil }
	}
	switch {
	case c.o.Tokens < 0:
		return c.out, fmt.Errorf("memory: invalid ConsolidateOptions.Tokens %d: want 1 or more, or 0 for %d", c.o.Tokens, defaultConsolidateTokens)
	case !(c.o.Similar > 0 && c.o.Similar <= 1): // also rejects NaN
		return c.out, fmt.Errorf("memory: invalid ConsolidateOptions.Similar %v: want 0 to 1", c.o.Similar)
	case c.o.Topic != 0 && c.o.Topic < minTopic:
		return c.out, fmt.Errorf("memory: invalid ConsolidateOptions.Topic %d: want %d or more, or 0 for the default", c.o.Topic, minTopic)
	}
	var err error
	if c.store, c.ns, err = m.place(ctx); err != nil {
		return c.out, err
	}
	if !sleeps(c.ns) {
		return c.out, fmt.Errorf("memory: consolidate: namespace %v is too long", c.ns)
	}
	return c.out, c.run(ctx)
}

// consolidator is the state of one Consolidate call.
type consolidator struct {
	*StoreManager
	o     ConsolidateOptions
	store *store.Store
	ns    store.Namespace
	out   *Consolidation
	// failed contains the signs of the groups that this call does not retry.
	failed map[string]bool
}

// sleepRoot is the first segment of the namespaces with consolidation records; the other
// segments are those of the memories.
const sleepRoot = "__memory_sleep__"

func sleepOf(n store.Namespace) store.Namespace { return append(store.Namespace{sleepRoot}, n...) }

// sleeps reports whether a namespace can be consolidated; see counts.
func sleeps(n store.Namespace) bool { return len(sleepOf(n).Encode()) <= store.MaxNamespace }

// mark records that all versions up to Version were examined with these options. It is
// ignored in any other store branch and after a merge, where different items may have
// smaller versions.
type mark struct {
	Branch  string  `json:"branch,omitempty"`
	Version int64   `json:"version"`
	Similar float64 `json:"similar"`
	Topic   int     `json:"topic"`
}

const (
	markKey = "mark"
	// consolidateRounds is the maximum number of passes over the memories in one call. A
	// merged memory may be similar to another one, so one pass is not enough.
	consolidateRounds = 8
)

func (c *consolidator) run(ctx context.Context) error {
	c.failed = map[string]bool{}
	var problems []error
	for range consolidateRounds {
		seen, err := c.mark(ctx)
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		notes, summaries, newest, err := c.notes(ctx, seen)
		if err != nil || newest <= seen {
			return errors.Join(append(problems, err)...)
		}
		groups, err := c.groups(ctx, notes, summaries)
		if err != nil {
			return errors.Join(append(problems, err)...)
		}
		if len(groups) == 0 && len(c.failed) == 0 {
			err = c.setMark(ctx, newest) // the next call has nothing to do
		}
		if len(groups) == 0 {
			return errors.Join(append(problems, err)...)
		}
		for _, g := range groups {
			if ctx.Err() != nil {
				return errors.Join(append(problems, context.Cause(ctx))...)
			}
			if err := c.work(ctx, g); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// mark returns the version up to which memories were examined with these options.
func (c *consolidator) mark(ctx context.Context) (int64, error) {
	results, err := c.store.Batch(ctx, store.GetOp{Namespace: sleepOf(c.ns), Key: markKey})
	if err != nil || results[0].Item == nil {
		return 0, err
	}
	var m mark
	if err := results[0].Item.Decode(&m); err != nil {
		return 0, err
	}
	if m.Branch != c.store.BranchInfo().Name || m.Similar != c.o.Similar || m.Topic != c.o.Topic {
		return 0, nil
	}
	return m.Version, nil
}

func (c *consolidator) setMark(ctx context.Context, version int64) error {
	m := mark{c.store.BranchInfo().Name, version, c.o.Similar, c.o.Topic}
	return c.store.Put(ctx, sleepOf(c.ns), markKey, m, &store.PutOptions{NoIndex: true, TTL: store.Forever})
}

// work decides about a group and writes the changes.
func (c *consolidator) work(ctx context.Context, g *group) error {
	give := func(err error) error {
		c.failed[g.sign()] = true
		return err
	}
	decided := g.merge()
	if decided == nil {
		var affordable bool
		var err error
		if decided, affordable, err = c.ask(ctx, g); err != nil {
			return give(err)
		}
		if !affordable {
			c.out.Unaffordable++
			return give(nil)
		}
	}
	changes, ops, err := c.plan(ctx, g, decided)
	if err != nil {
		return give(err)
	}
	results, err := c.store.Batch(ctx, ops...)
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		c.out.Conflicts++
		return give(nil)
	}
	if err != nil {
		return give(fmt.Errorf("memory: consolidate: group not written: %w", err))
	}
	for i := range changes {
		changes[i].Version = versionOf(results[i])
		treadle.Emit(ctx, changes[i])
	}
	if len(changes) > 0 {
		c.out.Sets = append(c.out.Sets, changes)
	}
	return nil
}
