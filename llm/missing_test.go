package llm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestNilArgumentsFailClearly(t *testing.T) {
	var none context.Context
	model := llmtest.NewScript()
	tool := llm.NewTool("t", "", func(context.Context, struct{}) (string, error) { return "", nil })
	for name, call := range map[string]func() error{
		"Generate without a model":   func() error { _, err := llm.Generate(t.Context(), nil, llm.User("hi")); return err },
		"Generate without a context": func() error { _, err := llm.Generate(none, model, llm.User("hi")); return err },
		"Object without a model":     func() error { _, err := llm.Object[int](t.Context(), nil, llm.User("hi")); return err },
		"Object without a context":   func() error { _, err := llm.Object[int](none, model, llm.User("hi")); return err },
		"Call without a context":     func() error { _, err := tool.Call(none, llm.ToolCall{ID: "1"}); return err },
		"a tool without a function":  func() error { return llm.NewTool[struct{}, string]("t", "", nil).Check() },
		"a tool that is nil":         func() error { return (*llm.Tool)(nil).Check() },
		"a request with a nil tool": func() error {
			_, err := llm.Generate(t.Context(), llm.With(model, llm.Tools(nil)), llm.User("hi"))
			return err
		},
		"Stream without a model": func() (failed error) {
			for _, err := range llm.Stream(t.Context(), nil, llm.User("hi")) {
				failed = err
			}
			return failed
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, make := range map[string]func(){
		"With":      func() { llm.With(nil) },
		"option":    func() { llm.With(model, nil) },
		"Retry":     func() { llm.Retry(nil, nil) },
		"Fallback":  func() { llm.Fallback(model, nil) },
		"RateLimit": func() { llm.RateLimit(model, nil) },
		"Cache":     func() { llm.Cache(nil, nil, time.Second) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "llm: ") {
					t.Errorf("%s: the panic says %q", name, text)
				}
			}()
			make()
		}()
	}
}
