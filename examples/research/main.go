// Research splits a question into topics, researches them concurrently, and writes a report.
// The graph is built by hand: Send creates one task per topic.
//
//	go run ./examples/research "owls"
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/reduce"
)

type state struct {
	Question string
	Topics   []string
	Findings reduce.List[finding] // an update appends
	Report   string
}

type finding struct{ Topic, Text string }

type (
	planned    struct{ Topics []string }
	researched struct{ Findings reduce.List[finding] }
	reported   struct{ Report string }
)

func newGraph(model llm.Model) (*treadle.Graph[state, state], error) {
	b := treadle.New[state]("research")
	plan := treadle.AddNode(b, "plan", func(ctx context.Context, s state) (planned, error) {
		answer, err := llm.Generate(ctx, model, llm.User("List three topics, one per line, to research: "+s.Question))
		return planned{strings.Split(strings.TrimSpace(answer.Text()), "\n")}, err
	})
	research := treadle.AddNode(b, "research", func(ctx context.Context, topic string) (researched, error) {
		answer, err := llm.Generate(ctx, model, llm.User("Tell one fact about: "+topic))
		return researched{reduce.List[finding]{{topic, answer.Text()}}}, err
	}, treadle.Retry(treadle.RetryPolicy{}))
	report := treadle.AddNode(b, "report", func(_ context.Context, s state) (reported, error) {
		var text strings.Builder
		for _, f := range s.Findings { // in the order of the topics, however long each took
			fmt.Fprintf(&text, "- %s: %s\n", f.Topic, f.Text)
		}
		return reported{text.String()}, nil
	})
	b.Edge(treadle.Start, plan)
	treadle.AddBranch(b, plan, func(_ context.Context, s state) (treadle.Goto, error) {
		return treadle.SendEach(research, s.Topics), nil
	}, research)
	b.Edge(research, report)
	return b.Compile(nil)
}

func main() {
	question := "owls"
	if len(os.Args) > 1 {
		question = os.Args[1]
	}
	if err := run(context.Background(), question); err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, question string) error {
	model, err := models.Open(facts)
	if err != nil {
		return err
	}
	g, err := newGraph(model)
	if err != nil {
		return err
	}
	out, err := g.Run(ctx, state{Question: question})
	fmt.Print(out.Report)
	return err
}

// facts is the model used without an API key.
var facts = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	asked := req.Messages[len(req.Messages)-1].Text()
	instruction, about, _ := strings.Cut(asked, ": ")
	answer := about + " are studied by many."
	if strings.HasPrefix(instruction, "List") {
		answer = fmt.Sprintf("food of %[1]s\nenemies of %[1]s\nsongs about %[1]s", about)
	}
	return llm.Assistant(answer), nil
})
