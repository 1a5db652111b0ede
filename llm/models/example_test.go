package models_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/models"
)

// A server on this machine that speaks OpenAI's protocol, as vLLM does.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range []string{
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":" there."},"finish_reason":"stop"}]}`,
			`[DONE]`,
		} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	_ = os.Setenv("VLLM_BASE_URL", server.URL)
	defer func() { _ = os.Unsetenv("VLLM_BASE_URL") }()

	model, err := models.Open("vllm:qwen3", llm.Temperature(0))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Generate(context.Background(), model, llm.User("Hi!"))
	fmt.Println(answer.Text(), err)

	_, err = models.Open("qwen3")
	fmt.Println(err)
	// Output:
	// Hello there. <nil>
	// models: open model "qwen3": unknown provider: write provider:qwen3
}
