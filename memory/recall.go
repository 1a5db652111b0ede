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

// RecallerOptions are the options of a [Recaller]. The zero value and nil are the
// defaults.
type RecallerOptions struct {
	// Namespace is where memories are stored; see [StoreManagerOptions].
	Namespace []string
	// Store has the memories; nil means the store of the run.
	Store *store.Store
	// Kinds bring memories into their present shape: see [Kind.Migrate].
	Kinds []Kind
	// Filter selects the memories that may be recalled; nil means all.
	Filter store.Filter
	// Pinned are keys of memories that are always recalled, before the others, whatever
	// the conversation is about and whatever the Filter or their [Validity]. Nil is
	// {"default"}, the key under which [StoreManager] keeps a profile; empty is none.
	Pinned []string
	// Limit is how many other memories are recalled at most; 0 means 10.
	Limit int
	// MaxTokens is how many tokens the block may have; 0 means 1000. A memory that does
	// not fit is left out, and a shorter one may take its place.
	MaxTokens int
	// Count counts tokens; nil means [llm.CountTokens].
	Count llm.Counter
	// MinSimilarity, if not 0, leaves out memories that are less similar in meaning to
	// the query, whatever words they share: see [store.Explanation]. It is from -1 to 1,
	// and a good value depends on the store's embedder. Memories that are not among the
	// hundred nearest are left out too. A store without an embedder ignores it.
	MinSimilarity float64
	// Weights say how much recency, importance, use and time count; nil is
	// {0.2, 0.5, 0.01, 0.5}.
	Weights *Weights
	// HalfLife is the age at which the recency of a memory is one half; 0 means 30 days.
	HalfLife time.Duration
	// Render writes a memory for the block; nil writes its text or, if it has none, its
	// kind and JSON.
	Render func(Document) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Weights say how much the recency, importance, use and time of a memory add to its
// score, which is
//
//	relevance × (1 + Recency·recency + Importance·importance + Access·access + Time·time)
//
// [Reasons] explains the terms.
type Weights struct{ Recency, Importance, Access, Time float64 }

// Full importance outweighs a 1.5× gap in relevance, and so does the time that a
// message asks for. Recency decides between memories of similar relevance. Use only
// decides between nearly equal ones: what answered other questions often is not more
// likely to answer this one. docs/memory.md has what other weights give.
var defaultWeights = Weights{Recency: 0.2, Importance: 0.5, Access: 0.01, Time: 0.5}

const (
	defaultRecallLimit  = 10
	defaultRecallTokens = 1000
	defaultHalfLife     = 30 * 24 * time.Hour
	// recallDepth is how many memories a search returns. The store ranks as many by
	// meaning, so the best by meaning and the best by words are among them.
	recallDepth = 100
	// recallPool is how many of these are scored. The recallBest nearest by meaning and
	// the recallBest best by words are always among them.
	recallPool = 30
	recallBest = 5
	// recallDated is recallDepth for a message about a time: a memory of that time may be
	// far down by meaning and words.
	recallDated = 300
)

// Recaller finds the memories that are relevant to a conversation and writes them
// into a block of text for the prompt. It uses no model. It ranks by meaning and
// words (by words alone in a store without an embedder), recency, importance and
// use. Memories whose [Validity] has ended are left out. It is safe for concurrent
// use.
type Recaller struct {
	o       RecallerOptions
	weights Weights
	ns      template
}

// NewRecaller returns a recaller.
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
	case !(w.Recency >= 0 && w.Importance >= 0 && w.Access >= 0 && w.Time >= 0): // written so that NaN is refused
		return nil, fmt.Errorf("memory: the weights are %+v: they must not be negative", w)
	case math.IsInf(w.Recency+w.Importance+w.Access+w.Time, 1):
		return nil, fmt.Errorf("memory: the weights are %+v: they must be finite", w)
	case !(r.o.MinSimilarity >= -1 && r.o.MinSimilarity <= 1):
		return nil, fmt.Errorf("memory: MinSimilarity is %v: it must be from -1 to 1", r.o.MinSimilarity)
	}
	var err error
	r.ns, err = newTemplate(r.o.Namespace)
	return r, err
}

// Recollection is the result of [Recaller.Recall].
type Recollection struct {
	// Memories are those in the block, in its order: the pinned ones, then the others,
	// best first.
	Memories []Recalled `json:"memories,omitempty"`
	// Block is the text for the prompt; empty if nothing was recalled.
	Block string `json:"block,omitempty"`
	// Tokens is the number of tokens of the block.
	Tokens int `json:"tokens"`
	// Hidden is how many memories were found and left out: they did not fit into the
	// block, were not similar enough, or are no longer valid.
	Hidden int `json:"hidden,omitempty"`
}

// Recalled is a recalled memory with its score.
type Recalled struct {
	Item     *store.Item `json:"item"`
	Document Document    `json:"document"` // its id is the item's key
	Score    float64     `json:"score"`
	Why      Reasons     `json:"why"`
}

// Recall returns the memories that fit the messages best. It searches by the last
// message, the last two, the last four and so on. Each memory in the block counts
// as used once more, which is written to the store; with Weights.Access 0, Recall
// only reads.
func (r *Recaller) Recall(ctx context.Context, messages ...llm.Message) (*Recollection, error) {
	ctx, end := traced(ctx, "recall", messages)
	out, err := r.recall(ctx, messages, true)
	end(out, err)
	return out, err
}

