package agents_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A conversation that grows is summarized: the first time from nothing, then by
// extending the summary that there is. The two newest messages stay.
//
// Sample: D12.
func Example_summarizeConversation() {
	type State struct {
		llm.Chat
		Summary string `json:"summary"`
	}
	type summarized struct {
		Summary  string
		Messages llm.Messages
	}
	hi, hello := llm.User("Hi, I am Ada"), llm.Assistant("Hello Ada")
	owls, like := llm.User("I like owls"), llm.Assistant("So do I")
	model := llmtest.NewScript(
		llmtest.Say("Ada likes owls.", llmtest.Heard(hi, hello, owls, like, llm.User("Create a summary of the conversation above:"))),
		llmtest.Say("Ada likes owls and cats.", llmtest.Heard(owls, like, llm.User("And cats"), llm.Assistant("Sure"),
			llm.User("This is a summary of the conversation to date: Ada likes owls.\n\nExtend the summary by taking into account the new messages above:"))),
	)
	b := treadle.New[State]("summary")
	treadle.AddNode(b, "summarize_conversation", func(ctx context.Context, s State) (summarized, error) {
		prompt := "Create a summary of the conversation above:"
		if s.Summary != "" {
			prompt = "This is a summary of the conversation to date: " + s.Summary + "\n\nExtend the summary by taking into account the new messages above:"
		}
		m, err := llm.Generate(ctx, model, append(s.Messages, llm.User(prompt))...)
		if err != nil {
			return summarized{}, err
		}
		var old llm.Messages
		for _, m := range s.Messages[:len(s.Messages)-2] {
			old = append(old, llm.Remove(m.ID))
		}
		return summarized{m.Text(), old}, nil
	})
	b.Edge(treadle.Start, "summarize_conversation")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	for _, said := range []llm.Messages{{hi, hello, owls, like}, {llm.User("And cats"), llm.Assistant("Sure")}} {
		out, err := thread.Run(context.Background(), State{Chat: llm.Chat{Messages: said}})
		fmt.Println(out.Summary, err)
		show(out.Messages)
	}
	// Output:
	// Ada likes owls. <nil>
	// human: I like owls
	// ai: So do I
	// Ada likes owls and cats. <nil>
	// human: And cats
	// ai: Sure
}
