package memory_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/summary"
)

// The poems are long enough for a summary to become due.
var (
	catPoem = "Soft paws upon the window sill,\n" + strings.Repeat("the cat sits watching, warm and still,\n", 11) + "and purrs."
	dogPoem = "A wagging tail beside the door,\n" + strings.Repeat("the dog has waited hours, and more,\n", 11) + "and barks."
)

// bobsModel answers Bob's four questions, the last from its context.
func bobsModel() *llmtest.Script {
	return llmtest.NewScript(
		llmtest.Say("Hi Bob!"),
		llmtest.Say(catPoem),
		llmtest.Say(dogPoem),
		llmtest.Say("Your name is Bob.", knows("Bob")),
	)
}

// knows expects a text in the conversation.
func knows(what string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		for _, m := range r.Messages {
			if strings.Contains(m.Text(), what) {
				return nil
			}
		}
		return fmt.Errorf("nobody said %q", what)
	}
}

func summaryModel() *llmtest.Script {
	return llmtest.NewScript(llmtest.Say("Bob introduced himself and asked for poems about cats and dogs."))
}

// limits returns the limits of the examples. The model may use as many tokens as are
// reserved for the summary.
func limits(model llm.Model) *summary.Options {
	return &summary.Options{
		Model:                  llm.With(model, llm.MaxTokens(128)),
		MaxTokens:              256,
		MaxTokensBeforeSummary: 256,
		MaxSummaryTokens:       128,
	}
}

// talk has bob's conversation on one thread and prints the last answer.
func talk[S any](g *treadle.Graph[S, S], in func(llm.Messages) S, out func(S) llm.Messages) {
	thread := g.Thread("1")
	var state S
	for _, text := range []string{"hi, my name is bob", "write a short poem about cats", "now do the same but for dogs", "what's my name?"} {
		var err error
		if state, err = thread.Run(context.Background(), in(llm.Messages{llm.User(text)})); err != nil {
			fmt.Println(err)
			return
		}
	}
	ms := out(state)
	fmt.Printf("%d messages are kept, the last is: %s\n", len(ms), ms[len(ms)-1].Text())
}

// printLast prints the model's last input.
func printLast(model *llmtest.Script) {
	fmt.Println("the model was given:")
	requests := model.Requests()
	for _, m := range requests[len(requests)-1].Messages {
		fmt.Printf("  %s: %s\n", m.Role, said(m))
	}
}

// said returns the text or the calls of a message.
func said(m llm.Message) string {
	text := strings.ReplaceAll(m.Text(), "\n", "")
	for _, call := range m.ToolCalls {
		text += call.Name + string(call.Args)
	}
	return text
}

// SummaryState is a conversation and the summary of its beginning.
type SummaryState struct {
	llm.Chat
	Summary summary.Running `json:"summary"`
}

// A chatbot summarizes before it asks the model. The state keeps the whole
// conversation; only the model sees the short one.
//
// Sample: E7.
func Example_summarizingChatbot() {
	model, summarizer := bobsModel(), summaryModel()
	opts := limits(summarizer)
	// Some providers can count. Here each word is a token and a half.
	opts.Count = func(_ context.Context, ms []llm.Message) (tokens int, err error) {
		for _, m := range ms {
			tokens += 3 * len(strings.Fields(m.Text())) / 2
		}
		return tokens, nil
	}
	talkOn(summarizingGraph(model, opts))
	printLast(model)
	// Output:
	// 8 messages are kept, the last is: Your name is Bob.
	// the model was given:
	//   system: Summary of the conversation so far: Bob introduced himself and asked for poems about cats and dogs.
	//   human: what's my name?
}

// summarizingGraph returns a chatbot with one node. It gives the model the result of
// [summary.Summarize], and keeps the running summary for the next turn.
func summarizingGraph(model llm.Model, opts *summary.Options) *treadle.Graph[SummaryState, SummaryState] {
	type update struct {
		Messages llm.Messages
		Summary  summary.Running
	}
	b := treadle.New[SummaryState]("chatbot")
	treadle.AddNode(b, "call_model", func(ctx context.Context, s SummaryState) (update, error) {
		short, err := summary.Summarize(ctx, s.Messages, s.Summary, opts)
		if err != nil {
			return update{}, err
		}
		answer, err := llm.Generate(ctx, model, short.Messages...)
		return update{llm.Messages{answer}, short.Running}, err
	})
	b.Edge(treadle.Start, "call_model")
	return treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
}

func talkOn(g *treadle.Graph[SummaryState, SummaryState]) {
	talk(g, func(ms llm.Messages) SummaryState { return SummaryState{Chat: llm.Chat{Messages: ms}} },
		func(s SummaryState) llm.Messages { return s.Messages })
}

// The same with a separate node. The node that calls the model reads only the shortened
// conversation, which is private to the two nodes. The whole history stays in messages.
//
// Sample: E8.
func Example_summaryNode() {
	model, summarizer := bobsModel(), summaryModel()
	type modelInput struct {
		SummarizedMessages []llm.Message `json:"summarized_messages"`
	}
	b := treadle.New[llm.Chat]("chatbot")
	treadle.AddNode(b, "summarize", summary.Node(limits(summarizer)))
	treadle.AddNode(b, "call_model", func(ctx context.Context, in modelInput) (reply, error) {
		answer, err := llm.Generate(ctx, model, in.SummarizedMessages...)
		return reply{llm.Messages{answer}}, err
	})
	b.Sequence(treadle.Start, "summarize", "call_model")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	talk(g, func(ms llm.Messages) llm.Chat { return llm.Chat{Messages: ms} },
		func(s llm.Chat) llm.Messages { return s.Messages })
	printLast(model)
	// Output:
	// 8 messages are kept, the last is: Your name is Bob.
	// the model was given:
	//   system: Summary of the conversation so far: Bob introduced himself and asked for poems about cats and dogs.
	//   human: what's my name?
}

// reply contains the writes of a node that calls the model.
type reply struct{ Messages llm.Messages }

// Summarize with the default counter. The running summary has the text, and the messages
// that are in it.
//
// Sample: E10.
func Example_summarize() {
	model, summarizer := bobsModel(), summaryModel()
	g := summarizingGraph(model, limits(summarizer))
	talkOn(g)
	printLast(model)

	snap, err := g.Thread("1").State(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	var s SummaryState
	if err := snap.Read(&s); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("summarized:", len(s.Summary.MessageIDs), "of", len(s.Messages))
	fmt.Println("the last of them is the poem about dogs:", s.Summary.LastMessageID == s.Messages[5].ID)
	// Output:
	// 8 messages are kept, the last is: Your name is Bob.
	// the model was given:
	//   system: Summary of the conversation so far: Bob introduced himself and asked for poems about cats and dogs.
	//   human: what's my name?
	// summarized: 6 of 8
	// the last of them is the poem about dogs: true
}
