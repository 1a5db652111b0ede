package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/rerank"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/minilm"
	"github.com/treadle-go/treadle/store/uselite"
)

// locomoUsage is printed for -help and for invalid arguments.
const locomoUsage = `usage: bench locomo [flags] file.json

Measures how well memories are found for the questions of LoCoMo. The file is
locomo10.json of the authors, or a list of conversations of the form
[{"user","now","memories":[{"id","text","time"}],"questions":[{"q","gold":[ids],"cat"}]}].
`

// locomoSettings are the arguments of bench locomo.
type locomoSettings struct {
	file     string
	embedder string
	reranker string // URL and model, separated by a space
	python   string // the interpreter that runs LangChain's retrievers, if any
	rankings []string
	json     bool
	fetch    bool
	english  bool
	weights  *memory.Weights
}

func parseLocomo(args []string, stderr io.Writer) (s locomoSettings, err error) {
	flags := flag.NewFlagSet("bench locomo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, locomoUsage)
		flags.PrintDefaults()
	}
	s.searchFlags(flags)
	flags.BoolVar(&s.json, "json", false, "print one JSON object per line instead of a table")
	flags.BoolVar(&s.english, "english", false, "set the store's option English")
	weights := flags.String("weights", "", "comma-separated `weights` of recency, importance, access, time, and context (default the Recaller's)")
	rankings := flags.String("rankings", "recaller,hybrid,semantic,keyword", "comma-separated `rankings` to measure")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() != 1 {
		return s, fmt.Errorf("locomo: %d files: pass one", flags.NArg())
	}
	s.file = flags.Arg(0)
	if *weights != "" {
		s.weights = &memory.Weights{}
		w := s.weights
		if n, err := fmt.Sscanf(*weights, "%g,%g,%g,%g,%g", &w.Recency, &w.Importance, &w.Access, &w.Time, &w.Context); err != nil || n != 5 {
			return s, fmt.Errorf("locomo: invalid weights %q: want five numbers", *weights)
		}
	}
	if s.reranker != "" {
		s.rankings = append(s.rankings, rerankedRanking)
		if s.embedder != "none" {
			s.rankings = append(s.rankings, rerankedHybrid)
		}
	}
	for name := range strings.SplitSeq(*rankings, ",") {
		if _, ok := storeRankings[name]; !ok && name != recallerRanking {
			return s, fmt.Errorf("locomo: unknown ranking %q: use recaller, hybrid, semantic, or keyword", name)
		}
		if s.embedder == "none" && (name == hybridRanking || name == "semantic") {
			continue
		}
		s.rankings = append(s.rankings, name)
	}
	return s, nil
}

// searchFlags defines the flags that the commands about searches share.
func (s *locomoSettings) searchFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.embedder, "embedder", "minilm", "`none`, hash, minilm, uselite, or the URL of a server that maps a JSON list of texts to a list of vectors")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the weights of minilm (84 MB) or uselite ("+encoderParcel.size+") if they are missing")
	flags.StringVar(&s.reranker, "reranker", "", "`URL and model` of a rerank server, separated by a space")
	flags.StringVar(&s.python, "python", "", "also measure LangChain's retrievers with this `interpreter`, which has langchain-community, rank_bm25, and faiss-cpu")
}

// openReranker returns the reranker that the arguments name, or nil.
func (s *locomoSettings) openReranker() (store.Reranker, error) {
	if s.reranker == "" {
		return nil, nil
	}
	url, model, _ := strings.Cut(s.reranker, " ")
	return rerank.Server(model, &rerank.Options{BaseURL: url})
}

const (
	recallerRanking = "recaller"
	rerankedRanking = recallerRanking + rerankSuffix
	hybridRanking   = "hybrid"
	rerankedHybrid  = hybridRanking + rerankSuffix
	rerankSuffix    = "+rerank"
	// rerankDepth is the number of search results that a reranker scores for a store ranking,
	// the same as that of a Recaller.
	rerankDepth = 50
)

var storeRankings = map[string]store.Ranking{hybridRanking: store.Hybrid, "semantic": store.Semantic, "keyword": store.Keyword}

// conversation contains the messages of two people and questions about them.
type conversation struct {
	User      string     `json:"user"`
	Now       time.Time  `json:"now"`
	Memories  []turn     `json:"memories"`
	Questions []question `json:"questions"`
}

