package openai_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// localServer stands for a server that speaks the API, such as Ollama.
func localServer(body string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if body[0] == '{' {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = io.WriteString(w, body)
	}))
}

// A model of a local server, its answer piece by piece.
func ExampleNew() {
	server := localServer(`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hoo"}}]}

data: {"choices":[{"index":0,"delta":{"content":"t!"}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`)
	defer server.Close()

	model, err := openai.New("qwen3", &openai.Options{BaseURL: server.URL + "/v1"})
	if err != nil {
		log.Fatal(err)
	}
	for chunk, err := range llm.Stream(context.Background(), model, llm.User("What does the owl say?")) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q\n", chunk.Content)
	}
	// Output:
	// "Hoo"
	// "t!"
	// ""
}

// A value of a Go type, to which the server holds the model.
func ExampleNew_object() {
	server := localServer(`{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant",
		"content":"{\"name\":\"barn owl\",\"eggs\":5,\"nest\":null}"}}]}`)
	defer server.Close()

	type owl struct {
		Name string `json:"name" jsonschema:"what people call it"`
		Eggs int    `json:"eggs"`
		Nest string `json:"nest,omitempty"`
	}
	model, err := openai.New("gpt-5-mini", &openai.Options{BaseURL: server.URL + "/v1", Key: "a key"})
	if err != nil {
		log.Fatal(err)
	}
	got, err := llm.Object[owl](context.Background(), llm.With(model, llm.NoStream()), llm.User("Tell me of an owl."))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", got)
	// Output: {Name:barn owl Eggs:5 Nest:}
}

// Models and embedders by name, of a server with a name of its own.
func ExampleProvider() {
	server := localServer(`{"data":[{"index":0,"embedding":[0.6,0.8]}]}`)
	defer server.Close()

	local := openai.Provider(&openai.Options{BaseURL: server.URL + "/v1", Dimension: 2})
	local.Name = "local"
	embedder, err := llm.OpenEmbedder("local:nomic-embed-text", local)
	if err != nil {
		log.Fatal(err)
	}
	vectors, err := embedder.Embed(context.Background(), []string{"owl"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(vectors)

	_, err = llm.Open("gpt-5-mini", local, openai.Provider(nil))
	fmt.Println(err)
	// Output:
	// [[0.6 0.8]]
	// llm: open model "gpt-5-mini": want provider:name; the providers are: local, openai
}
