package llmtest_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A script answers turn by turn, and fails if a request is not the expected one or if
// there are more requests than turns. In a test, Scripted also reports turns that were
// not used.
func ExampleNewScript() {
	model := llmtest.NewScript(
		llmtest.Say("Hello, Ada.", llmtest.Asked("Ada")),
		llmtest.Ask(llmtest.ToolCall("weather", `{"city":"Oslo"}`)))

	ctx := context.Background()
	for _, question := range []string{"I am Ada.", "How is the weather?", "Hello?"} {
		answer, err := llm.Generate(ctx, model, llm.User(question))
		switch {
		case err != nil:
			fmt.Println("error:", err)
		case len(answer.ToolCalls) > 0:
			fmt.Printf("%s %s\n", answer.ToolCalls[0].Name, answer.ToolCalls[0].Args)
		default:
			fmt.Println(answer.Text())
		}
	}
	// Output:
	// Hello, Ada.
	// weather {"city":"Oslo"}
	// error: llmtest: request 3: script has no more turns; the last message is "Hello?"
}
