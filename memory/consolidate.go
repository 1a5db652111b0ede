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

// ConsolidateOptions are the options of [StoreManager.Consolidate]. The zero value and
// nil are the defaults.
type ConsolidateOptions struct {
	// Tokens is how many tokens the model may be asked to read and write; 0 means 10,000.
	// They are estimated before each call; a call that may exceed the rest is not made.
	Tokens int `json:"tokens,omitempty"`
	// Count counts tokens; nil means [llm.CountTokens].
	Count llm.Counter `json:"-"`
	// Similar is the similarity, from 0 to 1, from which on the model compares two
	// memories; 0 means 0.85. It needs a store with an embedder that embeds whole values.
	// Memories that share most of their words are compared in any case.
	Similar float64 `json:"similar,omitempty"`
	// Topic, if not 0, is how many memories must share a name or a rare word to get a
	// summary, which is a memory of its own; at least 3.
	Topic int `json:"topic,omitempty"`
	// Pinned are keys of memories that are neither changed nor removed; nil is
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
	// Sets are the change sets that were written, each in one batch. [StoreManager.Undo]
	// takes one back as a whole.
	Sets [][]ItemChange `json:"sets,omitempty"`
	// Tokens are the tokens that were used, as the model reported them or as estimated.
	Tokens int `json:"tokens"`
	// Unaffordable is how many groups of memories were left because Tokens did not
	// suffice for them, and Conflicts how many because somebody else changed one of
	// their memories meanwhile. The next call works on them.
	Unaffordable int `json:"unaffordable,omitempty"`
	Conflicts    int `json:"conflicts,omitempty"`
}

// Names in an item's Meta.
const (
	// metaMerged has the keys of the memories that were merged into a memory. Their
	// histories still have them.
	metaMerged = "merged"
	// metaSummary has the keys of the memories that a summary is about.
	metaSummary = "summary_of"
	// metaNoted is when the newest part of a memory was noted that a consolidation
	// rewrote. Without it, all merged memories would seem recent.
	metaNoted = "noted"
)

// notedAt returns when a memory was noted.
func notedAt(item *store.Item) time.Time {
	var meta struct {
		Noted time.Time `json:"noted"`
	}
	// Meta is user-writable; another form is ignored.
	if item.DecodeMeta(&meta) != nil || meta.Noted.IsZero() || meta.Noted.After(item.Updated) {
		return item.Updated
	}
	return meta.Noted
}

// Consolidate tidies the memories of the namespace; call it when nobody is waiting, for
// instance with a [Reflector]. Notes with the same text are merged. The model is asked
// about groups of notes that are similar in meaning or share most of their words: it
// merges those that say the same and ends those that another one makes outdated. With
// Topic, it summarizes the notes about one thing.
//
//   - Each group is one change set. What was merged is removed but stays in the history;
//     the Meta of the merged memory has the keys under "merged". An outdated memory gets
//     the end of its [Validity], and the newer one its key under "supersedes". A summary
//     has the keys of its memories under "summary_of".
//   - A group that was decided is not looked at again until one of its memories changes,
//     nor after its change set was undone. Without changes, a second call asks nothing.
//   - Pinned memories, those with a TTL, those that are no longer valid, those of the
//     namespaces below and those that are not texts stay as they are.
//   - If a memory of a group was changed while the model was asked, the group is left.
//
// If some groups fail, the others are still done and the result is returned together
// with the errors.
func (m *StoreManager) Consolidate(ctx context.Context, o *ConsolidateOptions) (*Consolidation, error) {
	ctx, end := traced(ctx, "consolidate", nil)
	out, err := m.consolidate(ctx, o)
	end(out, err)
	return out, err
}

func (m *StoreManager) consolidate(ctx context.Context, o *ConsolidateOptions) (*Consolidation, error) {
	c := &consolidator{StoreManager: m, out: &Consolidation{}}
	if o != nil {
		c.o = *o
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
		return c.out, fmt.Errorf("memory: ConsolidateOptions.Tokens is %d: 1 is the least", c.o.Tokens)
	case !(c.o.Similar > 0 && c.o.Similar <= 1): // written so that NaN is refused
		return c.out, fmt.Errorf("memory: ConsolidateOptions.Similar is %v: it must be from 0 to 1", c.o.Similar)
	case c.o.Topic != 0 && c.o.Topic < minTopic:
		return c.out, fmt.Errorf("memory: ConsolidateOptions.Topic is %d: %d is the least", c.o.Topic, minTopic)
	}
	var err error
	if c.store, c.ns, err = m.place(ctx); err != nil {
		return c.out, err
	}
	if !sleeps(c.ns) {
		return c.out, fmt.Errorf("memory: the namespace %v is too long to be consolidated", c.ns)
	}
	return c.out, c.run(ctx)
}

// consolidator is one call of Consolidate.
type consolidator struct {
	*StoreManager
	o     ConsolidateOptions
	store *store.Store
	ns    store.Namespace
	out   *Consolidation
	// failed are the groups that this call does not try again.
	failed map[string]bool
}

// sleepRoot is the first segment of the namespaces with the records of consolidations;
// the others are those of the memories.
const sleepRoot = "__memory_sleep__"

func sleepOf(n store.Namespace) store.Namespace { return append(store.Namespace{sleepRoot}, n...) }

// sleeps reports whether a namespace can be consolidated: see counts.
func sleeps(n store.Namespace) bool { return len(sleepOf(n).Encode()) <= store.MaxNamespace }

// mark is the record of what was looked at: all versions up to Version, with these
// options. In another branch than the one that it was made in, and after a merge, it says
// nothing: there are other items with smaller versions.
type mark struct {
	Branch  string  `json:"branch,omitempty"`
	Version int64   `json:"version"`
	Similar float64 `json:"similar"`
	Topic   int     `json:"topic"`
}

const (
	markKey = "mark"
	// consolidateRounds is how often the memories are looked at in one call, because a
	// merged memory may be near another one.
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

// mark returns the version up to which memories were looked at with these options.
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

// work decides about a group and writes the result.
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
		return give(fmt.Errorf("memory: consolidate: nothing of a group was written: %w", err))
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