// turn is a message of a conversation.
type turn struct {
	ID         string    `json:"id"`
	Text       string    `json:"text"`
	Time       time.Time `json:"time"`
	Importance *float64  `json:"importance"`
}

// question lists the IDs of the turns that answer it.
type question struct {
	Text     string   `json:"q"`
	Gold     []string `json:"gold"`
	Answer   string   `json:"answer"` // empty if the conversation does not answer it
	Category string   `json:"cat"`
}

// answers collects the results of the questions of one category.
type answers struct {
	questions   int
	at1, at5    float64
	at10, first float64 // first is the sum of the reciprocal ranks
	ndcg        float64
	tokens      int
	took        []time.Duration

	each10, eachMRR []float64 // recall@10 and reciprocal ranks, by question
}

// byCategory contains the answers by category; see allCategories.
type byCategory map[string]*answers

func (b byCategory) add(category string, gold, found []string, tokens int, took time.Duration) {
	for _, c := range slices.Compact([]string{category, allCategories}) {
		if b[c] == nil {
			b[c] = &answers{}
		}
		b[c].add(gold, found, tokens, took)
	}
}

// locomoTop is the number of requested memories.
const locomoTop = 10

func (a *answers) add(gold, found []string, tokens int, took time.Duration) {
	a.questions++
	a.tokens += tokens
	a.took = append(a.took, took)
	at := func(k int) float64 {
		n := 0
		for _, id := range found[:min(k, len(found))] {
			if slices.Contains(gold, id) {
				n++
			}
		}
		return float64(n) / float64(len(gold))
	}
	a.at1, a.at5, a.at10 = a.at1+at(1), a.at5+at(5), a.at10+at(locomoTop)
	first := 0.0
	if i := slices.IndexFunc(found, func(id string) bool { return slices.Contains(gold, id) }); i >= 0 {
		first = 1 / float64(i+1)
	}
	a.first += first
	a.each10, a.eachMRR = append(a.each10, at(locomoTop)), append(a.eachMRR, first)
	var gain, ideal float64
	for i := range locomoTop {
		discount := 1 / math.Log2(float64(i+2))
		if i < len(gold) {
			ideal += discount
		}
		if i < len(found) && slices.Contains(gold, found[i]) {
			gain += discount
		}
	}
	a.ndcg += gain / ideal
}

// locomoLine is the result for one ranking and category.
type locomoLine struct {
	Ranking   string  `json:"ranking"`
	Category  string  `json:"category"`
	Questions int     `json:"questions"`
	At1       float64 `json:"recall_at_1"`
	At5       float64 `json:"recall_at_5"`
	At10      float64 `json:"recall_at_10"`
	MRR       float64 `json:"mrr"`
	NDCG      float64 `json:"ndcg_at_10"`
	Tokens    float64 `json:"tokens,omitempty"` // of the block; only the Recaller writes one
	P95Ns     float64 `json:"p95_ns,omitempty"` // without embedding the question; 0 if not measured

	// Base is the ranking that the differences refer to; empty if it was not measured.
	Base   string      `json:"base,omitempty"`
	At10Vs *difference `json:"recall_at_10_vs_base,omitempty"`
	MRRVs  *difference `json:"mrr_vs_base,omitempty"`
}

// difference is a mean difference between two rankings with its 95% interval.
type difference struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

func (d *difference) String() string {
	if d == nil {
		return "-"
	}
	return fmt.Sprintf("%+.3f (%+.3f to %+.3f)", d.Mean, d.Low, d.High)
}

// bootstraps is the number of samples of a bootstrap interval.
const bootstraps = 10_000

// paired returns the mean difference of two results of the same questions, with its paired
// bootstrap interval: each sample draws as many questions, with replacement. The samples are the
// same in every run.
func paired(a, b []float64) *difference {
	n := len(a)
	if n == 0 || n != len(b) {
		return nil
	}
	random := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, bootstraps)
	for i := range means {
		for range n {
			k := random.IntN(n)
			means[i] += a[k] - b[k]
		}
		means[i] /= float64(n)
	}
	slices.Sort(means)
	d := &difference{Low: means[bootstraps/40], High: means[bootstraps-1-bootstraps/40]}
	for k := range n {
		d.Mean += (a[k] - b[k]) / float64(n)
	}
	return d
}

