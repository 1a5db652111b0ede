package retrieval_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing/fstest"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/store"
)

// docs is a folder with two pages and an image.
var docs = fstest.MapFS{
	"owls.md":    {Data: []byte("# Owls\n\n## Flight\n\nOwls fly silently.\n\n## Food\n\nOwls eat mice and voles.\n")},
	"gophers.md": {Data: []byte("# Gophers\n\nGophers dig tunnels and eat roots.\n")},
	"owl.png":    {Data: []byte("\x89PNG\x00")},
}

func openIndex() (*retrieval.Index, error) {
	s, err := store.NewMemory(&store.Options{History: 1})
	if err != nil {
		return nil, err
	}
	return retrieval.New(s, nil)
}

func indexOfDocs(ctx context.Context) (*retrieval.Index, error) {
	index, err := openIndex()
	if err != nil {
		return nil, err
	}
	_, err = index.Sync(ctx, retrieval.FS(docs, nil), nil)
	return index, err
}

func ExampleIndex_Sync() {
	ctx := context.Background()
	index, err := openIndex()
	if err != nil {
		panic(err)
	}
	report, err := index.Sync(ctx, retrieval.FS(docs, nil), &retrieval.SyncOptions{
		Workers:  1,
		Progress: func(p retrieval.Progress) { fmt.Println(p.Source, p.Status, p.Chunks) },
	})
	fmt.Println(report, err)
	// Output:
	// gophers.md added 1
	// owl.png skipped 0
	// owls.md added 2
	// 2 added, 0 updated, 0 unchanged, 0 deleted, 1 skipped, 0 failed; 3 chunks written
	// skipped "owl.png": binary file: it contains NUL bytes <nil>
}

func ExampleIndex_Search() {
	ctx := context.Background()
	index, err := indexOfDocs(ctx)
	if err != nil {
		panic(err)
	}
	hits, err := index.Search(ctx, "what do owls eat?", &retrieval.SearchOptions{
		Limit:  1,
		Filter: store.Eq("source", "owls.md"),
	})
	for _, h := range hits {
		fmt.Printf("%s, bytes %d to %d, %s\n%s", h.Place(), h.Start, h.End, strings.Join(h.Headings, " > "), h.Text)
	}
	fmt.Println(err)
	// Output:
	// owls.md:7, bytes 39 to 73, Owls > Food
	// ## Food
	//
	// Owls eat mice and voles.
	// <nil>
}

// A loader lists anything with names and contents, such as the rows of a table.
func ExampleLoader() {
	ctx := context.Background()
	articles := map[string]string{"article/1": "Owls fly silently.", "article/2": "Gophers dig tunnels."}
	load := retrieval.Loader(func(ctx context.Context) iter.Seq2[retrieval.Source, error] {
		return func(yield func(retrieval.Source, error) bool) {
			for name, text := range articles {
				source := retrieval.Source{
					Name: name,
					Read: func(context.Context) ([]byte, error) { return []byte(text), nil },
					Parse: func(_ context.Context, _ string, content []byte) ([]retrieval.Document, error) {
						return []retrieval.Document{{Text: string(content), Meta: map[string]any{"kind": "article"}}}, nil
					},
				}
				if !yield(source, nil) {
					return
				}
			}
		}
	})
	index, err := openIndex()
	if err != nil {
		panic(err)
	}
	if _, err := index.Sync(ctx, load, nil); err != nil {
		panic(err)
	}
	delete(articles, "article/2")
	report, err := index.Sync(ctx, load, nil)
	fmt.Println(report, err)
	// Output:
	// 0 added, 0 updated, 1 unchanged, 1 deleted, 0 skipped, 0 failed; 0 chunks written <nil>
}

// A graph that rewrites the question, searches for several queries, and cites.
func ExampleCite() {
	ctx := context.Background()
	index, err := indexOfDocs(ctx)
	if err != nil {
		panic(err)
	}
	writer := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
		return llm.Assistant("food of owls\nowls eat"), nil
	})
	model := llmtest.Func(func(context.Context, *llm.Request) (llm.Message, error) {
		return llm.Assistant(`Owls eat mice [1: "mice and voles"].`), nil
	})
	type state struct {
		llm.Chat
		Queries []string
		Hits    []retrieval.Hit
	}
	type answered struct{ Messages llm.Messages }
	b := treadle.New[state]("answers")
	treadle.AddNode(b, "rewrite", retrieval.Rewrite(writer, &retrieval.RewriteOptions{Queries: 3}))
	treadle.AddNode(b, "retrieve", index.Retrieve(nil))
	treadle.AddNode(b, "answer", func(ctx context.Context, s state) (answered, error) {
		passages := retrieval.Passages(s.Hits, 1)
		prompt := llm.System("Answer from these passages, and cite them as [1]:\n" + retrieval.Prompt(passages))
		answer, err := llm.Generate(ctx, model, append([]llm.Message{prompt}, s.Messages...)...)
		if err != nil {
			return answered{}, err
		}
		answer, err = retrieval.Cite(answer, passages) // or an error that lists the uncited sentences
		return answered{llm.Messages{answer}}, err
	})
	b.Sequence(treadle.Start, "rewrite", "retrieve", "answer")
	g, err := b.Compile(nil)
	if err != nil {
		panic(err)
	}
	out, err := g.Run(ctx, state{Chat: llm.Chat{Messages: llm.Messages{llm.User("What do they eat?")}}})
	if err != nil {
		panic(err)
	}
	answer := out.Messages[len(out.Messages)-1]
	fmt.Println(answer.Text())
	for _, c := range retrieval.CitationsOf(answer) {
		fmt.Printf("[%d] %s, bytes %d to %d: %s\n", c.Number, c.Place(), c.Start, c.End, c.Text)
	}
	fmt.Println(index.Verify(ctx, retrieval.CitationsOf(answer)...))
	// Output:
	// Owls eat mice [1: "mice and voles"].
	// [1] owls.md:9, bytes 57 to 71: mice and voles
	// <nil>
}

// The model must correct an answer without citations.
func ExampleMiddleware() {
	ctx := context.Background()
	index, err := indexOfDocs(ctx)
	if err != nil {
		panic(err)
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("search_documents", map[string]string{"query": "how do owls fly"})),
		llmtest.Say("Owls fly silently."),
		llmtest.Say("Owls fly silently [1]."),
	)
	g, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)}})
	if err != nil {
		panic(err)
	}
	out, err := g.Run(ctx, agent.Ask("How do owls fly?"))
	fmt.Println(agent.Answer(out), err)
	// Output: Owls fly silently [1]. <nil>
}

func ExampleIndex_Evaluate() {
	ctx := context.Background()
	index, err := indexOfDocs(ctx)
	if err != nil {
		panic(err)
	}
	m, err := index.Evaluate(ctx, []retrieval.Question{
		{Query: "How do owls fly?", Sources: []string{"owls.md"}},
		{Query: "Who digs tunnels?", Sources: []string{"gophers.md"}},
	}, &retrieval.SearchOptions{Limit: 10})
	fmt.Printf("recall %.2f, MRR %.2f, nDCG %.2f, %v\n", m.Recall, m.MRR, m.NDCG, err)
	// Output: recall 1.00, MRR 1.00, nDCG 1.00, <nil>
}
