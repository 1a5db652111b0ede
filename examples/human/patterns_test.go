package human_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Approve or reject: the answer decides which node runs next.
//
// Sample: B9.
func Example_approveOrReject() {
	type State struct{ LLMOutput, Done string }
	type done struct{ Done string }
	type question struct {
		Question  string `json:"question"`
		LLMOutput string `json:"llm_output"` // the text to approve
	}

	b := treadle.New[State]("approval")
	treadle.AddNode(b, "human_approval", func(ctx context.Context, s State) (treadle.Goto, error) {
		approved, err := treadle.Interrupt[bool](ctx, question{"Is this correct?", s.LLMOutput})
		if err != nil {
			return nil, err
		}
		if approved {
			return treadle.To("some_node"), nil
		}
		return treadle.To("another_node"), nil
	}, treadle.Destinations("some_node", "another_node"))
	treadle.AddNode(b, "some_node", func(context.Context, State) (done, error) { return done{"sent"}, nil })
	treadle.AddNode(b, "another_node", func(context.Context, State) (done, error) { return done{"thrown away"}, nil })
	b.Edge(treadle.Start, "human_approval")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	report(g.Thread("some_id").Run(ctx, State{LLMOutput: "2+2=4"}))
	report(g.Thread("some_id").Resume(ctx, true))
	report(g.Thread("other_id").Run(ctx, State{LLMOutput: "2+2=5"}))
	report(g.Thread("other_id").Resume(ctx, false))
	// Output:
	// human_approval asks {"question":"Is this correct?","llm_output":"2+2=4"}
	// {LLMOutput:2+2=4 Done:sent}
	// human_approval asks {"question":"Is this correct?","llm_output":"2+2=5"}
	// {LLMOutput:2+2=5 Done:thrown away}
}

// Review and edit: the answer replaces the model's text.
//
// Sample: B10.
func Example_reviewAndEdit() {
	type State struct {
		Summary string `json:"llm_generated_summary"`
	}
	type question struct {
		Task    string `json:"task"`
		Summary string `json:"llm_generated_summary"`
	}
	type edited struct {
		EditedText string `json:"edited_text"`
	}

	b := treadle.New[State]("editing")
	treadle.AddNode(b, "generate_summary", func(context.Context, State) (State, error) {
		return State{"The cat sat on the mat."}, nil // a model's work
	})
	treadle.AddNode(b, "human_editing", func(ctx context.Context, s State) (State, error) {
		result, err := treadle.Interrupt[edited](ctx, question{"Review the output and make any necessary edits.", s.Summary})
		return State{result.EditedText}, err
	})
	b.Sequence(treadle.Start, "generate_summary", "human_editing")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("some_id")

	ctx := context.Background()
	report(thread.Run(ctx, State{}))
	report(thread.Resume(ctx, edited{"The edited text"}))
	// Output:
	// human_editing asks {"task":"Review the output and make any necessary edits.","llm_generated_summary":"The cat sat on the mat."}
	// {Summary:The edited text}
}

// Review a tool call: let it run, change it first, or send the model back with
// a remark.
//
// Sample: B11.
func Example_reviewToolCall() {
	type State struct{ Messages Messages }
	type said struct{ Messages Messages }
	type question struct {
		Question string `json:"question"`
		ToolCall string `json:"tool_call"`
	}
	type review struct {
		Action string `json:"action"` // continue, update or feedback
		Data   string `json:"data,omitempty"`
	}

	b := treadle.New[State]("tools")
	treadle.AddNode(b, "call_llm", func(_ context.Context, s State) (said, error) {
		if s.Messages[len(s.Messages)-1].Role == "human" && len(s.Messages) > 1 { // it was sent back
			return said{Messages{{ID: "call-2", Role: "ai", Content: `weather("Paris, France")`}}}, nil
		}
		return said{Messages{{ID: "call-1", Role: "ai", Content: `weather("paris")`}}}, nil
	})
	treadle.AddNode(b, "human_review_node", func(ctx context.Context, s State) (treadle.Command[said], error) {
		call := s.Messages[len(s.Messages)-1]
		human, err := treadle.Interrupt[review](ctx, question{"Is this correct?", call.Content})
		if err != nil {
			return treadle.Command[said]{}, err
		}
		switch human.Action {
		case "update": // a message with the same ID replaces the old one
			call.Content = human.Data
			return treadle.Command[said]{Update: &said{Messages{call}}, Goto: treadle.To("run_tool")}, nil
		case "feedback":
			return treadle.Command[said]{
				Update: &said{Messages{{Role: "human", Content: human.Data}}},
				Goto:   treadle.To("call_llm"),
			}, nil
		}
		return treadle.Command[said]{Goto: treadle.To("run_tool")}, nil
	}, treadle.Destinations("call_llm", "run_tool"))
	treadle.AddNode(b, "run_tool", func(_ context.Context, s State) (said, error) {
		call := s.Messages[len(s.Messages)-1]
		return said{Messages{{Role: "tool", Content: "ran " + call.Content}}}, nil
	})
	b.Sequence(treadle.Start, "call_llm", "human_review_node")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	ctx := context.Background()
	for _, answer := range []review{
		{Action: "continue"},
		{Action: "update", Data: `weather("Paris, Texas")`},
		{Action: "feedback", Data: "Which Paris?"},
	} {
		thread := g.Thread(answer.Action)
		report(thread.Run(ctx, State{Messages{{Role: "human", Content: "What is the weather in Paris?"}}}))
		fmt.Println("the answer:", answer.Action)
		watch(thread.ResumeStream(ctx, answer))
	}
	// Output:
	// human_review_node asks {"question":"Is this correct?","tool_call":"weather(\"paris\")"}
	// the answer: continue
	// human_review_node wrote null
	// run_tool wrote {"Messages":[{"ID":"","Role":"tool","Content":"ran weather(\"paris\")"}]}
	// human_review_node asks {"question":"Is this correct?","tool_call":"weather(\"paris\")"}
	// the answer: update
	// human_review_node wrote {"Messages":[{"ID":"call-1","Role":"ai","Content":"weather(\"Paris, Texas\")"}]}
	// run_tool wrote {"Messages":[{"ID":"","Role":"tool","Content":"ran weather(\"Paris, Texas\")"}]}
	// human_review_node asks {"question":"Is this correct?","tool_call":"weather(\"paris\")"}
	// the answer: feedback
	// human_review_node wrote {"Messages":[{"ID":"","Role":"human","Content":"Which Paris?"}]}
	// call_llm wrote {"Messages":[{"ID":"call-2","Role":"ai","Content":"weather(\"Paris, France\")"}]}
	// human_review_node asks {"question":"Is this correct?","tool_call":"weather(\"Paris, France\")"}
}

