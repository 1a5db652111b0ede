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
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
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
	flags.StringVar(&s.embedder, "embedder", "uselite", "`none`, hash, uselite, or the URL of a server that maps a JSON list of texts to a list of vectors")
	flags.BoolVar(&s.json, "json", false, "print one JSON object per line instead of a table")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the weights of uselite ("+encoderParcel.size+") if they are missing")
	flags.BoolVar(&s.english, "english", false, "set the store's option English")
	weights := flags.String("weights", "", "comma-separated `weights` of recency, importance, access, and time (default the Recaller's)")
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
		if n, err := fmt.Sscanf(*weights, "%g,%g,%g,%g", &w.Recency, &w.Importance, &w.Access, &w.Time); err != nil || n != 4 {
			return s, fmt.Errorf("locomo: invalid weights %q: want four numbers", *weights)
		}
	}
	for name := range strings.SplitSeq(*rankings, ",") {
		if _, ok := storeRankings[name]; !ok && name != recallerRanking {
			return s, fmt.Errorf("locomo: unknown ranking %q: use recaller, hybrid, semantic, or keyword", name)
		}
		if s.embedder == "none" && (name == "hybrid" || name == "semantic") {
			continue
		}
		s.rankings = append(s.rankings, name)
	}
	return s, nil
}

const recallerRanking = "recaller"

var storeRankings = map[string]store.Ranking{"hybrid": store.Hybrid, "semantic": store.Semantic, "keyword": store.Keyword}

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
	Category string   `json:"cat"`
}

// answers collects the results of the questions of one category.
type answers struct {
	questions   int
	at1, at5    float64
	at10, first float64 // first is the sum of the reciprocal ranks
	tokens      int
	took        []time.Duration
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
	if i := slices.IndexFunc(found, func(id string) bool { return slices.Contains(gold, id) }); i >= 0 {
		a.first += 1 / float64(i+1)
	}
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
	Tokens    float64 `json:"tokens,omitempty"` // of the block; only the Recaller writes one
	P95Ns     float64 `json:"p95_ns"`           // without embedding the question
}

func (a *answers) line(ranking, category string) locomoLine {
	n := float64(a.questions)
	return locomoLine{Ranking: ranking, Category: category, Questions: a.questions, At1: a.at1 / n, At5: a.at5 / n, At10: a.at10 / n,
		MRR: a.first / n, Tokens: float64(a.tokens) / n, P95Ns: percentile(a.took, 95)}
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
	var lines []locomoLine
	for _, ranking := range s.rankings {
		by := map[string]*answers{}
		for _, c := range conversations {
			fmt.Fprintf(stderr, "locomo: %s, conversation %s\n", ranking, c.User)
			if err := c.measure(ctx, s, embedder, ranking, by); err != nil {
				return fmt.Errorf("locomo: conversation %s: %w", c.User, err)
			}
		}
		for category, a := range by {
			lines = append(lines, a.line(ranking, category))
		}
	}
	order := func(l locomoLine) string { // allCategories first
		if l.Category == allCategories {
			return ""
		}
		return l.Category
	}
	slices.SortFunc(lines, func(a, b locomoLine) int {
		return cmp.Or(cmp.Compare(slices.Index(s.rankings, a.Ranking), slices.Index(s.rankings, b.Ranking)), cmp.Compare(order(a), order(b)))
	})
	return printLocomo(stdout, lines, s.json)
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
	fmt.Fprintln(table, "ranking\tcategory\tquestions\trecall@1\trecall@5\trecall@10\tMRR\ttokens\tp95")
	for _, l := range lines {
		tokens := "-"
		if l.Tokens > 0 {
			tokens = fmt.Sprintf("%.0f", l.Tokens)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%s\t%s\n", l.Ranking, l.Category, l.Questions, l.At1, l.At5, l.At10, l.MRR, tokens, shortTime(l.P95Ns))
	}
	return table.Flush()
}

// measure stores the turns of a conversation, each at its time, and asks its questions.
func (c *conversation) measure(ctx context.Context, o locomoSettings, embedder store.Embedder, ranking string, by map[string]*answers) error {
	now := c.Now
	s, err := store.NewMemory(&store.Options{Embedder: embedder, English: o.english, Now: func() time.Time { return now }})
	if err != nil {
		return err
	}
	space := store.Namespace{"memories", c.User}
	for _, m := range c.Memories {
		now = m.Time
		var meta any
		if m.Importance != nil {
			meta = map[string]any{"importance": *m.Importance}
		}
		if err := s.Put(ctx, space, m.ID, remembered{"Memory", memory.Memory{Content: m.Text}}, &store.PutOptions{Meta: meta}); err != nil {
			return err
		}
	}
	now = c.Now
	ask, err := c.asker(ctx, s, space, ranking, o.weights)
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
		for _, category := range []string{q.Category, allCategories} {
			if by[category] == nil {
				by[category] = &answers{}
			}
			by[category].add(q.Gold, found, tokens, took)
		}
	}
	return nil
}

// asker returns a function that finds the keys of memories for a question, best
// first, and the number of tokens that they take in a prompt.
func (c *conversation) asker(ctx context.Context, s *store.Store, space store.Namespace, ranking string, weights *memory.Weights) (func(string) ([]string, int, error), error) {
	if ranking != recallerRanking {
		return func(q string) (keys []string, tokens int, err error) {
			items, err := s.Search(ctx, space, &store.SearchOptions{Query: q, Ranking: storeRankings[ranking], Limit: locomoTop})
			for _, item := range items {
				keys = append(keys, item.Key)
			}
			return keys, 0, err
		}, nil
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: space, Weights: weights, Now: func() time.Time { return c.Now }})
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

// locomoEmbedder returns the embedder that the arguments name, or nil.
func locomoEmbedder(ctx context.Context, s locomoSettings, progress io.Writer) (store.Embedder, error) {
	switch s.embedder {
	case "none":
		return nil, nil
	case "hash":
		return store.NewHashEmbedder(384), nil
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
		return nil, fmt.Errorf("locomo: unknown embedder %q: use none, hash, uselite, or a URL", s.embedder)
	}
	e := &remoteEmbedder{url: s.embedder}
	probe, err := e.Embed(ctx, []string{"probe"})
	if err != nil {
		return nil, fmt.Errorf("locomo: %w", err)
	}
	e.dimension = len(probe[0])
	return newPrecomputed(e), nil
}

// precomputed keeps all vectors of an embedder.
type precomputed struct {
	store.Embedder
	vectors map[string][]float32
}

func newPrecomputed(e store.Embedder) *precomputed { return &precomputed{e, map[string][]float32{}} }

// Embed implements [store.Embedder].
func (p *precomputed) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		if p.vectors[text] == nil {
			vectors, err := p.Embedder.Embed(ctx, []string{text})
			if err != nil {
				return nil, err
			}
			p.vectors[text] = vectors[0]
		}
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
