package retrieval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// animals returns an index with several chunks per document.
func animals(t testing.TB, e store.Embedder) *retrieval.Index {
	t.Helper()
	x := newIndex(t, newStore(t, e), byLine)
	syncs(t, x, retrieval.Documents(
		retrieval.Document{ID: "owls", Text: "Owls hunt at night.\nTheir feathers are silent.\nThey swallow mice whole.\nOwls nest in trees.\n", Line: 1, Meta: map[string]any{"kind": "bird"}},
		retrieval.Document{ID: "gophers", Text: "Gophers dig tunnels.\nThey eat roots at night.\n", Line: 1, Meta: map[string]any{"kind": "rodent"}},
		retrieval.Document{ID: "ducks", Text: "Ducks swim.\nDucks eat bread.\n", Line: 1, Meta: map[string]any{"kind": "bird"}},
	), nil)
	return x
}

func search(t testing.TB, x *retrieval.Index, query string, opts *retrieval.SearchOptions) (out []string) {
	t.Helper()
	hits, err := x.Search(t.Context(), query, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		out = append(out, fmt.Sprintf("%s: %s", h.Place(), strings.ReplaceAll(h.Text, "\n", "|")))
	}
	return out
}

func TestSearchFindsChunks(t *testing.T) {
	for _, e := range []store.Embedder{nil, store.NewHashEmbedder(64)} {
		x := animals(t, e)
		if got := search(t, x, "who has silent feathers?", nil); len(got) == 0 || got[0] != "owls:2: Their feathers are silent.|" {
			t.Errorf("%q", got)
		}
		filter := &retrieval.SearchOptions{Filter: store.And(store.Eq("meta.kind", "bird"), store.Ne("source", "ducks")), Ranking: store.Keyword}
		if got := search(t, x, "night", filter); !slices.Equal(got, []string{"owls:1: Owls hunt at night.|"}) {
			t.Errorf("%q", got)
		}
	}
}

