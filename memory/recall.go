package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// RecallerOptions configure a [Recaller]. The zero value, and a nil *RecallerOptions,
// are the defaults.
type RecallerOptions struct {
	// Namespace is where memories are kept; see [StoreManagerOptions].
	Namespace []string
	// Store is where memories are kept; nil is the store of the run.
	Store *store.Store
	// Filter says which memories may be recalled.
	Filter store.Filter
	// Pinned are keys of memories that are always recalled, first and whatever is
	// talked about, also if the Filter or their [Validity] would leave them out. Nil is
	// {"default"}, where [StoreManager] keeps a profile; empty is none.
	Pinned []string
	// Limit is how many others are recalled at most; 10 if not set.
	Limit int
	// MaxTokens is how many tokens the block may have; 1000 if not set. A memory
	// that does not fit is left out, and a smaller one may take its place.
	MaxTokens int
	// Count counts tokens; nil is [llm.CountTokens].
	Count llm.Counter
	// MinSimilarity, if not 0, leaves out what is less similar in meaning to the
	// query, from -1 to 1, whatever words it has: see [store.Explanation]. What is
	// not among the hundred nearest is left out too. It depends on the store's
	// embedder what is similar, and in a store without one it leaves out nothing.
	MinSimilarity float64
	// Weights say how much else counts besides the query; nil is
	// {0.2, 0.5, 0.1}.
	Weights *Weights
	// HalfLife is the age at which the recency of a memory is a half; 30 days if
	// not set.
	HalfLife time.Duration
	// Render writes a memory for the block; nil writes its text, or its kind and
	// its JSON.
	Render func(Document) string
	// Now is the clock; nil means time.Now. Tests set it.
	Now func() time.Time
}

// Weights say how much the recency, the importance and the use of a memory count
// for its score, which is
//
//	relevance × (1 + Recency·recency + Importance·importance + Access·access)
//
// See [Reasons] for what these are.
type Weights struct{ Recency, Importance, Access float64 }

// defaultWeights let what must not be missed come before what answers the query
// half as well again, and decide between memories that answer it alike.
var defaultWeights = Weights{Recency: 0.2, Importance: 0.5, Access: 0.1}

const (
	defaultRecallLimit  = 10
	defaultRecallTokens = 1000
	defaultHalfLife     = 30 * 24 * time.Hour
	// recallDepth is how many memories a search returns. That is as many as the
	// store compares by meaning, so the best of both of its lists are among them.
	recallDepth = 100
	// recallPool is how many of them are weighed by the rest, and recallBest how
	// many of the nearest, and of the best by words, are always among these.
	recallPool = 30
	recallBest = 5
)

// A Recaller finds the memories that bear on a conversation and makes a block of
// them for the prompt. It asks no model: it ranks by meaning and words (only by
// words in a store without an embedder), by recency, importance and use. What does
// not hold any more, by its [Validity], is left out. It is safe for use by several
// goroutines.
type Recaller struct {
	o       RecallerOptions
	weights Weights
	ns      template
}

// NewRecaller makes a recaller.
func NewRecaller(o *RecallerOptions) (*Recaller, error) {
	r := &Recaller{weights: defaultWeights}
	if o != nil {
		r.o = *o
	}
	if r.o.Weights != nil {
		r.weights = *r.o.Weights
	}
	if r.o.Pinned == nil {
		r.o.Pinned = []string{defaultKey}
	}
	if r.o.Count == nil {
		r.o.Count = func(_ context.Context, ms []llm.Message) (int, error) { return llm.CountTokens(ms, nil), nil }
	}
	if r.o.Render == nil {
		r.o.Render = renderDocument
	}
	if r.o.Now == nil {
		r.o.Now = time.Now
	}
	r.o.Limit = cmp.Or(r.o.Limit, defaultRecallLimit)
	r.o.MaxTokens = cmp.Or(r.o.MaxTokens, defaultRecallTokens)
	r.o.HalfLife = cmp.Or(r.o.HalfLife, defaultHalfLife)
	w := r.weights
	switch {
	case r.o.Limit < 0:
		return nil, fmt.Errorf("memory: Limit is %d: 1 is the least", r.o.Limit)
	case r.o.MaxTokens < 0:
		return nil, fmt.Errorf("memory: MaxTokens is %d: 1 is the least", r.o.MaxTokens)
	case r.o.HalfLife < 0:
		return nil, fmt.Errorf("memory: HalfLife is %v: it must be positive", r.o.HalfLife)
	case !(w.Recency >= 0 && w.Importance >= 0 && w.Access >= 0): // so that NaN is none
		return nil, fmt.Errorf("memory: the weights are %+v: they must not be negative", w)
	case math.IsInf(w.Recency+w.Importance+w.Access, 1):
		return nil, fmt.Errorf("memory: the weights are %+v: they must be finite", w)
	case !(r.o.MinSimilarity >= -1 && r.o.MinSimilarity <= 1):
		return nil, fmt.Errorf("memory: MinSimilarity is %v: it must be from -1 to 1", r.o.MinSimilarity)
	}
	var err error
	r.ns, err = newTemplate(r.o.Namespace)
	return r, err
}