// baseOf returns the ranking to compare a ranking with: the same without the reranker, or best.
func baseOf(ranking, best string) string {
	if base, ok := strings.CutSuffix(ranking, rerankSuffix); ok {
		return base
	}
	return best
}

func (a *answers) line(ranking, category string) locomoLine {
	n := float64(a.questions)
	return locomoLine{Ranking: ranking, Category: category, Questions: a.questions, At1: a.at1 / n, At5: a.at5 / n, At10: a.at10 / n,
		MRR: a.first / n, NDCG: a.ndcg / n, Tokens: float64(a.tokens) / n, P95Ns: percentile(a.took, 95)}
}

// allCategories is the category of all questions together.
const allCategories = "all"

func runLocomo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parseLocomo(args, stderr)
	if err != nil {
		return err
	}
	conversations, err := readLocomo(s.file)
	if err != nil {
		return err
	}
	embedder, err := locomoEmbedder(ctx, s, stderr)
	if err != nil {
		return err
	}
	rankings := s.rankings
	measured := map[string]byCategory{}
	for _, ranking := range rankings {
		measured[ranking] = byCategory{}
		for _, c := range conversations {
			fmt.Fprintf(stderr, "locomo: %s, conversation %s\n", ranking, c.User)
			if err := c.measure(ctx, s, embedder, ranking, measured[ranking]); err != nil {
				return fmt.Errorf("locomo: conversation %s: %w", c.User, err)
			}
		}
	}
	if s.python != "" {
		peers, err := measurePeers(ctx, s.python, conversations, embedder, measured, stderr)
		if err != nil {
			return err
		}
		rankings = append(rankings, peers...)
	}
	return printLocomo(stdout, linesOf(rankings, measured, recallerRanking), s.json)
}

// measurePeers measures LangChain's retrievers and returns their names.
func measurePeers(ctx context.Context, python string, conversations []conversation, e store.Embedder, measured map[string]byCategory, stderr io.Writer) (names []string, err error) {
	var groups []searchGroup
	for _, c := range conversations {
		groups = append(groups, c.group())
	}
	searches, err := langchain(ctx, python, groups, e, stderr)
	if err != nil {
		return nil, err
	}
	for _, peer := range searches {
		by := byCategory{}
		found := peer.Found
		for _, c := range conversations {
			for i, q := range c.Questions {
				by.add(q.Category, q.Gold, found[i], 0, 0)
			}
			found = found[len(c.Questions):]
		}
		measured[peer.Name] = by
		names = append(names, peer.Name)
	}
	return names, nil
}

// linesOf returns a line for each ranking and category, in the order of the rankings and with
// allCategories first. The lines contain the differences to the ranking best.
func linesOf(rankings []string, measured map[string]byCategory, best string) (lines []locomoLine) {
	for _, ranking := range rankings {
		base := baseOf(ranking, best)
		categories := slices.Sorted(maps.Keys(measured[ranking]))
		slices.SortStableFunc(categories, func(a, b string) int {
			return cmp.Compare(strings.TrimPrefix(a, allCategories), strings.TrimPrefix(b, allCategories))
		})
		for _, category := range categories {
			a := measured[ranking][category]
			l := a.line(ranking, category)
			if b := measured[base][category]; b != nil && base != ranking {
				l.Base, l.At10Vs, l.MRRVs = base, paired(a.each10, b.each10), paired(a.eachMRR, b.eachMRR)
			}
			lines = append(lines, l)
		}
	}
	return lines
}

