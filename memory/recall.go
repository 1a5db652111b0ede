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

// RecallerOptions configures a [Recaller]. A nil *RecallerOptions means the defaults.
type RecallerOptions struct {
	// Namespace is the namespace of the memories; see [StoreManagerOptions].
	Namespace []string
	// Store contains the memories; nil means the run's store.
	Store *store.Store
	// Kinds convert memories to their current shape; see [Kind.Migrate].
	Kinds []Kind
	// Filter selects the memories that may be recalled; nil means all.
	Filter store.Filter
	// Pinned lists keys of memories that are always recalled, before all others, regardless
	// of the conversation, the Filter, and their [Validity]. Nil means {"default"}, the key
	// of a [StoreManager] profile; empty means none.
	Pinned []string
	// Limit is the maximum number of other memories to recall; 0 means 10.
	Limit int
	// MaxTokens limits the size of the block in tokens; 0 means 1000. A memory that does
	// not fit is omitted, and a shorter one may take its place.
	MaxTokens int
	// Count counts tokens; nil means [llm.CountTokens].
	Count llm.Counter
	// MinSimilarity, if not 0, omits memories with a lower semantic similarity to the
	// query, regardless of shared keywords; see [store.Explanation]. It ranges from -1 to
	// 1, and a good value depends on the store's embedder. Memories that are not among the
	// hundred nearest are omitted too. Stores without an embedder ignore it.
	MinSimilarity float64
	// Reranker, if not nil, scores the candidates by the last message. Its scores, scaled to
	// 0 to 1, replace [Reasons].Relevance. A recall then waits for the reranker, and fails if
	// the reranker fails.
	Reranker store.Reranker
	// Weights sets the weights of recency, importance, use, time, ratings, and context; nil
	// means {0.2, 0.5, 0.01, 0.5, 0.5, 0.4}.
	Weights *Weights
	// HalfLife is the age at which a memory's recency is 0.5; 0 means 30 days.
	HalfLife time.Duration
	// Render renders a memory for the block; nil means its text or, if it has none, its
	// kind and JSON.
	Render func(Document) string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Weights controls how much the recency, importance, use, time, ratings, and context of a memory
// add to its score:
//
//	(relevance + Context·context) × (1 + Recency·recency + Importance·importance + Access·access + Time·time + Rating·rating)
//
// [Reasons] explains the terms. The score is at least 0.
type Weights struct{ Recency, Importance, Access, Time, Rating, Context float64 }

// Full importance outweighs a 1.5× gap in relevance, and so does a match with the time that
// a message asks about. Recency decides between memories of similar relevance. Use only
// decides between nearly equal ones: a memory that often answered other questions is not
// more likely to answer this one. docs/memory-quality.md lists results for other
// weights. Two ratings weigh as much as a difference of half the importance. A message of a
// conversation often answers a question only together with its neighbors.
var defaultWeights = Weights{Recency: 0.2, Importance: 0.5, Access: 0.01, Time: 0.5, Rating: 0.5, Context: 0.4}

const (
	defaultRecallLimit  = 10
	defaultRecallTokens = 1000
	defaultHalfLife     = 30 * 24 * time.Hour
	// recallDepth is the limit of a search. The store ranks as many items by semantic
	// similarity, so the results include the best semantic and the best keyword matches.
	recallDepth = 100
	// recallPool is the number of search results that are scored. They always include the
	// recallBest best semantic matches and the recallBest best keyword matches.
	recallPool = 30
	// rerankPool replaces recallPool for a reranker, which may find what a search ranks low.
	rerankPool = 50
	recallBest = 5
	// maxRepeats is the limit from which a search is not repeated because its results are
	// repeats of too few memories.
	maxRepeats = 1600
	// recallDated replaces recallDepth for a message about a time: a memory from that time
	// may rank low by similarity and keywords.
	recallDated = 300
)

// A Recaller finds the memories relevant to a conversation and renders them as a block of
// prompt text. It uses no model, unless a Reranker does. It ranks memories by semantic similarity and keywords
// (only keywords in a store without an embedder), recency, importance, and use. It omits
// memories whose [Validity] has ended, unless the message asks about a time at which they
// were valid. Memories that say the same share one place. It is safe for concurrent use.
type Recaller struct {
	o       RecallerOptions
	weights Weights
	ns      template
}

// NewRecaller returns a recaller.
func NewRecaller(opts *RecallerOptions) (*Recaller, error) {
	r := &Recaller{weights: defaultWeights}
	if opts != nil {
		r.o = *opts
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
		return nil, fmt.Errorf("memory: invalid RecallerOptions.Limit %d: want 1 or more, or 0 for %d", r.o.Limit, defaultRecallLimit)
	case r.o.MaxTokens < 0:
		return nil, fmt.Errorf("memory: invalid RecallerOptions.MaxTokens %d: want 1 or more, or 0 for %d", r.o.MaxTokens, defaultRecallTokens)
	case r.o.HalfLife < 0:
		return nil, fmt.Errorf("memory: invalid RecallerOptions.HalfLife %v: want more than 0, or 0 for %v", r.o.HalfLife, defaultHalfLife)
	case !(w.Recency >= 0 && w.Importance >= 0 && w.Access >= 0 && w.Time >= 0 && w.Rating >= 0 && w.Context >= 0): // also rejects NaN
		return nil, fmt.Errorf("memory: invalid RecallerOptions.Weights %+v: want 0 or more for each", w)
	case math.IsInf(w.Recency+w.Importance+w.Access+w.Time+w.Rating+w.Context, 1):
		return nil, fmt.Errorf("memory: invalid RecallerOptions.Weights %+v: want finite weights", w)
	case !(r.o.MinSimilarity >= -1 && r.o.MinSimilarity <= 1):
		return nil, fmt.Errorf("memory: invalid RecallerOptions.MinSimilarity %v: want -1 to 1", r.o.MinSimilarity)
	}
	var err error
	r.ns, err = newTemplate(r.o.Namespace)
	return r, err
}

// Recollection is the result of [Recaller.Recall].
type Recollection struct {
	// Memories lists the memories in the block, in order: pinned memories first, then the
	// others, best first.
	Memories []Recalled `json:"memories,omitempty"`
	// Block is the prompt text; empty if nothing was recalled.
	Block string `json:"block,omitempty"`
	// Tokens is the number of tokens in the block.
	Tokens int `json:"tokens"`
	// Hidden is the number of memories that were found but omitted, because they did not
	// fit into the block, were not similar enough, are no longer valid, or share the place
	// of another.
	Hidden int `json:"hidden,omitempty"`
}

// Recalled is a recalled memory with its score.
type Recalled struct {
	Item     *store.Item `json:"item"`
	Document Document    `json:"document"` // its ID is the item's key
	Score    float64     `json:"score"`
	Why      Reasons     `json:"why"`
	// Alike lists the keys of other memories that were found but share this place, because
	// they say the same.
	Alike []string `json:"alike,omitempty"`
}

// Recall returns the memories that best match the messages. It searches for the last
// message, the last two, the last four, and so on. If the last message asks about a time,
// memories that were valid then are recalled even if their validity has ended since.
//
// Recall counts a use of each memory in the block, except pinned ones, and writes the
// counts to the store; with Weights.Access 0, it counts no uses. It also refreshes the TTL
// of the memories in the block, unless the store disables this.
func (r *Recaller) Recall(ctx context.Context, messages ...llm.Message) (*Recollection, error) {
	return r.traced(ctx, At{}, messages)
}

// At is a point in time in both senses: what was true at a time, and what was known at a
// time. A zero time means now.
type At struct {
	// Valid selects the memories whose [Validity] includes this time.
	Valid time.Time
	// Known selects the memories, and their versions, that the store contained at this
	// time. Versions removed by the store's history limits or by Forget are missing.
	Known time.Time
}

// RecallAt is like Recall, but returns the memories that were valid and known at a point in
// time. It counts no uses and refreshes no TTLs.
func (r *Recaller) RecallAt(ctx context.Context, at At, messages ...llm.Message) (*Recollection, error) {
	if at == (At{}) {
		at.Known = r.o.Now()
	}
	return r.traced(ctx, at, messages)
}

func (r *Recaller) traced(ctx context.Context, at At, messages []llm.Message) (*Recollection, error) {
	ctx, end := traced(ctx, "recall", messages)
	out, err := r.recall(ctx, at, messages, at == (At{}))
	end(out, err)
	return out, err
}

// reads reads from a store, or from a view of its past.
type reads interface {
	Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error)
}