// Each agent has its own node that asks the user.
//
// Sample: B12.
func Example_humanNodePerAgent() {
	type State struct{ Messages Messages }
	type said struct{ Messages Messages }

	b := treadle.New[State]("conversation")
	treadle.AddNode(b, "human_input", func(ctx context.Context, _ State) (said, error) {
		text, err := treadle.Interrupt[string](ctx, "human_input")
		return said{Messages{{Role: "human", Content: text}}}, err
	})
	treadle.AddNode(b, "agent", func(_ context.Context, s State) (said, error) {
		return said{Messages{{Role: "ai", Content: "You said " + s.Messages[len(s.Messages)-1].Content}}}, nil
	})
	b.Sequence(treadle.Start, "human_input", "agent")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{}))
	report(thread.Resume(ctx, "hello!"))
	// Output:
	// human_input asks "human_input"
	// {Messages:[{ID: Role:human Content:hello!} {ID: Role:ai Content:You said hello!}]}
}

// One human node for several agents: the state says whose turn it is.
//
// Sample: B12.
func Example_sharedHumanNode() {
	type State struct {
		Messages Messages
		Active   string
	}
	type said struct{ Messages Messages }
	type turn struct {
		Messages Messages
		Active   string
	}

	b := treadle.New[State]("conversation")
	treadle.AddNode(b, "human", func(ctx context.Context, s State) (treadle.Command[said], error) {
		text, err := treadle.Interrupt[string](ctx, "Ready for user input.")
		if err != nil {
			return treadle.Command[said]{}, err
		}
		return treadle.Command[said]{
			Update: &said{Messages{{Role: "human", Content: text}}},
			Goto:   treadle.To(s.Active),
		}, nil
	}, treadle.Destinations("agent_1", "agent_2"))
	treadle.AddNode(b, "agent_1", func(context.Context, State) (turn, error) {
		return turn{Messages{{Role: "agent_1", Content: "My colleague will help you."}}, "agent_2"}, nil
	})
	treadle.AddNode(b, "agent_2", func(context.Context, State) (turn, error) {
		return turn{Messages{{Role: "agent_2", Content: "What is it about?"}}, "agent_2"}, nil
	})
	b.Edge(treadle.Start, "human")
	b.Edge("agent_1", "human")
	b.Edge("agent_2", "human")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{Active: "agent_1"}))
	watch(thread.ResumeStream(ctx, "Hi!"))
	watch(thread.ResumeStream(ctx, "My loom is stuck."))
	// Output:
	// human asks "Ready for user input."
	// human wrote {"Messages":[{"ID":"","Role":"human","Content":"Hi!"}]}
	// agent_1 wrote {"Messages":[{"ID":"","Role":"agent_1","Content":"My colleague will help you."}],"Active":"agent_2"}
	// human asks "Ready for user input."
	// human wrote {"Messages":[{"ID":"","Role":"human","Content":"My loom is stuck."}]}
	// agent_2 wrote {"Messages":[{"ID":"","Role":"agent_2","Content":"What is it about?"}],"Active":"agent_2"}
	// human asks "Ready for user input."
}

// Validate in the node: Interrupt[any] accepts every answer, and the node asks again until
// one is valid.
//
// Sample: B13.
func Example_validateInALoop() {
	type State struct{ Age int }

	b := treadle.New[State]("age")
	treadle.AddNode(b, "human_node", func(ctx context.Context, _ State) (State, error) {
		question := "What is your age?"
		for {
			answer, err := treadle.Interrupt[any](ctx, question)
			if err != nil {
				return State{}, err
			}
			if age, ok := answer.(float64); ok && age >= 0 { // a number in JSON
				fmt.Printf("The human in the loop is %v years old.\n", age)
				return State{int(age)}, nil
			}
			question = fmt.Sprintf("'%v is not a valid age. What is your age?", answer)
		}
	})
	b.Edge(treadle.Start, "human_node")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")

	ctx := context.Background()
	report(thread.Run(ctx, State{}))
	for _, answer := range []any{"abc", -1, 30} {
		report(thread.Resume(ctx, answer))
	}
	// Output:
	// human_node asks "What is your age?"
	// human_node asks "'abc is not a valid age. What is your age?"
	// human_node asks "'-1 is not a valid age. What is your age?"
	// The human in the loop is 30 years old.
	// {Age:30}
}
