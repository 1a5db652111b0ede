package anthropic_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
)

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestForeignReasoningIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	var sent string
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		sent = string(raw)
		return nil, errors.Join(errors.New("down"), err)
	})}
	model, err := anthropic.New("claude-sonnet-5-5", &anthropic.Options{Key: "key", HTTPClient: client, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	foreign := llm.Message{Role: llm.RoleAI, Content: "Hi.", Metadata: map[string]any{"model_provider": "openai"},
		Blocks: []llm.Block{{Type: llm.BlockReasoning, ID: "rs_1", Reasoning: "Secret.", Extra: map[string]any{"encrypted_content": "ZW5j"}}}}
	for range 2 {
		_, _ = llm.Generate(t.Context(), model, llm.User("Hi"), foreign, llm.User("Hi"))
	}
	if n := strings.Count(logged.String(), "provider=openai"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &logged)
	}
	if strings.Contains(sent, "Secret.") || !strings.Contains(sent, "Hi.") {
		t.Errorf("sent %s", sent)
	}
}
