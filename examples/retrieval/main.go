// Retrieval answers questions from documents (retrieval-augmented generation): it stores
// passages with their embeddings in SQLite, finds the passages closest to the question, and
// lets the model answer from them.
//
//	go run ./examples/retrieval "how do owls fly?"
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

var documents = map[string]string{
	"owls.md/flight":  "Owls fly silently, because the edges of their feathers break up the air.",
	"owls.md/food":    "Owls eat mice, and swallow them whole.",
	"gophers.md/home": "Gophers live in tunnels that they dig themselves.",
}

var passages = store.Namespace{"passages"}

type passage struct {
	Text string `json:"text"`
}

type state struct {
	Question string
	Passages []string
	Answer   string
}

func newGraph(model llm.Model, index *store.Store) (*treadle.Graph[state, state], error) {
	b := treadle.New[state]("retrieval")
	treadle.AddNode(b, "retrieve", func(ctx context.Context, s state) (struct{ Passages []string }, error) {
		found, err := llm.Retrieve(ctx, "passages", s.Question, func(ctx context.Context, query string) ([]string, error) {
			return search(ctx, index, query)
		})
		return struct{ Passages []string }{found}, err
	})
	treadle.AddNode(b, "answer", func(ctx context.Context, s state) (struct{ Answer string }, error) {
		answer, err := llm.Generate(ctx, model,
			llm.System("Answer from these passages only, and name their sources:\n"+strings.Join(s.Passages, "\n")),
			llm.User(s.Question))
		return struct{ Answer string }{answer.Text()}, err
	})
	b.Sequence(treadle.Start, "retrieve", "answer")
	return b.Compile(nil)
}

func search(ctx context.Context, index *store.Store, query string) ([]string, error) {
	items, err := index.Search(ctx, passages, &store.SearchOptions{Query: query, Limit: 1})
	var found []string
	for _, item := range items {
		var p passage
		if err := item.Decode(&p); err != nil {
			return nil, err
		}
		found = append(found, item.Key+": "+p.Text)
	}
	return found, err
}

func run(ctx context.Context, question string) (err error) {
	model, err := models.Open(quote{})
	if err != nil {
		return err
	}
	db, err := sqlite.Open(":memory:", nil) // use a file to keep the embeddings
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	// The hash embedder compares words and needs no model; llm.OpenEmbedder opens one that
	// compares meanings.
	index, err := db.Store(&store.Options{Embedder: store.NewHashEmbedder(256)})
	if err != nil {
		return err
	}
	for key, text := range documents {
		if err := index.Put(ctx, passages, key, passage{text}, nil); err != nil {
			return err
		}
	}
	g, err := newGraph(model, index)
	if err != nil {
		return err
	}
	out, err := g.Run(ctx, state{Question: question})
	fmt.Println(out.Answer)
	return err
}

func main() {
	question := "how do owls fly?"
	if len(os.Args) > 1 {
		question = strings.Join(os.Args[1:], " ")
	}
	if err := run(context.Background(), question); err != nil {
		fmt.Fprintln(os.Stderr, "retrieval:", err)
		os.Exit(1)
	}
}

// quote is the model used without an API key: it repeats the passages.
type quote struct{}

// Stream implements [llm.Model].
func (quote) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		_, text, _ := strings.Cut(req.Messages[0].Text(), "\n")
		yield(llm.Chunk{Content: text, Stop: llm.StopEnd}, nil)
	}
}
