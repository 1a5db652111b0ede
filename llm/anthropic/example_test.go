package anthropic_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

// standIn returns a server that answers as Anthropic would, so that the examples run
// without a key.
func standIn(kind, answer string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, answer)
	}))
}

// Ask a model and print its answer as it arrives.
func Example() {
	server := standIn("text/event-stream", `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],"usage":{"input_tokens":12,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"To say "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"whose tree it is."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}

event: message_stop
data: {"type":"message_stop"}

`)
	defer server.Close()

	// A program leaves both out: the key is in ANTHROPIC_API_KEY.
	model, err := anthropic.New("claude-sonnet-4-6", &anthropic.Options{Key: "key", BaseURL: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	brief := llm.With(model, llm.MaxTokens(100))
	for chunk, err := range llm.Stream(context.Background(), brief, llm.System("Be brief."), llm.User("Why do owls hoot?")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if chunk.Content != "" {
			fmt.Printf("%q\n", chunk.Content)
		}
	}
	// Output:
	// "To say "
	// "whose tree it is."
}

// A value of a Go type is asked for by Anthropic's own means: the answer is held
// to the type's schema.
func ExampleProvider() {
	server := standIn("application/json", `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6",
		"content":[{"type":"text","text":"{\"name\": \"barn owl\", \"eggs\": 5}"}],
		"stop_reason":"end_turn","usage":{"input_tokens":12,"output_tokens":9}}`)
	defer server.Close()

	claude := anthropic.Provider(&anthropic.Options{Key: "key", BaseURL: server.URL})
	model, err := llm.Open("anthropic:claude-sonnet-4-6", claude)
	if err != nil {
		fmt.Println(err)
		return
	}
	type owl struct {
		Name string `json:"name" jsonschema:"what people call it"`
		Eggs int    `json:"eggs"`
	}
	bird, err := llm.Object[owl](context.Background(), llm.With(model, llm.NoStream()), llm.User("An owl, please."))
	fmt.Printf("%+v %v\n", bird, err)

	_, err = llm.OpenEmbedder("anthropic:claude-sonnet-4-6", claude)
	fmt.Println(err)
	// Output:
	// {Name:barn owl Eggs:5} <nil>
	// llm: open embedder "anthropic:claude-sonnet-4-6": anthropic has no embedders
}