func printLocomo(w io.Writer, lines []locomoLine, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		for _, l := range lines {
			if err := encoder.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ranking\tcategory\tquestions\trecall@1\trecall@5\trecall@10\tMRR\tnDCG@10\ttokens\tp95\trecall@10 vs base\tMRR vs base\tbase")
	for _, l := range lines {
		tokens := "-"
		if l.Tokens > 0 {
			tokens = fmt.Sprintf("%.0f", l.Tokens)
		}
		p95 := "-"
		if l.P95Ns > 0 {
			p95 = shortTime(l.P95Ns)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%s\t%s\t%s\t%s\n", l.Ranking, l.Category, l.Questions, l.At1, l.At5, l.At10, l.MRR, l.NDCG, tokens, p95, l.At10Vs, l.MRRVs, cmp.Or(l.Base, "-"))
	}
	return table.Flush()
}

// fill stores the turns of a conversation, each at its time.
func (c *conversation) fill(ctx context.Context, o locomoSettings, embedder store.Embedder) (*store.Store, store.Namespace, error) {
	now := c.Now
	s, err := store.NewMemory(&store.Options{Embedder: embedder, English: o.english, Now: func() time.Time { return now }})
	if err != nil {
		return nil, nil, err
	}
	space := store.Namespace{"memories", c.User}
	for _, m := range c.Memories {
		now = m.Time
		var meta any
		if m.Importance != nil {
			meta = map[string]any{"importance": *m.Importance}
		}
		if err := s.Put(ctx, space, m.ID, remembered{"Memory", memory.Memory{Content: m.Text}}, &store.PutOptions{Meta: meta}); err != nil {
			return nil, nil, err
		}
	}
	now = c.Now
	return s, space, nil
}

// measure asks the questions of a conversation.
func (c *conversation) measure(ctx context.Context, o locomoSettings, embedder store.Embedder, ranking string, by byCategory) error {
	s, space, err := c.fill(ctx, o, embedder)
	if err != nil {
		return err
	}
	ask, err := c.asker(ctx, s, space, ranking, o)
	if err != nil {
		return err
	}
	for _, q := range c.Questions {
		if embedder != nil { // exclude embedding from the time
			if _, err := embedder.Embed(ctx, []string{q.Text}); err != nil {
				return err
			}
		}
		start := time.Now()
		found, tokens, err := ask(q.Text)
		took := time.Since(start)
		if err != nil {
			return err
		}
		by.add(q.Category, q.Gold, found, tokens, took)
	}
	return nil
}

// asker returns a function that finds the keys of memories for a question, best
// first, and the number of tokens that they take in a prompt.
func (c *conversation) asker(ctx context.Context, s *store.Store, space store.Namespace, ranking string, o locomoSettings) (func(string) ([]string, int, error), error) {
	if ranking != recallerRanking && ranking != rerankedRanking {
		return searcher(ctx, s, space, ranking, o)
	}
	opts := &memory.RecallerOptions{Store: s, Namespace: space, Weights: o.weights, Now: func() time.Time { return c.Now }}
	if ranking == rerankedRanking {
		r, err := o.openReranker()
		if err != nil {
			return nil, err
		}
		opts.Reranker = r
	}
	r, err := memory.NewRecaller(opts)
	if err != nil {
		return nil, err
	}
	return func(q string) (keys []string, tokens int, err error) {
		got, err := r.Recall(ctx, llm.User(q))
		if err != nil {
			return nil, 0, err
		}
		for _, m := range got.Memories {
			keys = append(keys, m.Item.Key)
		}
		return keys, got.Tokens, nil
	}, nil
}

// searcher is like asker, for a ranking of the store.
func searcher(ctx context.Context, s *store.Store, space store.Namespace, ranking string, o locomoSettings) (func(string) ([]string, int, error), error) {
	search := store.SearchOptions{Ranking: storeRankings[strings.TrimSuffix(ranking, rerankSuffix)], Limit: locomoTop}
	var reranker store.Reranker
	if strings.HasSuffix(ranking, rerankSuffix) {
		var err error
		if reranker, err = o.openReranker(); err != nil {
			return nil, err
		}
		search.Limit = rerankDepth
	}
	return func(q string) (keys []string, tokens int, err error) {
		search.Query = q
		items, err := s.Search(ctx, space, &search)
		if err != nil {
			return nil, 0, err
		}
		if reranker != nil && len(items) > 0 {
			if err := rerankItems(ctx, reranker, q, items); err != nil {
				return nil, 0, err
			}
		}
		for _, item := range items[:min(locomoTop, len(items))] {
			keys = append(keys, item.Key)
		}
		return keys, 0, nil
	}, nil
}

// rerankItems sorts items by the scores of a reranker.
func rerankItems(ctx context.Context, r store.Reranker, query string, items []*store.Item) error {
	texts := make([]string, len(items))
	for i, item := range items {
		var v remembered
		if err := item.Decode(&v); err != nil {
			return err
		}
		texts[i] = v.Content.Content
	}
	scores, err := r.Rerank(ctx, query, texts)
	if err != nil {
		return err
	}
	if len(scores) != len(items) {
		return fmt.Errorf("%d scores for %d texts", len(scores), len(items))
	}
	for i, item := range items {
		item.Score = scores[i]
	}
	slices.SortStableFunc(items, func(a, b *store.Item) int { return cmp.Compare(b.Score, a.Score) })
	return nil
}

// locomoEmbedder returns the embedder that the arguments name, or nil.
func locomoEmbedder(ctx context.Context, s locomoSettings, progress io.Writer) (store.Embedder, error) {
	switch s.embedder {
	case "none":
		return nil, nil
	case "hash":
		return store.NewHashEmbedder(384), nil
	case "minilm":
		if s.fetch {
			if _, err := minilm.Install(ctx); err != nil {
				return nil, err
			}
		}
		e, err := minilm.Find()
		if err != nil {
			return nil, fmt.Errorf("locomo: %w", err)
		}
		return newPrecomputed(e), nil
	case "uselite":
		dir, err := encoderDir(ctx, s.fetch, encoderParcel, progress)
		if err != nil {
			return nil, fmt.Errorf("locomo: weights of uselite (-fetch downloads them): %w", err)
		}
		e, err := uselite.Open(dir)
		if err != nil {
			return nil, err
		}
		return newPrecomputed(e), nil
	}
	if !strings.HasPrefix(s.embedder, "http://") && !strings.HasPrefix(s.embedder, "https://") {
		return nil, fmt.Errorf("locomo: unknown embedder %q: use none, hash, minilm, uselite, or a URL", s.embedder)
	}
	e := &remoteEmbedder{url: s.embedder}
	probe, err := e.Embed(ctx, []string{"probe"})
	if err != nil {
		return nil, fmt.Errorf("locomo: %w", err)
	}
	e.dimension = len(probe[0])
	return newPrecomputed(e), nil
}

// precomputed keeps all vectors of an embedder. It is safe for concurrent use.
type precomputed struct {
	store.Embedder

	mu      sync.Mutex
	vectors map[string][]float32
}

func newPrecomputed(e store.Embedder) *precomputed {
	return &precomputed{Embedder: e, vectors: map[string][]float32{}}
}

// Embed implements [store.Embedder].
func (p *precomputed) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var missing []string
	for _, text := range texts {
		if p.vectors[text] == nil && !slices.Contains(missing, text) {
			missing = append(missing, text)
		}
	}
	if len(missing) > 0 {
		vectors, err := p.Embedder.Embed(ctx, missing)
		if err != nil {
			return nil, err
		}
		for i, text := range missing {
			p.vectors[text] = vectors[i]
		}
	}
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = p.vectors[text]
	}
	return out, nil
}

