package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// Reasons contains the terms of a memory's score; see [Weights].
type Reasons struct {
	// Pinned is true for a pinned memory, which has no score: the other fields are zero.
	Pinned bool `json:"pinned,omitempty"`
	// Relevance is how well the memory matches the query, relative to the best match, from
	// 0 to 1. Search contains the details.
	Relevance float64            `json:"relevance,omitempty"`
	Search    *store.Explanation `json:"search,omitempty"`
	// Recency is 1 for a memory just written and halves with every HalfLife.
	Recency float64 `json:"recency,omitempty"`
	// Importance is the number from 0 to 1 under "importance" in the item's Meta; 0.5 if
	// missing.
	Importance float64 `json:"importance,omitempty"`
	// Uses is the number of times the memory was recalled before. Access grows with it from
	// 0 toward 1, and is 0.5 after five uses.
	Uses   int     `json:"uses,omitempty"`
	Access float64 `json:"access,omitempty"`
	// Helped and Misled are the numbers of ratings; see [Recaller.Rate]. Rating grows with
	// their difference toward 1 or -1, and is 0.5 after two ratings that the memory helped.
	Helped int     `json:"helped,omitempty"`
	Misled int     `json:"misled,omitempty"`
	Rating float64 `json:"rating,omitempty"`
	// Time is how close the memory is, from 0 to 1, to a time that the last message
	// mentions, such as "last week", "in March 2024", or "before I moved". The times of a
	// memory are its [Validity], the times that its text mentions, and the time at which it
	// was noted. If the message asks when something happened, Time is 1 for a memory that
	// has a time other than the one at which it was noted. Only English and numeric dates
	// are recognized.
	Time float64 `json:"time,omitempty"`
	// Context is the highest relevance of another memory that was noted at nearly the same
	// time: it halves with every two minutes between them. The share of the highest relevance
	// that all candidates get is subtracted, so it is 0 if all were noted together.
	Context float64 `json:"context,omitempty"`
	// Untimely is true for a memory that became valid after the time that the message asks
	// about. If the message asks about none, it is true for a memory that another of the
	// found memories supersedes; see [ItemChange]. It halves the score.
	Untimely bool `json:"untimely,omitempty"`
}

// String returns the reasons on one line.
func (w Reasons) String() string {
	if w.Pinned {
		return "pinned"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "relevance %.2f", w.Relevance)
	if x := w.Search; x != nil {
		var by []string
		if x.SimilarityRank > 0 {
			by = append(by, fmt.Sprintf("no. %d by similarity (%.2f)", x.SimilarityRank, x.Similarity))
		}
		if x.KeywordRank > 0 {
			by = append(by, fmt.Sprintf("no. %d by keywords: %s", x.KeywordRank, strings.Join(x.Terms, " ")))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(by, "; "))
	}
	if w.Context > 0 {
		fmt.Fprintf(&b, ", context %.2f", w.Context)
	}
	if w.Time > 0 {
		fmt.Fprintf(&b, ", time %.2f", w.Time)
	}
	if w.Untimely {
		b.WriteString(", untimely")
	}
	if w.Helped+w.Misled > 0 {
		fmt.Fprintf(&b, ", rating %+.2f", w.Rating)
	}
	fmt.Fprintf(&b, ", recency %.2f, importance %.2f, used %d times", w.Recency, w.Importance, w.Uses)
	return b.String()
}

const (
	metaImportance = "importance"
	// usesForHalf is the number of uses at which Access is 0.5.
	usesForHalf = 5
	// neutral is the importance of a memory without a rating.
	neutral = 0.5
)

// rerank replaces the relevance of the candidates by the scores of the reranker, and their
// context by that of these relevances.
func (r *Recaller) rerank(ctx context.Context, messages []llm.Message, cs []Recalled) error {
	queries := windows(messages, 1)
	if r.o.Reranker == nil || len(queries) == 0 || len(cs) < 2 {
		return nil
	}
	texts := make([]string, len(cs))
	for i, c := range cs {
		texts[i] = renderDocument(c.Document)
	}
	scores, err := r.o.Reranker.Rerank(ctx, queries[0], texts)
	switch {
	case err != nil:
		return fmt.Errorf("memory: rerank: %w", err)
	case len(scores) != len(cs):
		return fmt.Errorf("memory: rerank: %d scores for %d memories", len(scores), len(cs))
	case slices.ContainsFunc(scores, func(s float64) bool { return math.IsNaN(s) || math.IsInf(s, 0) }):
		return errors.New("memory: rerank: score is not a finite number")
	}
	least := slices.Min(scores)
	span := slices.Max(scores) - least
	if span == 0 {
		return nil
	}
	for i := range cs {
		cs[i].Why.Relevance = (scores[i] - least) / span
	}
	setContext(cs)
	return nil
}