// A Recollection is what was recalled.
type Recollection struct {
	// Memories are those in the block, in their order: the pinned ones, then the
	// others, best first.
	Memories []Recalled `json:"memories,omitempty"`
	// Block is the text for the prompt; empty if nothing was recalled.
	Block string `json:"block,omitempty"`
	// Tokens is how many the block has.
	Tokens int `json:"tokens"`
	// Hidden is how many memories were found and left out: they did not fit into
	// the block, were not similar enough, or do not hold any more.
	Hidden int `json:"hidden,omitempty"`
}

// Recalled is a memory with the reasons for recalling it.
type Recalled struct {
	Item     *store.Item `json:"item"`
	Document Document    `json:"document"` // its id is the item's key
	Score    float64     `json:"score"`
	Why      Reasons     `json:"why"`
}

// Recall returns the memories that fit the messages best: the last of them, the
// last two, and so on. What is in the block counts as used once more, which is
// written to the store; with Weights.Access 0 recalling only reads.
func (r *Recaller) Recall(ctx context.Context, messages ...llm.Message) (*Recollection, error) {
	return r.recall(ctx, messages, true)
}

func (r *Recaller) recall(ctx context.Context, messages []llm.Message, count bool) (*Recollection, error) {
	n, err := r.ns.resolve(ctx)
	if err != nil {
		return nil, err
	}
	s := storeFor(ctx, r.o.Store)
	found, err := r.find(ctx, s, n, messages)
	if err != nil {
		return nil, err
	}
	var uses map[string]use
	if r.weights.Access != 0 {
		if uses, err = readUses(ctx, s, itemsOf(found.candidates)); err != nil {
			return nil, err
		}
	}
	r.score(found.candidates, uses)
	out, err := r.block(ctx, found)
	if err != nil || !count {
		return out, err
	}
	return out, r.use(ctx, s, out.Memories, uses)
}

// finding is what a search for memories has found.
type finding struct {
	pinned, candidates []Recalled
	hidden             int
}

// find reads the pinned memories and searches for others, in one batch. Reading
// does not make memories live longer: see use.
func (r *Recaller) find(ctx context.Context, s *store.Store, n store.Namespace, messages []llm.Message) (*finding, error) {
	search := store.SearchOptions{Filter: r.o.Filter, Limit: max(recallDepth, r.o.Limit+len(r.o.Pinned)),
		Ranking: store.Keyword, Explain: true, NoRefresh: true}
	if s.Embeds() {
		search.Ranking = store.Hybrid
	}
	var ops []store.Op
	for _, key := range r.o.Pinned {
		ops = append(ops, store.GetOp{Namespace: n, Key: key, GetOptions: store.GetOptions{NoRefresh: true}})
	}
	queries := windows(messages, r.o.Limit)
	searches := func() (ops []store.Op) {
		for _, q := range queries {
			search.Query = q
			ops = append(ops, store.SearchOp{Prefix: n, SearchOptions: search})
		}
		return ops
	}
	results, err := s.Batch(ctx, append(ops, searches()...)...)
	if err != nil {
		return nil, err
	}
	out := &finding{}
	seen := map[string]bool{}
	for _, res := range results[:len(r.o.Pinned)] {
		if res.Item != nil && !seen[itemID(res.Item)] {
			seen[itemID(res.Item)] = true
			out.pinned = append(out.pinned, Recalled{Item: res.Item, Document: DocumentOf(res.Item), Why: Reasons{Pinned: true}})
		}
	}
	p := pool{Recaller: r, embeds: s.Embeds(), pinned: seen, hidden: map[string]bool{}, at: map[string]int{}}
	now := r.o.Now()
	for results = results[len(r.o.Pinned):]; p.dropEnded(results, search.Limit, now); {
		// What is over has taken the place of what may hold.
		search.Limit *= 4
		search.Filter = store.And(r.o.Filter, notLongEnded(now))
		if results, err = s.Batch(ctx, searches()...); err != nil {
			return nil, err
		}
	}
	p.join(results)
	out.candidates, out.hidden = p.cut(), len(p.hidden)
	return out, nil
}

