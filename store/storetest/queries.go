package storetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/store"
)

// menu puts items to search for. Their keys name their topics.
func (w *fixture) menu(s *store.Store) {
	for _, item := range []struct{ key, text string }{
		{"food1", "I love pizza"}, {"job1", "I am a plumber"}, {"food2", "pasta, pizza and more pasta"}, {"sport1", "we play tennis at work"},
	} {
		w.ok(s.Put(w.Context(), ns("u/1"), item.key, object{"text": item.text, "about": strings.Trim(item.key, "12")}, &store.PutOptions{Index: []string{"text"}}))
	}
}

func dotOf(a, b []float32) (sum float64) {
	for i := range min(len(a), len(b)) {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

var queries = []test{
	{"SemanticRankingReturnsNearest", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		w.menu(s)
		items := w.finds(s, "u", &store.SearchOptions{Query: "I am hungry", Limit: 3, Explain: true}, "food1 food2 job1")
		if got := items[0].Score; math.Abs(got-1) > 0.01 {
			w.Errorf("best score: %v", got)
		}
		for i, item := range items {
			want(w, fmt.Sprint("length of the vector of ", item.Key), len(item.Explanation.Vector), topics{}.Dimension())
			item.Explanation.Vector = nil
			want(w, fmt.Sprint("explanation of ", item.Key), item.Explanation,
				&store.Explanation{Similarity: item.Score, Field: "text", SimilarityRank: i + 1})
		}
		w.finds(s, "u", &store.SearchOptions{Query: "I am hungry", Limit: 2, Offset: 1}, "food2 job1")
		w.finds(s, "u", &store.SearchOptions{Query: "my job", Limit: 1}, "job1")
		w.finds(s, "u", &store.SearchOptions{Query: "I am hungry", Filter: store.Ne("about", "food"), Limit: 1}, "job1")
		w.finds(s, "u/2", &store.SearchOptions{Query: "I am hungry"}, "")
	}},
	{"VectorCoversAllTexts", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		for key, about := range map[string]string{"one": "food", "two": "job"} {
			w.ok(s.Put(w.Context(), ns("u"), key, object{"text": "I love pizza", "about": "my " + about}, &store.PutOptions{Index: []string{"text", "about"}}))
		}
		query := &store.SearchOptions{Query: "I am hungry", Ranking: store.Semantic, Explain: true}
		vectors := map[string][]float32{}
		items, err := s.Search(w.Context(), ns("u"), query)
		w.ok(err)
		for _, item := range items {
			vectors[item.Key] = item.Explanation.Vector
			length := dotOf(item.Explanation.Vector, item.Explanation.Vector)
			want(w, "unit length of the vector of "+item.Key, math.Abs(length-1) < 1e-5, true)
			for _, text := range []string{"I love pizza", "my " + map[string]string{"one": "food", "two": "job"}[item.Key]} {
				of, err := s.Embed(w.Context(), text)
				w.ok(err)
				if cosine := dotOf(of[0], item.Explanation.Vector); cosine < 0.5 {
					w.Errorf("the vector of %s has the cosine %v with the vector of %q", item.Key, cosine, text)
				}
			}
		}
		if cosine := dotOf(vectors["one"], vectors["two"]); cosine > 0.99 {
			w.Errorf("items that share one of two texts have the cosine %v", cosine)
		}
	}},
	{"KeywordRankingIsDefault", func(w *fixture) {
		w.menu(w.Store)
		items := w.finds(w, "u", &store.SearchOptions{Query: "Pizza, PASTA?", Explain: true}, "food2 food1")
		want(w, "words", items[0].Explanation.Terms, []string{"pasta", "pizza"})
		for i, item := range items {
			if item.Score <= 0 || item.Explanation.Keyword != item.Score || item.Explanation.KeywordRank != i+1 || item.Explanation.SimilarityRank != 0 {
				w.Errorf("%s: score %v, explanation %+v", item.Key, item.Score, item.Explanation)
			}
		}
		w.finds(w, "u", &store.SearchOptions{Query: "work tennis pizza", Limit: 1}, "sport1")
		w.finds(w, "u", &store.SearchOptions{Query: "pizza", Offset: 1}, "food2")
		w.finds(w, "u", &store.SearchOptions{Query: "pizza", Filter: store.Eq("text", "I love pizza")}, "food1")
		w.finds(w, "u", &store.SearchOptions{Query: "piz"}, "")
		w.finds(w, "u", &store.SearchOptions{Query: "?!"}, "")
		w.finds(w, "u", &store.SearchOptions{Query: " "}, "food1 job1 food2 sport1")
	}},
	{"KeywordsMatchAnySpelling", func(w *fixture) {
		for key, text := range map[string]string{
			"accents": "Crème BRÛLÉE naïve", "greek": "ΟΔΟΣ", "han": "我喜欢吃比萨", "marks": "cafe\u0301", "number": "room 101b",
			"quotes": `say "hello" AND (NOT x*) ^y NEAR`, "apostrophe": "don't -stop", "long": strings.Repeat("x", 5000), "emoji": "🍕 time",
		} {
			w.put("a", key, object{"t": text}, store.PutOptions{Index: []string{"t"}})
		}
		for query, key := range map[string]string{
			"creme": "accents", "brulee": "accents", "οδος": "greek", "比萨": "han", "café": "marks", "101B": "number",
			`"hello"`: "quotes", "near*": "quotes", "(x": "quotes", "DON'T": "apostrophe", "stop": "apostrophe",
			strings.Repeat("X", 5000): "long", "🍕": "emoji", "🍔": "", "time": "emoji", "room'--": "number", "a:b": "", "%": "",
		} {
			w.finds(w, "a", &store.SearchOptions{Query: query}, key)
		}
	}},
	{"KeywordScoresIgnoreOtherNamespaces", func(w *fixture) {
		w.menu(w.Store)
		before := w.finds(w, "u/1", &store.SearchOptions{Query: "pizza plumber"}, "job1 food1 food2")
		for i := range 20 {
			w.put("u/2", fmt.Sprint(i), object{"text": "pizza pizza plumber"})
		}
		after := w.finds(w, "u/1", &store.SearchOptions{Query: "pizza plumber"}, "job1 food1 food2")
		for i := range before {
			want(w, "score of "+before[i].Key, after[i].Score, before[i].Score)
		}
	}},
	{"HybridScore", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}, Ranking: store.Hybrid})
		w.menu(s)
		items := w.finds(s, "u", &store.SearchOptions{Query: "food More", Explain: true}, "food2 food1 job1 sport1")
		first := items[0].Explanation
		want(w, "ranks of the first item", []int{first.SimilarityRank, first.KeywordRank}, []int{2, 1})
		want(w, "words of the first item", first.Terms, []string{"more"})
		// Of the two words of the query, one of the four items contains one, and none
		// contains the other, which therefore weighs more. A single word counts half if
		// it is a name in the query, and otherwise not at all.
		having, missing := math.Log1p((4-1+0.5)/(1+0.5)), math.Log1p((4-0+0.5)/(0+0.5))
		want(w, "score of the first item", items[0].Score, first.Similarity+0.8*(first.Keyword/(having+missing))*0.5)
		want(w, "score of the second item", items[1].Score, items[1].Explanation.Similarity)
		w.finds(s, "u", &store.SearchOptions{Query: "food More", Ranking: store.Keyword}, "food2")
		w.finds(s, "u", &store.SearchOptions{Query: "food More", Ranking: store.Semantic, Limit: 1}, "food1")
		w.finds(s, "u", &store.SearchOptions{Query: "food More", Limit: 1, Offset: 1}, "food1")
		items = w.finds(s, "u", &store.SearchOptions{Query: "more food", Explain: true}, "food1 food2 job1 sport1")
		want(w, "score of a single-word match", items[1].Score, items[1].Explanation.Similarity)
	}},
	{"EnglishFunctionWordsAreIgnored", func(w *fixture) {
		for key, text := range map[string]string{"box": "the box is on the shelf", "tea": "green tea", "gold": "de l'or et du thé", "who": "Who are you?"} {
			w.put("a", key, object{"t": text}, store.PutOptions{Index: []string{"t"}})
		}
		items := w.finds(w, "a", &store.SearchOptions{Query: "What is the tea on the table?", Explain: true}, "tea")
		want(w, "words", items[0].Explanation.Terms, []string{"tea"})
		// They count if there are no other words, and in other languages.
		w.finds(w, "a", &store.SearchOptions{Query: "who are you"}, "who")
		w.finds(w, "a", &store.SearchOptions{Query: "thé ou or"}, "gold box")
	}},
	{"WordFormsMatchWithinLanguage", func(w *fixture) {
		for key, text := range map[string]string{"walk": "Ann walked home", "city": "two cities", "run": "running shoes", "han": "我喜欢吃比萨",
			"zoe": "Zoës Müsli", "katze": "Die Katzen schlafen auf dem Sofa", "ville": "Il habite dans les grandes villes", "cat": "고양이가 잔다",
			"kana": "ﾊﾟﾝが好き"} {
			w.put("a", key, object{"t": text}, store.PutOptions{Index: []string{"t"}})
		}
		for query, key := range map[string]string{"walking": "walk", "city": "city", "where does Ann walk?": "walk", "runs": "run", "比萨": "han",
			"zoes musli": "zoe", "wo ist die Katze": "katze", "Katzen": "katze", "une grande ville": "ville", "villes": "ville", "고양이": "cat",
			"고양이는": "cat", "パン": "kana",
			"das ist walking": "", // the query is German, and the text is English
		} {
			w.finds(w, "a", &store.SearchOptions{Query: query}, key)
		}
		items := w.finds(w, "a", &store.SearchOptions{Query: "was Ann walking home", Explain: true}, "walk")
		want(w, "words", items[0].Explanation.Terms, []string{"ann", "home", "walking"})
		s := w.with(store.Options{English: true})
		w.finds(s, "a", &store.SearchOptions{Query: "das walking"}, "walk") // the first search reindexes the items
		w.finds(w, "a", &store.SearchOptions{Query: "villes"}, "ville")
	}},
	{"HybridIgnoresFrequentWords", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}, Ranking: store.Hybrid})
		w.ok(s.Put(w.Context(), ns("u"), "near", object{"t": "pizza"}, nil))
		for i := range 70 {
			w.ok(s.Put(w.Context(), ns("u"), fmt.Sprint(i), object{"t": fmt.Sprint("tennis on the lawn, game ", i)}, nil))
		}
		w.finds(s, "u", &store.SearchOptions{Query: "what is the food on the menu", Limit: 1}, "near")
	}},
	{"HybridFindsDistantKeywordMatches", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}, Ranking: store.Hybrid})
		w.ok(s.Put(w.Context(), ns("u"), "far", object{"t": "Zoë plays tennis"}, nil))
		for i := range 120 {
			w.ok(s.Put(w.Context(), ns("u"), fmt.Sprint(i), object{"t": fmt.Sprint("pizza ", i)}, nil))
		}
		items := w.finds(s, "u", &store.SearchOptions{Query: "food Zoe", Limit: 1, Explain: true}, "far")
		want(w, "semantic rank", items[0].Explanation.SimilarityRank, 0)
	}},
	{"LongQueryUsesEndsAndRareWords", func(w *fixture) {
		w.menu(w.Store)
		var log strings.Builder
		for i := range 1000 {
			fmt.Fprint(&log, " line ", i)
		}
		w.put("u/1", "log", object{"text": log.String()}, store.PutOptions{Index: []string{"text"}})
		find := func(query string, o store.SearchOptions) []*store.Item {
			o.Query, o.Explain = query, true
			return must(w.Search(w.Context(), nil, &o))(w)
		}
		items := find("Who is a plumber?"+strings.Repeat(log.String(), 100)+" tennis?", store.SearchOptions{})
		want(w, "items found by the ends", keys(items), "log job1 sport1")
		if n := len(items[0].Explanation.Terms); n < 100 || n > 128 {
			w.Errorf("search uses %d words of the query", n)
		}
		// A word that occurs once counts even if it is in the middle.
		items = find(log.String()+" pasta "+log.String(), store.SearchOptions{Filter: store.Exists("about")})
		want(w, "items found by a rare word", keys(items), "food2")
	}},
	{"EqualScoresRankNewestFirst", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		for i := range 30 {
			w.ok(s.Put(w.Context(), ns(fmt.Sprint("u/", i%3)), fmt.Sprint(i), object{"t": "pizza"}, nil))
		}
		w.finds(s, "u", &store.SearchOptions{Query: "pizza", Limit: 3}, "29 28 27")
		w.finds(s, "u", &store.SearchOptions{Query: "pizza", Limit: 3, Offset: 27}, "2 1 0")
		w.finds(s, "u", &store.SearchOptions{Query: "pizza", Limit: 3, Ranking: store.Keyword}, "29 28 27")
	}},
	{"UpdatesReplaceIndexEntries", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		w.menu(s)
		w.ok(s.Put(w.Context(), ns("u/1"), "food1", object{"text": "tennis and swim"}, nil))
		for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
			w.finds(s, "u", &store.SearchOptions{Query: "love pizza", Limit: 1, Ranking: ranking}, "food2")
		}
		w.finds(s, "u", &store.SearchOptions{Query: "sport", Limit: 1}, "food1")
		w.delete("u/1", "food1")
		for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
			items := must(s.Search(w.Context(), nil, &store.SearchOptions{Query: "tennis swim", Ranking: ranking}))(w)
			if slices.ContainsFunc(items, func(i *store.Item) bool { return i.Key == "food1" }) {
				w.Errorf("ranking %d found a deleted item", ranking)
			}
		}
	}},
	{"NoIndexHidesFromQueries", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}, Fields: []string{"text"}})
		w.ok(s.Put(w.Context(), ns("u"), "hidden", object{"text": "pizza", "v": 1}, &store.PutOptions{NoIndex: true}))
		w.ok(s.Put(w.Context(), ns("u"), "no text", object{"v": 1}, nil))
		w.ok(s.Put(w.Context(), ns("u"), "seen", object{"text": "pizza"}, nil))
		for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
			w.finds(s, "u", &store.SearchOptions{Query: "pizza", Ranking: ranking}, "seen")
		}
		w.finds(s, "u", &store.SearchOptions{Filter: store.Eq("v", 1)}, "hidden no text")
		w.get("u", "hidden")
		w.ok(s.Put(w.Context(), ns("u"), "seen", object{"text": "pizza"}, &store.PutOptions{NoIndex: true}))
		w.finds(s, "u", &store.SearchOptions{Query: "pizza"}, "")
	}},
	{"QueriesAndDocumentsEmbedSeparately", func(w *fixture) {
		var documents, queries []string
		// said returns and clears the recorded texts.
		said := func() [2][]string {
			out := [2][]string{documents, queries}
			documents, queries = nil, nil
			return out
		}
		s := w.with(store.Options{Embedder: purposes{topics{}, &documents, &queries}, Fields: []string{"text"}, Ranking: store.Hybrid})
		w.ok(s.Put(w.Context(), ns("u"), "food", object{"text": "pizza"}, nil))
		w.ok(s.Put(w.Context(), ns("u"), "job", object{"text": "plumber"}, nil))
		want(w, "texts of puts", said(), [2][]string{{"pizza", "plumber"}})
		semantic := &store.SearchOptions{Query: "pizza", Limit: 1, Ranking: store.Semantic}
		w.finds(s, "u", semantic, "job")
		w.finds(s, "u", semantic, "job")
		want(w, "texts of two equal searches", said(), [2][]string{nil, {"pizza"}})
		w.finds(s.AsOf(w.clock.Now()), "u", &store.SearchOptions{Query: "eat", Limit: 1, Ranking: store.Semantic}, "job")
		must(s.Search(w.Context(), ns("u"), &store.SearchOptions{Query: "hungry"}))(w)
		must(s.Search(w.Context(), ns("u"), &store.SearchOptions{Query: "swim", Ranking: store.Keyword}))(w)
		want(w, "texts of searches", said(), [2][]string{nil, {"eat", "hungry"}})
		w.finds(s, "u", &store.SearchOptions{Query: "food", Document: true, Limit: 1, Ranking: store.Semantic}, "food")
		want(w, "texts of a search for a document", said(), [2][]string{{"food"}})
		must(s.Batch(w.Context(),
			store.PutOp{Namespace: ns("u"), Key: "sport", Value: object{"text": "tennis"}},
			store.SearchOp{Prefix: ns("u"), SearchOptions: store.SearchOptions{Query: "tennis"}}))(w)
		want(w, "texts of a batch", said(), [2][]string{{"tennis"}, {"tennis"}})
		must(s.Embed(w.Context(), "office"))(w)
		want(w, "texts of Embed", said(), [2][]string{{"office"}})
		s = w.with(store.Options{Embedder: purposes{topics{model: "2"}, &documents, &queries}, Fields: []string{"text"}})
		want(w, "reindexed versions", must(s.Reindex(w.Context()))(w), 3)
		want(w, "texts of Reindex", said(), [2][]string{{"pizza", "plumber", "tennis"}})
		w.finds(s, "u", semantic, "job")
		want(w, "texts of a search after Reindex", said(), [2][]string{nil, {"pizza"}})
	}},
	{"ItemScoresByBestText", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		w.ok(s.Put(w.Context(), ns("u"), "mixed", object{"notes": []string{"tennis", "pizza", "plumber"}}, &store.PutOptions{Index: []string{"notes[*]"}}))
		w.ok(s.Put(w.Context(), ns("u"), "food", object{"t": "pizza tennis"}, &store.PutOptions{Index: []string{"t", "$"}}))
		items := w.finds(s, "u", &store.SearchOptions{Query: "food", Explain: true}, "mixed food")
		want(w, "field", items[0].Explanation.Field, "notes[*].1")
		want(w, "field", items[1].Explanation.Field, "t")
	}},
	{"ManyMatchesKeepMostTerms", func(w *fixture) {
		var ops []store.Op
		for i := range store.MaxMatches + 20 {
			text := "common"
			if i == 3 {
				text = "common rare"
			}
			ops = append(ops, store.PutOp{Namespace: ns("u"), Key: fmt.Sprint(i), Value: object{"t": text}, PutOptions: store.PutOptions{Index: []string{"t"}}})
		}
		must(w.Batch(w.Context(), ops...))(w)
		w.finds(w, "u", &store.SearchOptions{Query: "rare common", Limit: 2}, "3 1019")
		all := must(w.Search(w.Context(), nil, &store.SearchOptions{Query: "rare common", Limit: 5000}))(w)
		want(w, "number of matches", len(all), store.MaxMatches)
		want(w, "last match", all[len(all)-1].Key, "21")
	}},
	{"SelectiveFilterInManyItems", func(w *fixture) {
		// Items that must be skipped, here by a filter, must not reduce the number of
		// results.
		s := w.with(store.Options{Embedder: store.NewHashEmbedder(32)})
		var ops []store.Op
		for i := range 600 {
			ops = append(ops, store.PutOp{Namespace: ns(fmt.Sprint("u/", i%7)), Key: fmt.Sprint(i), Value: object{"t": fmt.Sprint("note ", i), "odd": i%100 == 99}})
		}
		must(s.Batch(w.Context(), ops...))(w)
		for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
			items := must(s.Search(w.Context(), ns("u"), &store.SearchOptions{Query: "note", Filter: store.Eq("odd", true), Ranking: ranking}))(w)
			if len(items) != 6 {
				w.Errorf("ranking %d found %v", ranking, names(items))
			}
		}
	}},
	{"ExplanationOnlyOnRequest", func(w *fixture) {
		w.menu(w.Store)
		if e := w.finds(w, "", &store.SearchOptions{Query: "plumber"}, "job1")[0].Explanation; e != nil {
			w.Errorf("%+v", e)
		}
	}},
	{"InvalidEmbeddingWritesNothing", func(w *fixture) {
		for name, e := range map[string]broken{
			"few":       {vectors: [][]float32{}},
			"many":      {vectors: [][]float32{{1, 0}, {1, 0}}},
			"short":     {vectors: [][]float32{{1}}},
			"NaN":       {vectors: [][]float32{{1, float32(math.NaN())}}},
			"infinite":  {vectors: [][]float32{{1, float32(math.Inf(-1))}}},
			"an error":  {err: errBroken},
			"no vector": {vectors: [][]float32{nil}},
		} {
			s := w.with(store.Options{Embedder: e})
			err := s.Put(w.Context(), ns("u"), "k", object{"t": "x"}, nil)
			if _, ok := errors.AsType[*store.EmbedError](err); !ok || e.err != nil && !errors.Is(err, errBroken) {
				w.Errorf("%s: %v", name, err)
			}
			w.finds(w, "", nil, "")
			if _, err := s.Search(w.Context(), nil, &store.SearchOptions{Query: "x"}); err == nil {
				w.Errorf("%s: search succeeded", name)
			}
		}
	}},
}
