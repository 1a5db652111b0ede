package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/ollama"
	"github.com/treadle-go/treadle/llm/openai"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

const answersUsage = `usage: bench answers [flags] file.json

Measures memory from end to end: for each question of LoCoMo, the Recaller finds memories, a
model answers from them, and a model judges the answer. The file is locomo10.json of the
authors. The models are named like openai:gpt-5-mini or ollama:qwen3, and OPENAI_API_KEY,
OPENAI_BASE_URL, and OLLAMA_HOST configure them.
`

// examiner asks the questions of conversations.
type examiner struct {
	model, judge llm.Model
	cost         func(llm.Message) float64
	parallel     int
	limit        int // questions per conversation; 0 means all
	progress     io.Writer

	mu sync.Mutex
	by map[string]*examined
}

// examined collects the results of the questions of one category.
type examined struct {
	questions, right int
	recalled         int       // tokens of blocks
	used             llm.Usage // of the answers
	judged           llm.Usage
	cost             float64 // of both; NaN if the price of a model is unknown
}

func runAnswers(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s locomoSettings
	flags := flag.NewFlagSet("bench answers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, answersUsage)
		flags.PrintDefaults()
	}
	s.searchFlags(flags)
	model := flags.String("model", "openai:gpt-5-mini", "`model` that answers")
	judge := flags.String("judge", "", "`model` that judges (default the model that answers)")
	x := &examiner{cost: catalog.Default().Cost, progress: stderr, by: map[string]*examined{}}
	flags.IntVar(&x.limit, "n", 0, "`number` of questions per conversation, evenly spaced; 0 means all")
	flags.IntVar(&x.parallel, "parallel", 4, "`number` of questions at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 || x.parallel < 1 || x.limit < 0 {
		return fmt.Errorf("answers: %d files, -parallel %d, -n %d: pass one file and positive numbers", flags.NArg(), x.parallel, x.limit)
	}
	conversations, err := readLocomo(flags.Arg(0))
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(conversations, func(c conversation) bool {
		return slices.ContainsFunc(c.Questions, func(q question) bool { return q.Answer != "" })
	}) {
		return fmt.Errorf("answers: %s has no answers: pass locomo10.json of the authors", flags.Arg(0))
	}
	if x.model, err = openModel(*model); err != nil {
		return err
	}
	if x.judge, err = openModel(cmp.Or(*judge, *model)); err != nil {
		return err
	}
	embedder, err := locomoEmbedder(ctx, s, stderr)
	if err != nil {
		return err
	}
	for _, c := range conversations {
		fmt.Fprintf(stderr, "answers: conversation %s\n", c.User)
		if err := x.examine(ctx, &c, s, embedder); err != nil {
			return fmt.Errorf("answers: conversation %s: %w", c.User, err)
		}
	}
	return x.print(stdout)
}

func openModel(name string) (llm.Model, error) {
	return llm.Open(name, openai.Provider(nil), ollama.Provider(nil))
}

// examine asks the questions of a conversation.
func (x *examiner) examine(ctx context.Context, c *conversation, s locomoSettings, embedder store.Embedder) error {
	kept, space, err := c.fill(ctx, s, embedder)
	if err != nil {
		return err
	}
	reranker, err := s.openReranker()
	if err != nil {
		return err
	}
	opts := &memory.RecallerOptions{Store: kept, Namespace: space, Now: func() time.Time { return c.Now }, Reranker: reranker}
	recaller, err := memory.NewRecaller(opts)
	if err != nil {
		return err
	}
	questions := make(chan question)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for range x.parallel {
		workers.Go(func() {
			for q := range questions {
				if err := x.ask(ctx, recaller, c.Now, q); err != nil {
					cancel(fmt.Errorf("question %q: %w", q.Text, err))
				}
			}
		})
	}
	for _, q := range sample(c.Questions, x.limit) {
		select {
		case questions <- q:
		case <-ctx.Done():
		}
	}
	close(questions)
	workers.Wait()
	return context.Cause(ctx)
}

// sample returns n questions in equal distances; 0 means all.
func sample(all []question, n int) []question {
	if n == 0 || n >= len(all) {
		return all
	}
	out := make([]question, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}

// unknownAnswer is the right answer if the conversation does not answer the question.
const unknownAnswer = "not mentioned in the conversation"

func (x *examiner) ask(ctx context.Context, r *memory.Recaller, now time.Time, q question) error {
	got, err := r.Recall(ctx, llm.User(q.Text))
	if err != nil {
		return err
	}
	answer, err := llm.Generate(ctx, x.model,
		llm.System("You answer questions about two people from memories of their conversations. Today is "+now.Format("Monday, 2 January 2006")+
			". Answer in one short phrase. Convert relative times to dates. If the memories do not contain the answer, reply: "+unknownAnswer+".\n\n"+got.Block),
		llm.User(q.Text))
	if err != nil {
		return err
	}
	want := cmp.Or(q.Answer, unknownAnswer)
	verdict, err := llm.Generate(ctx, x.judge,
		llm.System("You grade answers. Reply with the one word CORRECT if the given answer contains the expected answer or means the same, in any words "+
			"or date format, and otherwise with the one word WRONG. An answer that contradicts the expected answer or adds a wrong fact is WRONG."),
		llm.User(fmt.Sprintf("Question: %s\nExpected answer: %s\nGiven answer: %s", q.Text, want, answer.Text())))
	if err != nil {
		return err
	}
	right, err := parseVerdict(verdict.Text())
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, category := range []string{q.Category, allCategories} {
		e := x.by[category]
		if e == nil {
			e = &examined{}
			x.by[category] = e
		}
		e.questions++
		e.recalled += got.Tokens
		if right {
			e.right++
		}
		e.used, e.judged = e.used.Add(usageOf(answer)), e.judged.Add(usageOf(verdict))
		e.cost += x.cost(answer) + x.cost(verdict)
	}
	return nil
}

// parseVerdict reads the reply of the judge.
func parseVerdict(text string) (right bool, err error) {
	text = strings.ToUpper(text)
	correct, wrong := strings.Contains(text, "CORRECT"), strings.Contains(text, "WRONG")
	if correct == wrong || strings.Contains(text, "INCORRECT") {
		return false, fmt.Errorf("the judge replied %.200q, want CORRECT or WRONG", text)
	}
	return correct, nil
}

func usageOf(m llm.Message) llm.Usage {
	if m.Usage == nil {
		return llm.Usage{}
	}
	return *m.Usage
}

func (x *examiner) print(w io.Writer) error {
	if len(x.by) == 0 {
		return errors.New("answers: no questions")
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "category\tquestions\tcorrect\t± 95 %\tblock\tinput\toutput\tjudge\tcost")
	names := slices.SortedFunc(maps.Keys(x.by), func(a, b string) int {
		return cmp.Or(-cmp.Compare(btoi(a == allCategories), btoi(b == allCategories)), cmp.Compare(a, b))
	})
	for _, name := range names {
		e := x.by[name]
		n := float64(e.questions)
		share := float64(e.right) / n
		cost := "unknown"
		if !math.IsNaN(e.cost) {
			cost = fmt.Sprintf("$%.4f", e.cost)
		}
		fmt.Fprintf(table, "%s\t%d\t%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\n", name, e.questions, share, 1.96*math.Sqrt(share*(1-share)/n),
			float64(e.recalled)/n, float64(e.used.Input)/n, float64(e.used.Output)/n, float64(e.judged.Input+e.judged.Output)/n, cost)
	}
	fmt.Fprintln(table, "\t\t\t\ttokens per question\t\t\t\tin all")
	return table.Flush()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
