package prompts_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/prompts"
)

// What happened when the prompts of these examples were used.
var disliked = []prompts.Trajectory{{
	Messages: llm.Messages{llm.User("What is an owl?"), llm.Assistant("A member of the order Strigiformes.")},
	Feedback: "Explain it to a child.",
	Scores:   map[string]float64{"user": 0},
}}

// The review finds a fault, so the prompt is rewritten. A second review finds
// none, and the prompt stays.
func ExampleOptimizer_Improve_gradient() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("think", `{"thought": "Who asks?"}`)),
		llmtest.Ask(llmtest.ToolCall("recommend", `{"warrants_adjustment": true,
			"hypotheses": "The prompt does not say who listens.", "full_recommendations": "Say that it is a child."}`)),
		llmtest.Ask(llmtest.ToolCall("optimized_prompt_output", `{"analysis": "Named the listener.",
			"improved_prompt": "You are {name}.\nAnswer so that a child understands."}`)),
		llmtest.Ask(llmtest.ToolCall("think", `{"thought": "Better?"}`)),
		llmtest.Ask(llmtest.ToolCall("recommend", `{"warrants_adjustment": false, "hypotheses": "The prompt is fine now."}`)),
	)
	opt, err := prompts.NewOptimizer(model, prompts.Gradient, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := prompts.Prompt{Text: "You are {name}.\nAnswer."}
	for range 2 {
		better, err := opt.Improve(context.Background(), prompt, disliked)
		fmt.Println(better.Changed, err)
		fmt.Println(better.Rationale)
		fmt.Print(better.Diff)
		prompt = better.Prompt
	}
	// Output:
	// true <nil>
	// The prompt does not say who listens.
	//
	// Named the listener.
	//   You are {name}.
	// - Answer.
	// + Answer so that a child understands.
	// false <nil>
	// The prompt is fine now.
}

// The model gives the new prompt in its first answer: that is the only call.
func ExampleOptimizer_Improve_metaprompt() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("optimized_prompt_output", `{"analysis": "Named the listener.",
			"improved_prompt": "Answer {question} so that a child understands."}`)),
	)
	opt, err := prompts.NewOptimizer(model, prompts.Metaprompt, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	better, err := opt.Improve(context.Background(), prompts.Prompt{Text: "Answer {question}."}, disliked)
	fmt.Println(better.Prompt.Text, err)
	fmt.Println(len(model.Requests()), "call")
	// Output:
	// Answer {question} so that a child understands. <nil>
	// 1 call
}

// The model declines, so the prompt is unchanged.
func ExampleOptimizer_Improve_promptMemory() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("optimized_prompt_output", `{"logic": "One complaint is no rule.", "update_prompt": false}`)),
	)
	opt, err := prompts.NewOptimizer(model, prompts.Memory, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	better, err := opt.Improve(context.Background(), prompts.Prompt{Text: "Answer {question}."}, disliked)
	fmt.Println(better.Prompt.Text, better.Changed, err)
	fmt.Println(better.Rationale)
	// Output:
	// Answer {question}. false <nil>
	// One complaint is no rule.
}

// Of two prompts the model finds one at fault.
func ExampleOptimizer_ImproveAll() {
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("classify", `{"reasoning": "The facts are right, the words are not.", "which": ["write"]}`)),
		llmtest.Ask(llmtest.ToolCall("optimized_prompt_output", `{"analysis": "Named the listener.",
			"improved_prompt": "Write for a child."}`)),
	)
	opt, err := prompts.NewOptimizer(model, prompts.Metaprompt, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := opt.ImproveAll(context.Background(), []prompts.Prompt{
		{Name: "research", Text: "Find the facts.", WhenToUpdate: "when facts are wrong"},
		{Name: "write", Text: "Write.", WhenToUpdate: "when the style is wrong"},
	}, disliked)
	for _, p := range all {
		fmt.Printf("%s: %s %v\n", p.Prompt.Name, p.Prompt.Text, p.Changed)
	}
	fmt.Println(err)
	// Output:
	// research: Find the facts. false
	// write: Write for a child. true
	// <nil>
}
