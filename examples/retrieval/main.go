// Retrieval answers questions from the pages in docs/ and cites them. It keeps an index of the
// pages in SQLite, up to date, and works offline. Without the sentence encoder, it compares
// spelling instead of meaning.
//
//	go run ./cmd/treadle encoder                             # install the sentence encoder, once
//	go run ./examples/retrieval "How do I erase a person?"   # ask
//	go run ./examples/retrieval -evaluate                    # how well are pages found?
//	go run ./examples/retrieval -serve -- --port 2024        # serve the agent, with the studio
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/minilm"
)

type settings struct {
	folder, db      string
	evaluate, serve bool
	rest            []string
}

func parse(args []string) (s settings, err error) {
	flags := flag.NewFlagSet("retrieval", flag.ContinueOnError)
	flags.StringVar(&s.folder, "folder", "docs", "the folder to index")
	flags.StringVar(&s.db, "db", "retrieval.db", "the SQLite file of the index")
	flags.BoolVar(&s.evaluate, "evaluate", false, "measure how well the pages that answer questions are found")
	flags.BoolVar(&s.serve, "serve", false, "serve the agent over HTTP, with the studio at /studio/")
	err = flags.Parse(args)
	s.rest = flags.Args()
	return s, err
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(s.db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	embedder, err := openEmbedder()
	if err != nil {
		return err
	}
	index, err := retrieval.Open(db, &retrieval.Options{Embedder: embedder})
	if err != nil {
		return err
	}
	isPage := func(path string) bool { return strings.HasSuffix(path, ".md") }
	report, err := index.Sync(ctx, retrieval.Dir(s.folder, &retrieval.FilesOptions{Match: isPage}), nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, report)
	if s.evaluate {
		return evaluate(ctx, index, out)
	}
	answers, err := newAgent(index)
	if err != nil {
		return err
	}
	if s.serve {
		return standalone.Serve(ctx, s.rest, out, &server.Options{Studio: true}, answers)
	}
	question := cmp.Or(strings.Join(s.rest, " "), "How do I erase a person?")
	return ask(ctx, answers, question, out)
}

// openEmbedder returns the sentence encoder that "treadle encoder" installs, or else an
// embedder that compares spelling and needs no model.
func openEmbedder() (store.Embedder, error) {
	encoder, err := minilm.Find()
	if errors.Is(err, fs.ErrNotExist) {
		return store.NewHashEmbedder(256), nil
	}
	return encoder, err
}

func newAgent(index *retrieval.Index) (*treadle.Graph[agent.State, agent.State], error) {
	model, err := models.Open(quote)
	if err != nil {
		return nil, err
	}
	return agent.New(model, &agent.Options{
		Name:       "answers",
		Prompt:     "You answer questions about Treadle.",
		Middleware: []*agent.Middleware{retrieval.Middleware(index, nil)},
	})
}

func ask(ctx context.Context, answers *treadle.Graph[agent.State, agent.State], question string, out io.Writer) error {
	state, err := answers.Run(ctx, agent.Ask(question))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, agent.Answer(state))
	for _, c := range retrieval.CitationsOf(state.Messages[len(state.Messages)-1]) {
		fmt.Fprintf(out, "[%d] %s, bytes %d to %d\n", c.Number, c.Place(), c.Start, c.End)
	}
	return nil
}

// questions are questions with the pages that answer them.
var questions = []retrieval.Question{
	{Query: "How do I erase everything stored about a person?", Sources: []string{"privacy.md"}},
	{Query: "How do I undo the steps of a workflow when a later one fails?", Sources: []string{"sagas.md"}},
	{Query: "Which environment variable contains the key of OpenAI?", Sources: []string{"providers.md"}},
	{Query: "How do several server processes share one Postgres?", Sources: []string{"scale.md"}},
	{Query: "What happens to running threads if I rename a node?", Sources: []string{"changing-graphs.md"}},
	{Query: "How do I wait for three days without holding a goroutine?", Sources: []string{"time.md"}},
}

// evaluate compares the rankings.
func evaluate(ctx context.Context, index *retrieval.Index, out io.Writer) error {
	for _, r := range []struct {
		name    string
		ranking store.Ranking
	}{{"keyword", store.Keyword}, {"semantic", store.Semantic}, {"hybrid", store.Hybrid}} {
		m, err := index.Evaluate(ctx, questions, &retrieval.SearchOptions{Limit: 10, Ranking: r.ranking})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-8s R@10 %.2f  MRR %.2f  nDCG@10 %.2f\n", r.name, m.Recall, m.MRR, m.NDCG)
	}
	return nil
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "retrieval:", err)
		os.Exit(1)
	}
}

// quote is the model used without an API key: it searches, and quotes the start of the best
// passage.
var quote = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.RoleHuman {
		args, err := json.Marshal(map[string]string{"query": last.Text()})
		return llm.Assistant("", llm.ToolCall{ID: "search", Name: "search_documents", Args: args}), err
	}
	passages := retrieval.PassagesOf(req.Messages)
	if len(passages) == 0 {
		return llm.Assistant("I could not find this in the documents."), nil
	}
	best := passages[len(passages)-1]
	for _, p := range passages {
		if p.Score > best.Score {
			best = p
		}
	}
	words := strings.Fields(strings.NewReplacer(`"`, " ", "[", " ", "]", " ").Replace(firstLine(best.Text)))
	return llm.Assistant(fmt.Sprintf("The page %s says: %s [%d].", best.Source, strings.Join(words, " "), best.Citation)), nil
})

// firstLine returns the first sentence of a passage, in its first line that is not a heading.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			line, _, _ = strings.Cut(line, ". ")
			return strings.TrimRight(line, ".:?!")
		}
	}
	return "nothing"
}