func (r *Recaller) recall(ctx context.Context, at At, messages []llm.Message, count bool) (*Recollection, error) {
	n, err := r.ns.resolve(ctx)
	if err != nil {
		return nil, err
	}
	s, err := storeFor(ctx, r.o.Store)
	if err != nil {
		return nil, err
	}
	m := moment{reads: s, embeds: s.Embeds(), now: r.o.Now(), valid: !at.Valid.IsZero()}
	if !at.Known.IsZero() {
		m.reads, m.now = s.AsOf(at.Known), at.Known
	}
	if m.valid {
		m.now = at.Valid
	}
	found, err := r.find(ctx, m, n, messages)
	if err != nil {
		return nil, err
	}
	var uses map[string]use
	if r.weights.Access != 0 {
		if uses, err = readUses(ctx, s, itemsOf(found.candidates)); err != nil {
			return nil, err
		}
	}
	var rated map[string]ratings
	if r.weights.Rating != 0 {
		if rated, err = readRatings(ctx, s, itemsOf(found.candidates)); err != nil {
			return nil, err
		}
	}
	if err := r.rerank(ctx, messages, found.candidates); err != nil {
		return nil, err
	}
	r.score(found.candidates, uses, rated, m.now)
	out, err := r.block(ctx, found)
	if err != nil || !count {
		return out, err
	}
	return out, r.use(ctx, s, out.Memories, uses)
}

