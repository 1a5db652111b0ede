package ollama_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/ollama"
)

// localServer stands for an Ollama server.
func localServer(responses map[string]string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = fmt.Fprint(w, responses[r.URL.Path])
	}))
}

func Example() {
	server := localServer(map[string]string{"/api/chat": `{"model":"qwen3","message":{"role":"assistant","content":"","thinking":"Owls call."},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":"To mark"},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":" their territory."},"done":false}
{"model":"qwen3","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":12,"eval_count":9}
`})
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()

	// With nil options, the model is on this machine, or on the server in OLLAMA_HOST.
	model, err := ollama.New("qwen3", &ollama.Options{BaseURL: server.URL, Context: 32768})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Generate(context.Background(), model, llm.User("Why do owls hoot?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s (%s)\n", answer.Text(), answer.Reasoning())
	// Output:
	// To mark their territory. (Owls call.)
}

func ExamplePull() {
	server := localServer(map[string]string{"/api/pull": `{"status":"pulling manifest"}
{"status":"pulling a1b2c3","digest":"sha256:a1b2c3","total":2000,"completed":1000}
{"status":"pulling a1b2c3","digest":"sha256:a1b2c3","total":2000,"completed":2000}
{"status":"success"}
`})
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()

	err := ollama.Pull(context.Background(), "qwen3", &ollama.Options{BaseURL: server.URL}, func(p ollama.Progress) {
		if p.Total > 0 {
			fmt.Printf("%s: %d%%\n", p.Status, 100*p.Completed/p.Total)
		} else {
			fmt.Println(p.Status)
		}
	})
	fmt.Println(err)
	// Output:
	// pulling manifest
	// pulling a1b2c3: 50%
	// pulling a1b2c3: 100%
	// success
	// <nil>
}