// remoteEmbedder asks a server for vectors.
type remoteEmbedder struct {
	url       string
	dimension int
}

// Model implements [store.Embedder].
func (e *remoteEmbedder) Model() string { return e.url }

// Dimension implements [store.Embedder].
func (e *remoteEmbedder) Dimension() int { return e.dimension }

// maxVectors is the maximum size of a response, in bytes.
const maxVectors = 64 << 20

// Embed implements [store.Embedder].
func (e *remoteEmbedder) Embed(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	body, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", e.url, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxVectors)).Decode(&vectors); err != nil {
		return nil, fmt.Errorf("%s: %w", e.url, err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("%s: %d vectors for %d texts", e.url, len(vectors), len(texts))
	}
	return vectors, nil
}

// readLocomo reads a file in one of the two forms of locomoUsage.
func readLocomo(file string) ([]conversation, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("locomo: %w", err)
	}
	var original []locomoSample
	if err := json.Unmarshal(raw, &original); err == nil && len(original) > 0 && original[0].Conversation != nil {
		return convertLocomo(original)
	}
	var out []conversation
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("locomo: %s: %w", file, err)
	}
	questions := 0
	for i := range out {
		c := &out[i]
		c.Questions = slices.DeleteFunc(c.Questions, func(q question) bool { return len(q.Gold) == 0 })
		questions += len(c.Questions)
	}
	if questions == 0 {
		return nil, fmt.Errorf("locomo: %s has no questions with answers", file)
	}
	return out, nil
}