func TestNeighborsAndParentsExtendHits(t *testing.T) {
	x := animals(t, nil)
	for _, c := range []struct {
		opts retrieval.SearchOptions
		want []string
	}{
		{retrieval.SearchOptions{Neighbors: 1}, []string{
			"owls:2: Their feathers are silent.|They swallow mice whole.|Owls nest in trees.|",
			"owls:1: Owls hunt at night.|",
		}},
		{retrieval.SearchOptions{Parents: true}, []string{
			"owls:1: Owls hunt at night.|Their feathers are silent.|They swallow mice whole.|Owls nest in trees.|"}},
	} {
		hits, err := x.Search(t.Context(), "mice owls hunt", &c.opts)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			got = append(got, fmt.Sprintf("%s: %s", h.Place(), strings.ReplaceAll(h.Text, "\n", "|")))
			if text, err := x.Text(t.Context(), h.Source, h.Document, h.Start, h.End); err != nil || text != h.Text {
				t.Errorf("bytes %d to %d are %q, not %q: %v", h.Start, h.End, text, h.Text, err)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(c.want))
		if c.opts.Neighbors > 0 {
			// Which of the hits comes first depends on the ranking; together, they cover the document once.
			if joined := strings.Join(got, ""); strings.Count(joined, "Owls hunt") != 1 || strings.Count(joined, "silent") != 1 || strings.Count(joined, "nest") != 1 {
				t.Errorf("%q", got)
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	}
}

// reverse is a reranker that scores the last text best.
type reverse struct{ scores []float64 }

func (r reverse) Rerank(_ context.Context, _ string, texts []string) ([]float64, error) {
	if r.scores != nil {
		return r.scores, nil
	}
	out := make([]float64, len(texts))
	for i := range out {
		out[i] = float64(i)
	}
	return out, nil
}

func TestRerankerDecidesOrder(t *testing.T) {
	x := animals(t, nil)
	plain := search(t, x, "owls night eat", nil)
	slices.Reverse(plain)
	if got := search(t, x, "owls night eat", &retrieval.SearchOptions{Reranker: reverse{}}); !slices.Equal(got, plain) {
		t.Errorf("%q, want %q", got, plain)
	}
	for _, scores := range [][]float64{{1}, {math.NaN(), 1, 2, 3, 4}} {
		if _, err := x.Search(t.Context(), "owls night eat", &retrieval.SearchOptions{Reranker: reverse{scores}}); err == nil {
			t.Errorf("scores %v accepted", scores)
		}
	}
	if got := search(t, x, "zebra", &retrieval.SearchOptions{Reranker: reverse{}}); got != nil {
		t.Error(got)
	}
}

func TestDiversityAvoidsRepetition(t *testing.T) {
	x := newIndex(t, newStore(t, store.NewHashEmbedder(256)), byLine)
	syncs(t, x, retrieval.Documents(
		retrieval.Document{ID: "a", Text: "owls fly silently at night\n"}, retrieval.Document{ID: "b", Text: "owls fly silently at night\n"},
		retrieval.Document{ID: "c", Text: "owls fly silently at night too\n"}, retrieval.Document{ID: "d", Text: "feathers make owls silent\n"},
	), nil)
	opts := &retrieval.SearchOptions{Limit: 2, Diversity: 0.7}
	if got := search(t, x, "owls fly silently at night", opts); len(got) != 2 || !strings.HasPrefix(got[1], "d") {
		t.Errorf("%q", got)
	}
}

func TestInvalidSearchIsRejected(t *testing.T) {
	x := animals(t, nil)
	for _, o := range []retrieval.SearchOptions{
		{Limit: -1}, {Neighbors: -1}, {Diversity: 2}, {Diversity: math.NaN()}, {Diversity: 0.5}, {Neighbors: 1, Parents: true}, {Ranking: store.Semantic},
	} {
		if _, err := x.Search(t.Context(), "owls", &o); err == nil || !strings.HasPrefix(err.Error(), "retrieval: search: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []*retrieval.Options{{Embedder: store.NewHashEmbedder(4)}, {Namespace: store.Namespace{}}} {
		if _, err := retrieval.New(newStore(t, nil), o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	if _, err := retrieval.New(nil, nil); err == nil {
		t.Error("nil store accepted")
	}
	if _, err := retrieval.Open(nil, nil); err == nil {
		t.Error("nil database accepted")
	}
}

func TestSeveralQueriesAreFused(t *testing.T) {
	x := animals(t, nil)
	hits, err := x.SearchAll(t.Context(), []string{"tunnels", "swim", "tunnels gophers"}, &retrieval.SearchOptions{Limit: 2})
	if err != nil || len(hits) != 2 || hits[0].Source != "gophers" || hits[1].Source != "ducks" {
		t.Errorf("%+v %v", hits, err)
	}
}

func TestRewrittenQueriesSearchInGraph(t *testing.T) {
	x := animals(t, nil)
	model := llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		return llm.Assistant("1. gophers tunnels\n- \"ducks swim\"\n\nducks swim\nmore\n"), nil
	})
	type state struct {
		llm.Chat
		Queries []string
		Hits    []retrieval.Hit
	}
	b := treadle.New[state]("rag")
	treadle.AddNode(b, "rewrite", retrieval.Rewrite(model, &retrieval.RewriteOptions{Queries: 3}))
	treadle.AddNode(b, "retrieve", x.Retrieve(&retrieval.SearchOptions{Limit: 2}))
	b.Sequence(treadle.Start, "rewrite", "retrieve")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	in := state{Chat: llm.Chat{Messages: llm.Messages{llm.User("where do they live?")}}}
	var retrievers []string
	for e, err := range g.Stream(t.Context(), in, treadle.Modes(treadle.ModeEvents)) {
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, "on_retriever_end") {
			retrievers = append(retrievers, "end")
		}
	}
	out, err := g.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"where do they live?", "gophers tunnels", "ducks swim"}; !slices.Equal(out.Queries, want) || len(out.Hits) != 2 {
		t.Errorf("%q %v", out.Queries, out.Hits)
	}
	if len(retrievers) != 3 {
		t.Errorf("retriever events: %d", len(retrievers))
	}
}

func TestEvaluateMeasuresSources(t *testing.T) {
	x := animals(t, nil)
	m, err := x.Evaluate(t.Context(), []retrieval.Question{
		{Query: "tunnels", Sources: []string{"gophers"}},
		{Query: "zebra", Sources: []string{"owls"}},
		{Query: "swim", Sources: []string{"ducks", "owls"}},
	}, nil)
	want := retrieval.Metrics{Recall: (1 + 0 + 0.5) / 3, MRR: 2.0 / 3, NDCG: (1 + 0 + 1/(1+1/math.Log2(3))) / 3}
	if err != nil || math.Abs(m.Recall-want.Recall)+math.Abs(m.MRR-want.MRR)+math.Abs(m.NDCG-want.NDCG) > 1e-9 {
		t.Errorf("%+v %v, want %+v", m, err, want)
	}
	if _, err := x.Evaluate(t.Context(), nil, nil); err == nil {
		t.Error("no questions accepted")
	}
}

func TestRemovedChunksAreNotFound(t *testing.T) {
	x := animals(t, store.NewHashEmbedder(64))
	syncs(t, x, retrieval.Documents(), nil)
	if got := search(t, x, "owls", nil); got != nil {
		t.Error(got)
	}
	if _, err := x.Text(t.Context(), "owls", "", 0, 4); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
