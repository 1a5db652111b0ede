package rerank_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/rerank"
)

// A chat model can rank texts if there is no rerank model. The first text shares more words
// with the query, but does not answer it.
func ExampleNewModel() {
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("ranking", json.RawMessage(`{"best":[2]}`))))
	r, err := rerank.NewModel(model)
	if err != nil {
		fmt.Println(err)
		return
	}
	scores, err := r.Rerank(context.Background(), "What do owls eat?", []string{
		"What owls eat has been asked since antiquity.",
		"Barn owls hunt mice and voles at night.",
	})
	fmt.Println(scores, err)
	// Output: [0 1] <nil>
}
