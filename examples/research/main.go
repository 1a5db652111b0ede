// Research splits a question into topics, researches them concurrently, and writes a report.
// The graph is built by hand: Send creates one task per topic.
//
//	go run ./examples/research "owls"
package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
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
	treadle.AddNode(b, "plan", func(ctx context.Context, s state) (planned, error) {
		answer, err := llm.Generate(ctx, model, llm.User("List three topics, one per line, to research: "+s.Question))
		return planned{strings.Split(strings.TrimSpace(answer.Text()), "\n")}, err
	})
	research := treadle.AddNode(b, "research", func(ctx context.Context, topic string) (researched, error) {
		answer, err := llm.Generate(ctx, model, llm.User("Tell one fact about: "+topic))
		return researched{reduce.List[finding]{{topic, answer.Text()}}}, err
	}, treadle.Retry(treadle.RetryPolicy{}))
	treadle.AddNode(b, "report", func(_ context.Context, s state) (reported, error) {
		var report strings.Builder
		for _, f := range s.Findings { // in the order of the topics, however long each took
			fmt.Fprintf(&report, "- %s: %s\n", f.Topic, f.Text)
		}
		return reported{report.String()}, nil
	})
	b.Edge(treadle.Start, "plan")
	b.Branch("plan", func(_ context.Context, s state) (next treadle.Goto, err error) {
		for _, topic := range s.Topics {
			next = append(next, research.Send(topic)...)
		}
		return next, nil
	}, "research")
	b.Edge("research", "report")
	return b.Compile(nil)
}

func main() {
	question := "owls"
	if len(os.Args) > 1 {
		question = os.Args[1]
	}
	model, err := models.Open(facts{})
	if err == nil {
		var g *treadle.Graph[state, state]
		if g, err = newGraph(model); err == nil {
			var out state
			out, err = g.Run(context.Background(), state{Question: question})
			fmt.Print(out.Report)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

// facts is the model used without an API key.
type facts struct{}

// Stream implements [llm.Model].
func (facts) Stream(_ context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		asked := req.Messages[len(req.Messages)-1].Text()
		instruction, about, _ := strings.Cut(asked, ": ")
		answer := about + " are studied by many."
		if strings.HasPrefix(instruction, "List") {
			answer = fmt.Sprintf("food of %[1]s\nenemies of %[1]s\nsongs about %[1]s", about)
		}
		yield(llm.Chunk{Content: answer, Stop: llm.StopEnd}, nil)
	}
}
