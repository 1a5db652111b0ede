package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// The program talks to a server that answers as OpenAI does: first with a call of the
// tool, then with a text.
func Example() {
	answers := []string{
		`{"role":"assistant","tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"refund","arguments":"{\"Number\":42}"}}]}`,
		`{"role":"assistant","content":"Order 42 is refunded."}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	for name, value := range map[string]string{"OPENAI_API_KEY": "a key", "OPENAI_BASE_URL": server.URL} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chdir(dir); err != nil { // where the program makes its file
		panic(err)
	}
	main()
	// Output:
	// {"action_requests":[{"name":"refund","args":{"Number":42},"description":"Tool execution requires approval\n\nTool: refund\nArgs: {\"Number\":42}"}],"review_configs":[{"action_name":"refund","allowed_decisions":["approve","edit","reject","respond"]}]}
	// Order 42 is refunded.
}

// The README contains this program, complete and verbatim.
func TestReadmeShowsProgram(t *testing.T) {
	root := filepath.Join(packageDir, "..", "..")
	program, err := os.ReadFile(filepath.Join(packageDir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```go\n" + string(program) + "```\n"; bytes.Count(readme, []byte(want)) != 1 {
		t.Errorf("README.md must contain main.go exactly once, verbatim:\n%s", want)
	}
}

// packageDir is the directory of this package; the example changes the current one.
var packageDir = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()