// A pool is what searches have found, each memory once.
type pool struct {
	*Recaller
	embeds     bool            // the searches were by meaning too
	pinned     map[string]bool // ids of what is recalled anyway
	hidden     map[string]bool // of what was found and left out
	candidates []Recalled
	at         map[string]int // ids of candidates
}

// holding leaves what is over out of the answers of searches. It reports whether one
// of these has less than it could have, since it was cut off at the limit.
func (p *pool) dropEnded(searches []store.Result, limit int, now time.Time) (less bool) {
	for i, res := range searches {
		found := len(res.Items)
		searches[i].Items = slices.DeleteFunc(res.Items, func(item *store.Item) bool {
			id := itemID(item)
			ended := validityOf(item).ended(now)
			if ended && !p.pinned[id] {
				p.hidden[id] = true
			}
			return ended
		})
		less = less || found == limit && len(searches[i].Items) < min(found, max(recallPool, p.o.Limit))
	}
	return less
}

// join adds what the searches have found, each memory as the search tells that it
// answers best.
func (p *pool) join(searches []store.Result) {
	for _, res := range searches {
		items := slices.DeleteFunc(res.Items, p.tooFar)
		relevance := relevanceOf(items)
		for i, item := range items {
			id := itemID(item)
			if p.pinned[id] {
				continue
			}
			c := Recalled{Item: item, Why: Reasons{Relevance: relevance[i], Search: item.Explanation}}
			if j, ok := p.at[id]; !ok {
				p.at[id] = len(p.candidates)
				p.candidates = append(p.candidates, c)
			} else if c.Why.Relevance > p.candidates[j].Why.Relevance {
				p.candidates[j] = c
			}
		}
	}
	for id := range p.at { // it was near enough to another of the queries
		delete(p.hidden, id)
	}
}

// far reports whether an item is not similar enough to the query that found it.
func (p *pool) tooFar(item *store.Item) bool {
	x := item.Explanation
	far := p.o.MinSimilarity != 0 && p.embeds && (x.SimilarityRank == 0 || x.Similarity < p.o.MinSimilarity)
	if id := itemID(item); far && !p.pinned[id] {
		p.hidden[id] = true
	}
	return far
}

// cut are the candidates that are weighed: the most relevant, and the best by
// meaning and by words.
func (p *pool) cut() []Recalled {
	slices.SortStableFunc(p.candidates, func(a, b Recalled) int { return cmp.Compare(b.Why.Relevance, a.Why.Relevance) })
	size := max(recallPool, p.o.Limit)
	best := func(rank int) bool { return rank > 0 && rank <= recallBest }
	var out []Recalled
	for i, c := range p.candidates {
		if i < size || best(c.Why.Search.SimilarityRank) || best(c.Why.Search.KeywordRank) {
			c.Document = DocumentOf(c.Item) // of those that are weighed only
			out = append(out, c)
		}
	}
	return out
}

func itemsOf(ms []Recalled) []*store.Item {
	items := make([]*store.Item, len(ms))
	for i, m := range ms {
		items[i] = m.Item
	}
	return items
}

// itemID tells the items of a store apart.
func itemID(item *store.Item) string {
	return item.Namespace.Encode() + store.Namespace{item.Key}.Encode()
}
