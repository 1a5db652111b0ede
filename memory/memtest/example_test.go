package memtest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/memtest"
)

// In a test it is memtest.Run(t, cases, nil).
func Example() {
	moved := llmtest.ToolCall("PatchDoc", map[string]any{"json_doc_id": "~Bonn", "planned_edits": "she moved",
		"patches": []any{map[string]any{"op": "replace", "path": "/content", "value": "Ann lives in Rome"}}})
	cases := []memtest.Case{{
		Name:  "a move replaces the old home",
		Given: []memtest.Given{{Key: "home", Text: "Ann lives in Bonn"}, {Key: "cat", Text: "Ann has a cat"}},
		Sessions: []memtest.Session{{
			Messages: llm.Messages{llm.User("I have moved to Rome!")},
			Answers:  []llm.Message{llm.Assistant("", moved)},
			Changes:  []string{"update"},
		}},
		Then: memtest.Checks{
			Contains: []memtest.Pattern{{Key: "home", Text: "Rome"}},
			Lacks:    []memtest.Pattern{{Text: "Bonn"}},
			AsOf:     []memtest.Past{{At: time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC), Contains: []memtest.Pattern{{Text: "Bonn"}}}},
			Recall:   []memtest.Recall{{Query: "Where does Ann live?", Finds: []memtest.Pattern{{Key: "home"}}, K: 1, Tokens: 100}},
		},
	}, {
		Name: "small talk is not remembered",
		Sessions: []memtest.Session{{
			Messages: llm.Messages{llm.User("Nice weather.")},
			Answers:  []llm.Message{llm.Assistant("", llmtest.ToolCall("Memory", `{"content":"The weather is nice"}`))},
			Changes:  []string{},
		}},
	}}
	report, err := memtest.Evaluate(context.Background(), cases, nil)
	fmt.Printf("%d of %d failed, recall@1 is %.1f\n", report.Failed, report.Cases, report.RecallAt(1))
	fmt.Println(err != nil)
	// Output:
	// 1 of 2 failed, recall@1 is 1.0
	// true
}
