package openai_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// cacheKeyOf returns the prompt_cache_key of a request made on a thread, or nil.
func cacheKeyOf(t *testing.T, thread string, opts openai.Options, with ...llm.Option) any {
	t.Helper()
	w := &wire{body: okBody}
	opts.Key, opts.HTTPClient = "k", &http.Client{Transport: w}
	if opts.API == "" {
		w.body = okResponse
	}
	model, err := openai.New("gpt-test", &opts)
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context) error {
		_, err := llm.Generate(ctx, llm.With(model, append(with, llm.NoStream())...), llm.User("Hi"))
		return err
	}
	if thread == "" {
		err = call(t.Context())
	} else {
		b := treadle.New[struct{}]("call")
		treadle.AddNode(b, "call", func(ctx context.Context, s struct{}) (struct{}, error) { return s, call(ctx) })
		b.Edge(treadle.Start, "call")
		_, err = treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread(thread).Run(t.Context(), struct{}{})
	}
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(w.sent, &body); err != nil {
		t.Fatal(err)
	}
	return body["prompt_cache_key"]
}

func TestCacheKeyPerThread(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	azure := openai.Options{BaseURL: "https://owls.openai.azure.com"}
	ada := cacheKeyOf(t, "ada", openai.Options{})
	if key, _ := ada.(string); !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(key) {
		t.Errorf("the key is %v, want a hash", ada)
	}
	same(t, "the key of the same thread", ada, cacheKeyOf(t, "ada", openai.Options{}))
	same(t, "the key in Chat Completions", ada, cacheKeyOf(t, "ada", openai.Options{API: "chat"}))
	same(t, "the key for Azure", ada, cacheKeyOf(t, "ada", azure))
	if bob := cacheKeyOf(t, "bob", openai.Options{}); bob == ada || bob == nil {
		t.Errorf("the key of another thread is %v", bob)
	}
	same(t, "the caller's key", any("mine"), cacheKeyOf(t, "ada", openai.Options{}, llm.Setting("prompt_cache_key", "mine")))
	same(t, "the key without a thread", any(nil), cacheKeyOf(t, "", openai.Options{}))
	same(t, "the key for another server", any(nil), cacheKeyOf(t, "ada", openai.Options{BaseURL: another, API: "chat"}))
}
