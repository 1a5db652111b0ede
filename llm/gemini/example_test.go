package gemini_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
)

// A model streams its answer. In place of Google's servers a local one stands
// here; without a BaseURL, and with a key in GEMINI_API_KEY, it would be Google's.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, event := range []string{
			`{"candidates": [{"content": {"parts": [{"text": "Owls look for", "thought": true}]}}]}`,
			`{"candidates": [{"content": {"parts": [{"text": "To find "}]}}]}`,
			`{"candidates": [{"content": {"parts": [{"text": "each other."}]}, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 6, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "totalTokenCount": 14}}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}))
	defer server.Close()

	model, err := llm.Open("gemini:gemini-3.8-flash", gemini.Provider(&gemini.Options{Key: "a key", BaseURL: server.URL, HTTPClient: server.Client()}))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Generate(context.Background(), llm.With(model, llm.Reasoning("low")), llm.User("Why do owls hoot?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text())
	fmt.Println(answer.Stop, answer.Usage.Total, answer.Usage.OutputDetails)
	// Output:
	// To find each other.
	// stop 14 map[reasoning:3]
}

// Vectors of texts, for a store that searches by meaning.
func ExampleNewEmbedder() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"embeddings": [{"values": [0.6, 0.8]}, {"values": [1, 0]}]}`)
	}))
	defer server.Close()

	embedder, err := gemini.NewEmbedder("gemini-embedding-001", &gemini.Options{Key: "a key", BaseURL: server.URL, HTTPClient: server.Client(), Dimension: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	vectors, err := embedder.Embed(context.Background(), []string{"owls", "eggs"})
	fmt.Println(embedder.Model(), embedder.Dimension(), vectors, err)
	// Output:
	// gemini:gemini-embedding-001 2 [[0.6 0.8] [1 0]] <nil>
}
