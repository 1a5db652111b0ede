package agents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Document is a search result.
type Document struct {
	PageContent string         `json:"page_content"`
	Metadata    map[string]any `json:"metadata"`
}

// Desk is the state of a help desk.
type Desk struct {
	llm.Chat
	Intent    string     `json:"intent"`
	Documents []Document `json:"documents"`
}

// Intent is the result of the classifier.
type Intent struct {
	Intent     string  `json:"intent"`
	Rephrased  string  `json:"rephrased"`
	Confidence float64 `json:"confidence"`
}

// deltas writes a run as lines of JSON: the text as it arrives, and finally the documents
// used. The classifier's responses have a tag that keeps them out of the stream, and
// chunks of tool calls have no text.
func deltas(g *treadle.Graph[Desk, Desk]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Message string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		line := func(v any) {
			if json.NewEncoder(w).Encode(v) == nil {
				_ = http.NewResponseController(w).Flush() // not every writer can
			}
		}
		thread := g.Thread(r.PathValue("thread"))
		// The request's context ends when the client goes, and with it the run.
		for ev, err := range thread.Stream(r.Context(), Desk{Chat: chat(body.Message)}, treadle.Modes(treadle.ModeMessages)) {
			switch ev := ev.(type) {
			case treadle.Token:
				if text := ev.Text(); text != "" {
					line(map[string]string{"stream": text})
				}
			case treadle.Finished[Desk]:
				line(map[string]any{"used_docs": ev.Output.Documents})
			}
			if err != nil {
				line(map[string]string{"error": err.Error()})
			}
		}
	}
}

// A handler that streams newline-delimited JSON, with the standard library alone.
//
// Sample: D19.
func Example_http() {
	user := llm.User("how to log in?")
	search := llm.ToolCall{ID: "1", Name: "search", Args: []byte(`{"query":"login"}`)}
	classifier := llm.With(llmtest.NewScript(llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Intent", Intent{"help", "How does one log in?", 0.9})),
		Expect: []func(*llm.Request) error{llmtest.Heard(user)}}), llm.Tags(treadle.TagNoStream))
	found := []Document{{"Use your e-mail.", map[string]any{"page": 3}}}
	docs := llm.NewTool("search", "Search the manual.", func(ctx context.Context, _ struct {
		Query string `json:"query"`
	}) (treadle.Command[treadle.Update], error) {
		call, _ := llm.CallFrom(ctx)
		return treadle.Command[treadle.Update]{Update: &treadle.Update{"documents": found,
			"messages": llm.Messages{llm.ToolResult(call, found[0].PageContent)}}}, nil
	})
	helper := treadle.Must(agent.For[Desk](llmtest.NewScript(
		llmtest.Turn{Message: llm.Assistant("", search), Expect: []func(*llm.Request) error{llmtest.Heard(user)}},
		llmtest.Say("Use your e-mail.", llmtest.Heard(user, llm.Assistant("", search), llm.ToolResult(search, "Use your e-mail."))),
	), &agent.Options{Tools: []*llm.Tool{docs}}))

	b := treadle.New[Desk]("desk")
	type classified struct{ Intent string }
	treadle.AddNode(b, "classify", func(ctx context.Context, c llm.Chat) (classified, error) {
		in, err := llm.Object[Intent](ctx, classifier, c.Messages...)
		return classified{in.Intent}, err
	})
	treadle.AddGraph(b, "help", helper)
	b.Sequence(treadle.Start, "classify", "help")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	mux := http.NewServeMux()
	mux.Handle("POST /chat/{thread}", deltas(g))
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+"/chat/7", strings.NewReader(`{"message": "how to log in?"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := server.Client().Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = res.Body.Close() }()
	fmt.Println(res.Header.Get("Content-Type"))
	raw, err := io.ReadAll(res.Body)
	fmt.Print(string(raw))
	fmt.Println(err)
	// Output:
	// application/x-ndjson
	// {"stream":"Use "}
	// {"stream":"your "}
	// {"stream":"e-mail."}
	// {"used_docs":[{"page_content":"Use your e-mail.","metadata":{"page":3}}]}
	// <nil>
}