// score sets the reasons and sorts by score, with equal scores sorted newest first.
func (r *Recaller) score(cs []Recalled, uses map[string]use, rated map[string]ratings, now time.Time) {
	for i := range cs {
		c := &cs[i]
		w := &c.Why
		age := max(0, now.Sub(notedAt(c.Item)))
		w.Recency = math.Exp2(-float64(age) / float64(r.o.HalfLife))
		w.Importance = importanceOf(c.Item)
		w.Uses = uses[itemID(c.Item)].Count
		w.Access = float64(w.Uses) / float64(w.Uses+usesForHalf)
		by := rated[itemID(c.Item)]
		w.Helped, w.Misled, w.Rating = by.Helped, by.Misled, by.value()
		c.Score = w.total(r.weights) * max(0, 1+r.weights.Recency*w.Recency+r.weights.Importance*w.Importance+r.weights.Access*w.Access+
			r.weights.Time*w.Time+r.weights.Rating*w.Rating)
		if w.Untimely {
			c.Score /= 2
		}
	}
	slices.SortStableFunc(cs, func(a, b Recalled) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Item.Version, a.Item.Version))
	})
}

func importanceOf(item *store.Item) float64 {
	var meta struct {
		Importance *float64 `json:"importance"`
	}
	// Meta is user-writable, so a non-numeric importance is ignored.
	if item.DecodeMeta(&meta) != nil || meta.Importance == nil {
		return neutral
	}
	return min(max(*meta.Importance, 0), 1)
}

// use counts the recalls of a memory. It is stored in a separate item, because recalling a
// memory must not create a new version of it.
type use struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// usesRoot is the first segment of the namespaces of use counts; the other segments are
// those of the memories.
const usesRoot = "__memory_uses__"

func usesOf(n store.Namespace) store.Namespace { return append(store.Namespace{usesRoot}, n...) }

// counts reports whether uses of memories in a namespace can be counted. The namespace of
// the counts is longer and may exceed the maximum length.
func counts(n store.Namespace) bool { return len(usesOf(n).Encode()) <= store.MaxNamespace }

// readUses returns the use counts of items, by item ID.
func readUses(ctx context.Context, s *store.Store, items []*store.Item) (map[string]use, error) {
	found, err := readBeside(ctx, s, items, counts, usesOf)
	if err != nil {
		return nil, err
	}
	uses := map[string]use{}
	for id, item := range found {
		// Programs with access to the store can write anything here. A count must not make
		// recall fail, and a negative one no score infinite.
		var u use
		if item.Decode(&u) == nil && u.Count > 0 {
			uses[id] = u
		}
	}
	return uses, nil
}

// readBeside returns the records that the package keeps about items, by item ID: those in the
// namespace that of returns, if fits reports that there can be one.
func readBeside(ctx context.Context, s *store.Store, items []*store.Item, fits func(store.Namespace) bool, of func(store.Namespace) store.Namespace) (map[string]*store.Item, error) {
	var ops []store.Op
	var ids []string
	for _, item := range items {
		if fits(item.Namespace) {
			ops = append(ops, store.GetOp{Namespace: of(item.Namespace), Key: item.Key})
			ids = append(ids, itemID(item))
		}
	}
	if ops == nil {
		return nil, nil
	}
	results, err := s.Batch(ctx, ops...)
	if _, gone := errors.AsType[*store.GoneError](err); gone {
		results, err = knownUses(ctx, s, ops)
	}
	if err != nil {
		return nil, err
	}
	found := map[string]*store.Item{}
	for i, res := range results {
		if res.Item != nil {
			found[ids[i]] = res.Item
		}
	}
	return found, nil
}

// knownUses reads the counts one by one and skips missing ones. A memory used very often
// since a store branch was created may no longer have a count in the branch, but it is
// still a memory.
func knownUses(ctx context.Context, s *store.Store, ops []store.Op) ([]store.Result, error) {
	out := make([]store.Result, len(ops))
	for i, op := range ops {
		results, err := s.Batch(ctx, op)
		if _, gone := errors.AsType[*store.GoneError](err); gone {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[i] = results[0]
	}
	return out, nil
}

// count stores one more use of each item, and performs the given reads in the same batch.
// Concurrent calls may count as one.
func count(ctx context.Context, s *store.Store, items []*store.Item, uses map[string]use, now time.Time, reads ...store.Op) error {
	ops := reads
	for _, item := range items {
		if counts(item.Namespace) {
			ops = append(ops, store.PutOp{Namespace: usesOf(item.Namespace), Key: item.Key, Value: use{uses[itemID(item)].Count + 1, now.UTC()},
				PutOptions: store.PutOptions{NoIndex: true, TTL: store.Forever}})
		}
	}
	if ops == nil {
		return nil
	}
	if _, err := s.Batch(ctx, ops...); err != nil {
		return fmt.Errorf("memory: write use counts: %w", err)
	}
	return nil
}

// use counts a use of each memory that is not pinned, and refreshes the TTL of memories
// that have one.
func (r *Recaller) use(ctx context.Context, s *store.Store, ms []Recalled, uses map[string]use) error {
	var used []*store.Item
	var reads []store.Op
	for _, m := range ms {
		if !m.Item.Expires.IsZero() {
			reads = append(reads, store.GetOp{Namespace: m.Item.Namespace, Key: m.Item.Key})
		}
		if !m.Why.Pinned && r.weights.Access != 0 {
			used = append(used, m.Item)
		}
	}
	return count(ctx, s, used, uses, r.o.Now(), reads...)
}
