package llm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/treadletype"
)

// The messages are those of the providers and of servers that are compatible with them.
func TestOverflowIsContextError(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
		limit, used   int
	}{
		{400, "context_length_exceeded", "This model's maximum context length is 128000 tokens. However, your messages resulted in 130,512 tokens.", 128_000, 130_512},
		{400, "", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", 272_000, 300_000},
		{0, "context_length_exceeded", "Your input exceeds the context window of this model.", 0, 0},
		{400, "invalid_request_error", "prompt is too long: 205012 tokens > 200000 maximum", 200_000, 205_012},
		{400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000", 0, 0},
		{400, "ValidationException", "Input is too long for requested model.", 0, 0},
		{400, "INVALID_ARGUMENT", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576, 1_200_000},
		{400, "exceed_context_size_error", "the request exceeds the available context size", 0, 0},
		{422, "", "`inputs` tokens + `max_new_tokens` must be <= 4096", 0, 0},
	} {
		model := llmtest.NewScript(llmtest.Fail(&llm.Error{Provider: "p", Status: c.status, Code: c.code, Message: c.message}))
		_, err := llm.Generate(t.Context(), model, llm.User("hello"))
		got, ok := errors.AsType[*llm.ContextError](err)
		if !ok {
			t.Errorf("%s: %v is not a ContextError", c.message, err)
			continue
		}
		if got.Limit != c.limit || got.Used != c.used {
			t.Errorf("%s: limit %d, used %d; want %d, %d", c.message, got.Limit, got.Used, c.limit, c.used)
		}
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Message != c.message {
			t.Errorf("%s: the provider's error is lost: %v", c.message, err)
		}
	}
}

func TestOverflowInJoinedErrors(t *testing.T) {
	busy := &llm.Error{Provider: "first", Status: 429, Message: "slow down"}
	long := &llm.Error{Provider: "second", Status: 400, Message: "prompt is too long: 205012 tokens > 200000 maximum"}
	model := llm.Fallback(llmtest.NewScript(llmtest.Fail(busy)), llmtest.NewScript(llmtest.Fail(fmt.Errorf("second: %w", long))))
	_, err := llm.Generate(t.Context(), model, llm.User("hello"))
	if got, ok := errors.AsType[*llm.ContextError](err); !ok || got.Limit != 200_000 || got.Used != 205_012 || !errors.Is(err, busy) || !errors.Is(err, long) {
		t.Errorf("err = %v, want a ContextError with both errors", err)
	}
}

// A request that exceeds the window is not sent again, even if the provider reports
// the overflow within a stream.
func TestOverflowIsNotRetried(t *testing.T) {
	for _, e := range []*llm.Error{
		{Code: "context_length_exceeded", Message: "Your input exceeds the context window of this model."},
		{Status: 200, Code: "context_length_exceeded"},
		{Status: 400, Cut: true, Message: "Input is too long for requested model."},
	} {
		_, err := llm.Generate(t.Context(), llm.Retry(llmtest.Scripted(t, llmtest.Fail(e)), nil), llm.User("hello"))
		if _, ok := errors.AsType[*llm.ContextError](err); !ok || treadletype.Transient(err) || e.Temporary() {
			t.Errorf("err = %v (transient %v), want a ContextError that is not", err, treadletype.Transient(err))
		}
	}
}

func TestOtherErrorsAreNotContextErrors(t *testing.T) {
	for _, e := range []*llm.Error{
		{Status: 400, Code: "string_above_max_length", Message: "Invalid 'metadata': string too long. Expected maximum context length"},
		{Status: 400, Code: "invalid_request_error", Message: "max_tokens is too large"},
		{Status: 429, Message: "too many input tokens per minute"},
		{Status: 500, Message: "maximum context length"},
		{Status: 401, Code: "invalid_api_key"},
	} {
		_, err := llm.Generate(t.Context(), llmtest.NewScript(llmtest.Fail(e)), llm.User("hello"))
		if _, ok := errors.AsType[*llm.ContextError](err); ok || err == nil {
			t.Errorf("%v is reported as %v", e, err)
		}
	}
}

func TestModelWithoutToolsRejectsThem(t *testing.T) {
	model := llm.WithInfo(llmtest.NewScript(llmtest.Say("never")), llm.Info{Provider: "openai", Model: "old", NoTools: true})
	tool := llm.NewTool("echo", "Echoes.", func(context.Context, struct{}) (string, error) { return "", nil })
	_, err := llm.Generate(t.Context(), llm.With(model, llm.Tools(tool)), llm.User("hello"))
	if want := "llm: openai:old does not support tools: choose another model"; err == nil || err.Error() != want {
		t.Errorf("err = %v, want %q", err, want)
	}
}

func TestTrimToShareOfWindow(t *testing.T) {
	history := llm.Messages{llm.User("one two three four"), llm.Assistant("five six seven"), llm.User("eight nine")}
	model := llm.WithInfo(llmtest.NewScript(), llm.Info{Model: "tiny", Window: 20})
	byShare, err := llm.Trim(t.Context(), history, &llm.TrimOptions{Share: 0.8, Model: model})
	if err != nil {
		t.Fatal(err)
	}
	byTokens, err := llm.Trim(t.Context(), history, &llm.TrimOptions{MaxTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	if len(byShare) != len(byTokens) || len(byShare) == 0 || len(byShare) == len(history) {
		t.Errorf("%d messages by share, %d by tokens, of %d", len(byShare), len(byTokens), len(history))
	}
	for want, opts := range map[string]*llm.TrimOptions{
		"llm: Trim: Share requires Model and excludes MaxTokens":                                                       {Share: 0.5, Model: model, MaxTokens: 1},
		"llm: Trim: invalid share 8 of the context window: want more than 0 and at most 1":                             {Share: 8, Model: model},
		"llm: Trim: unknown context window of llmtest:script: set a number of tokens, or set Window with llm.WithInfo": {Share: 0.5, Model: llmtest.NewScript()},
	} {
		if _, err := llm.Trim(t.Context(), history, opts); err == nil || err.Error() != want {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}
