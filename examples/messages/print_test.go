package messages_test

import (
	"fmt"
	"os"

	"github.com/treadle-go/treadle/llm"
)

// A conversation as people read it: 80 columns, tool calls with their arguments
// one to a line. On a terminal the titles are bold.
//
// Sample: D22.
func Example_print() {
	call := llm.ToolCall{ID: "call_Bh5cSwMqCpCxTjx7AjdrQTPd", Name: "get_weather", Args: []byte(`{"location": "San Francisco"}`)}
	for _, m := range []llm.Message{
		llm.Assistant("", call),
		{Role: llm.RoleTool, Content: "It's sunny!", ToolCallID: call.ID},
		llm.Assistant("The weather in San Francisco is sunny!"),
	} {
		if err := llm.Print(os.Stdout, m); err != nil {
			fmt.Println(err)
		}
		fmt.Println()
	}
	// Output:
	// ================================== Ai Message ==================================
	// Tool Calls:
	//   get_weather (call_Bh5cSwMqCpCxTjx7AjdrQTPd)
	//  Call ID: call_Bh5cSwMqCpCxTjx7AjdrQTPd
	//   Args:
	//     location: San Francisco
	//
	// ================================= Tool Message =================================
	//
	// It's sunny!
	//
	// ================================== Ai Message ==================================
	//
	// The weather in San Francisco is sunny!
}