// moment is where and when a recall reads.
type moment struct {
	reads
	embeds bool // whether the store has an embedder
	now    time.Time
	valid  bool // only memories that are valid at now
}

// finding is the result of a search for memories.
type finding struct {
	pinned, candidates []Recalled
	hidden             int
}

// find reads the pinned memories and searches for others, in one batch. It does not refresh
// TTLs; see use.
func (r *Recaller) find(ctx context.Context, m moment, n store.Namespace, messages []llm.Message) (*finding, error) {
	search := store.SearchOptions{Filter: r.o.Filter, Limit: max(recallDepth, r.o.Limit+len(r.o.Pinned)),
		Ranking: store.Keyword, Explain: true, NoRefresh: true}
	if m.embeds {
		search.Ranking = store.Hybrid
	}
	queries := windows(messages, r.o.Limit)
	var timing timing
	if r.weights.Time != 0 && len(queries) > 0 {
		timing = timingOf(queries[0], m.now)
	}
	if len(timing.periods)+len(timing.events) > 0 || timing.past {
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
	results, err := m.Batch(ctx, append(ops, searches()...)...)
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
	p := pool{Recaller: r, moment: m, timing: timing, pinned: seen, hidden: map[string]bool{}, at: map[string]int{}}
	for results = results[len(timing.events):]; p.dropEnded(results, search.Limit); {
		// Memories that have ended, or repeats, took the places of others.
		search.Limit *= 4
		if since := timing.since(m.now); !since.IsZero() {
			search.Filter = store.And(r.o.Filter, notLongEnded(since))
		}
		if results, err = m.Batch(ctx, searches()...); err != nil {
			return nil, err
		}
	}
	p.join(results)
	setContext(p.candidates)
	out.hidden = len(p.hidden)
	out.candidates, err = p.cut()
	return out, err
}

// pool joins the results of searches, without duplicates.
type pool struct {
	*Recaller
	moment
	timing     timing
	pinned     map[string]bool // IDs of pinned memories
	hidden     map[string]bool // IDs of memories that were found but omitted
	candidates []Recalled
	at         map[string]int // indexes of candidates, by ID
}

// dropEnded removes memories from the search results that were not valid at any time that
// the recall is about. It reports whether a search should be repeated with a higher limit,
// because the results were truncated and too few different memories remain.
func (p *pool) dropEnded(searches []store.Result, limit int) (less bool) {
	for i, res := range searches {
		found := len(res.Items)
		searches[i].Items = slices.DeleteFunc(res.Items, func(item *store.Item) bool {
			id := itemID(item)
			drop := p.untimely(item)
			if drop && !p.pinned[id] {
				p.hidden[id] = true
			}
			return drop
		})
		if found == limit {
			want := min(found, p.size())
			less = less || len(searches[i].Items) < want || limit < maxRepeats && distinct(searches[i].Items) < want
		}
	}
	return less
}

// distinct returns the number of different values of items.
func distinct(items []*store.Item) int {
	values := make(map[string]bool, len(items))
	for _, item := range items {
		values[string(item.Value)] = true
	}
	return len(values)
}

// untimely reports whether a memory was not valid at any time that the recall is about.
func (p *pool) untimely(item *store.Item) bool {
	now := p.now
	ended := validityOf(item).ended(now)
	if p.valid {
		return ended || validityOf(item).From.After(now)
	}
	return ended && !p.timing.admits(validityOf(item))
}

// join adds search results. A memory found by several searches gets the highest of its
// relevances.
func (p *pool) join(searches []store.Result) {
	for _, res := range searches {
		items := slices.DeleteFunc(res.Items, p.tooFar)
		relevance := relevanceOf(items)
		for i, item := range items {
			id := itemID(item)
			if p.pinned[id] {
				continue
			}
			c := Recalled{Item: item, Why: Reasons{Relevance: relevance[i], Search: item.Explanation, Time: p.timing.fit(item, p.now)}}
			if j, ok := p.at[id]; !ok {
				p.at[id] = len(p.candidates)
				p.candidates = append(p.candidates, c)
			} else if c.Why.Relevance > p.candidates[j].Why.Relevance {
				p.candidates[j] = c
			}
		}
	}
	for id := range p.at { // similar enough to another query
		delete(p.hidden, id)
	}
}

// tooFar reports whether an item is too dissimilar to the query that found it.
func (p *pool) tooFar(item *store.Item) bool {
	x := item.Explanation
	far := p.o.MinSimilarity != 0 && p.embeds && (x.SimilarityRank == 0 || x.Similarity < p.o.MinSimilarity)
	if id := itemID(item); far && !p.pinned[id] {
		p.hidden[id] = true
	}
	return far
}

// size returns the minimum number of memories to score.
func (p *pool) size() int {
	if p.o.Reranker != nil {
		return max(rerankPool, p.o.Limit)
	}
	return max(recallPool, p.o.Limit)
}

// cut returns the candidates to score: the most relevant, and the best semantic and keyword
// matches. Repeats of a memory count once.
func (p *pool) cut() ([]Recalled, error) {
	fit := func(c Recalled) float64 { return c.Why.total(p.weights) * (1 + p.weights.Time*c.Why.Time) }
	slices.SortStableFunc(p.candidates, func(a, b Recalled) int { return cmp.Compare(fit(b), fit(a)) })
	size := p.size()
	best := func(rank int) bool { return rank > 0 && rank <= recallBest }
	var out []Recalled
	var gists []gist // of those that will not share a place
	for _, c := range p.candidates {
		if len(gists) < size || best(c.Why.Search.SimilarityRank) || best(c.Why.Search.KeywordRank) {
			if err := migrateItems(p.o.Kinds, "", c.Item); err != nil {
				return nil, err
			}
			c.Document = DocumentOf(c.Item) // decoded only for these candidates
			out = append(out, c)
			g := gistOf(c, 0)
			if !slices.ContainsFunc(gists, func(other gist) bool { same, _ := g.like(other); return same }) {
				gists = append(gists, g)
			}
		}
	}
	p.end(out)
	for i, c := range out {
		out[i].Why.Untimely = !p.valid && p.timing.misses(c.Document.Validity, p.now)
	}
	return out, nil
}

// end sets the end of memories that another candidate supersedes: the time from which the
// newer one is valid, or the day on which it was noted.
func (p *pool) end(cs []Recalled) {
	for _, newer := range cs {
		key := supersededBy(newer.Item)
		if key == "" {
			continue
		}
		at := newer.Document.Validity.From
		if at.IsZero() {
			at = day(notedAt(newer.Item)).from
		}
		for i, c := range cs {
			v := &cs[i].Document.Validity
			if c.Item.Key == key && slices.Equal(c.Item.Namespace, newer.Item.Namespace) && v.Until.IsZero() && (v.From.IsZero() || v.From.Before(at)) {
				v.Until = at
			}
		}
	}
}

func itemsOf(ms []Recalled) []*store.Item {
	items := make([]*store.Item, len(ms))
	for i, m := range ms {
		items[i] = m.Item
	}
	return items
}

// itemID returns a string that identifies an item in its store.
func itemID(item *store.Item) string {
	return item.Namespace.Encode() + store.Namespace{item.Key}.Encode()
}
