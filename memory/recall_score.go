package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Reasons tell why a memory was recalled.
type Reasons struct {
	// Pinned: it is always recalled. The rest is about the others.
	Pinned bool `json:"pinned,omitempty"`
	// Relevance is how well it answers the query, compared with what answers it
	// best, from 0 to 1. Search tells where that comes from.
	Relevance float64            `json:"relevance,omitempty"`
	Search    *store.Explanation `json:"search,omitempty"`
	// Recency is 1 for what was written just now, and a half after each HalfLife.
	Recency float64 `json:"recency,omitempty"`
	// Importance is the number from 0 to 1 under "importance" in the item's Meta;
	// a half if there is none.
	Importance float64 `json:"importance,omitempty"`
	// Uses is how often it was recalled before. Access grows with it from 0
	// towards 1; five uses make a half.
	Uses   int     `json:"uses,omitempty"`
	Access float64 `json:"access,omitempty"`
}

// String says it in a line.
func (w Reasons) String() string {
	if w.Pinned {
		return "pinned"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "relevance %.2f", w.Relevance)
	if x := w.Search; x != nil {
		var by []string
		if x.SimilarityRank > 0 {
			by = append(by, fmt.Sprintf("no. %d by meaning, similarity %.2f", x.SimilarityRank, x.Similarity))
		}
		if x.KeywordRank > 0 {
			by = append(by, fmt.Sprintf("no. %d by words: %s", x.KeywordRank, strings.Join(x.Terms, " ")))
		}
		fmt.Fprintf(&b, " (%s)", strings.Join(by, "; "))
	}
	fmt.Fprintf(&b, ", recency %.2f, importance %.2f, used %d times", w.Recency, w.Importance, w.Uses)
	return b.String()
}

const (
	metaImportance = "importance"
	// usesForHalf is how many uses make an access of a half.
	usesForHalf = 5
	// neutral is the importance of what nobody has rated.
	neutral = 0.5
)

// score fills in the reasons and sorts by the score; what has the same, the
// newest first.
func (r *Recaller) score(cs []Recalled, uses map[string]use) {
	now := r.o.Now()
	for i := range cs {
		c := &cs[i]
		w := &c.Why
		age := max(0, now.Sub(c.Item.Updated))
		w.Recency = math.Exp2(-float64(age) / float64(r.o.HalfLife))
		w.Importance = importanceOf(c.Item)
		w.Uses = uses[itemID(c.Item)].Count
		w.Access = float64(w.Uses) / float64(w.Uses+usesForHalf)
		c.Score = w.Relevance * (1 + r.weights.Recency*w.Recency + r.weights.Importance*w.Importance + r.weights.Access*w.Access)
	}
	slices.SortStableFunc(cs, func(a, b Recalled) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Item.Version, a.Item.Version))
	})
}

func importanceOf(item *store.Item) float64 {
	var meta struct {
		Importance *float64 `json:"importance"`
	}
	// Meta is everybody's: what is no number is none of ours.
	if item.DecodeMeta(&meta) != nil || meta.Importance == nil {
		return neutral
	}
	return min(max(*meta.Importance, 0), 1)
}

// A use is how often a memory was recalled. It is an item of its own, since a
// memory that is read has not become another version.
type use struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// usesRoot is above the namespaces of uses, which are otherwise those of the
// memories.
const usesRoot = "__memory_uses__"

func usesOf(n store.Namespace) store.Namespace { return append(store.Namespace{usesRoot}, n...) }

// counts reports whether uses of a memory can be counted: the name of the count
// is longer than its own.
func counts(n store.Namespace) bool { return len(usesOf(n).Encode()) <= store.MaxNamespace }

// readUses are the uses of items, by their ids.
func readUses(ctx context.Context, s *store.Store, items []*store.Item) (map[string]use, error) {
	var ops []store.Op
	var ids []string
	for _, item := range items {
		if counts(item.Namespace) {
			ops = append(ops, store.GetOp{Namespace: usesOf(item.Namespace), Key: item.Key})
			ids = append(ids, itemID(item))
		}
	}
	if ops == nil {
		return nil, nil
	}
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return nil, err
	}
	uses := map[string]use{}
	for i, res := range results {
		if res.Item == nil {
			continue
		}
		var u use
		if err := res.Item.Decode(&u); err != nil {
			return nil, fmt.Errorf("memory: the uses of %q: %w", res.Item.Key, err)
		}
		uses[ids[i]] = u
	}
	return uses, nil
}

// count counts items as used once more than uses says, and does further reads with
// it. Two that use the same memory at the same moment may count as one.
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
		return fmt.Errorf("memory: counting what was used: %w", err)
	}
	return nil
}

// use counts memories as used, and has those that expire live on.
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