func (r *Recaller) recall(ctx context.Context, messages []llm.Message, count bool) (*Recollection, error) {
	n, err := r.ns.resolve(ctx)
	if err != nil {
		return nil, err
	}
	s, err := storeFor(ctx, r.o.Store)
	if err != nil {
		return nil, err
	}
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

// finding is the result of a search for memories.
type finding struct {
	pinned, candidates []Recalled
	hidden             int
}

// find reads the pinned memories and searches for others, in one batch. Reading
// does not extend the lives of memories with a TTL: see use.
func (r *Recaller) find(ctx context.Context, s *store.Store, n store.Namespace, messages []llm.Message) (*finding, error) {
	search := store.SearchOptions{Filter: r.o.Filter, Limit: max(recallDepth, r.o.Limit+len(r.o.Pinned)),
		Ranking: store.Keyword, Explain: true, NoRefresh: true}
	if s.Embeds() {
		search.Ranking = store.Hybrid
	}
	queries := windows(messages, r.o.Limit)
	var timing timing
	if r.weights.Time != 0 && len(queries) > 0 {
		timing = timingOf(queries[0], r.o.Now())
	}
	if len(timing.periods)+len(timing.events) > 0 {
		search.Limit = max(search.Limit, recallDated)
	}
	var ops []store.Op
	for _, key := range r.o.Pinned {
		ops = append(ops, store.GetOp{Namespace: n, Key: key, GetOptions: store.GetOptions{NoRefresh: true}})
	}
	for _, e := range timing.events {
		event := search
		event.Query, event.Limit = e.text, 1
		ops = append(ops, store.SearchOp{Prefix: n, SearchOptions: event})
	}
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
			if err := migrateItems(r.o.Kinds, "", res.Item); err != nil {
				return nil, err
			}
			out.pinned = append(out.pinned, Recalled{Item: res.Item, Document: DocumentOf(res.Item), Why: Reasons{Pinned: true}})
		}
	}
	results = results[len(r.o.Pinned):]
	var events []*store.Item
	for _, res := range results[:len(timing.events)] {
		events = append(events, append(res.Items, nil)[0])
	}
	timing.resolve(events)
	p := pool{Recaller: r, embeds: s.Embeds(), timing: timing, pinned: seen, hidden: map[string]bool{}, at: map[string]int{}}
	now := r.o.Now()
	for results = results[len(timing.events):]; p.dropEnded(results, search.Limit, now); {
		// Memories that have ended took the places of valid ones.
		search.Limit *= 4
		search.Filter = store.And(r.o.Filter, notLongEnded(now))
		if results, err = s.Batch(ctx, searches()...); err != nil {
			return nil, err
		}
	}
	p.join(results)
	out.hidden = len(p.hidden)
	out.candidates, err = p.cut()
	return out, err
}

// pool joins the results of searches, with each memory once.
type pool struct {
	*Recaller
	embeds     bool // the store has an embedder
	timing     timing
	pinned     map[string]bool // ids of pinned memories
	hidden     map[string]bool // ids of memories that were found and left out
	candidates []Recalled
	at         map[string]int // indexes of candidates, by id
}

// dropEnded removes memories whose validity has ended from search results. It
// reports whether a search should be repeated with a higher limit, because it was
// cut off and too few valid memories are left.
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

// join adds search results. A memory that several searches found has the relevance
// of the one that it answers best.
func (p *pool) join(searches []store.Result) {
	for _, res := range searches {
		items := slices.DeleteFunc(res.Items, p.tooFar)
		relevance := relevanceOf(items)
		for i, item := range items {
			id := itemID(item)
			if p.pinned[id] {
				continue
			}
			c := Recalled{Item: item, Why: Reasons{Relevance: relevance[i], Search: item.Explanation, Time: p.timing.fit(item)}}
			if j, ok := p.at[id]; !ok {
				p.at[id] = len(p.candidates)
				p.candidates = append(p.candidates, c)
			} else if c.Why.Relevance > p.candidates[j].Why.Relevance {
				p.candidates[j] = c
			}
		}
	}
	for id := range p.at { // near enough to another query
		delete(p.hidden, id)
	}
}

// tooFar reports whether an item is not similar enough to the query that found it.
func (p *pool) tooFar(item *store.Item) bool {
	x := item.Explanation
	far := p.o.MinSimilarity != 0 && p.embeds && (x.SimilarityRank == 0 || x.Similarity < p.o.MinSimilarity)
	if id := itemID(item); far && !p.pinned[id] {
		p.hidden[id] = true
	}
	return far
}

// cut returns the candidates that are scored: the most relevant, and the best by
// meaning and by words.
func (p *pool) cut() ([]Recalled, error) {
	fit := func(c Recalled) float64 { return c.Why.Relevance * (1 + p.weights.Time*c.Why.Time) }
	slices.SortStableFunc(p.candidates, func(a, b Recalled) int { return cmp.Compare(fit(b), fit(a)) })
	size := max(recallPool, p.o.Limit)
	best := func(rank int) bool { return rank > 0 && rank <= recallBest }
	var out []Recalled
	for i, c := range p.candidates {
		if i < size || best(c.Why.Search.SimilarityRank) || best(c.Why.Search.KeywordRank) {
			if err := migrateItems(p.o.Kinds, "", c.Item); err != nil {
				return nil, err
			}
			c.Document = DocumentOf(c.Item) // decoded only for these
			out = append(out, c)
		}
	}
	return out, nil
}

func itemsOf(ms []Recalled) []*store.Item {
	items := make([]*store.Item, len(ms))
	for i, m := range ms {
		items[i] = m.Item
	}
	return items
}

// itemID returns a text that identifies an item in its store.
func itemID(item *store.Item) string {
	return item.Namespace.Encode() + store.Namespace{item.Key}.Encode()
}
