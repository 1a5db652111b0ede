package anthropic

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// Providers reject the boolean schema true, so an any field is {}.
func TestAnyParametersAreObjects(t *testing.T) {
	sent, err := describe(llm.NewTool("keep", "", func(context.Context, struct {
		One  any             `json:"one"`
		Raw  json.RawMessage `json:"raw"`
		List []any           `json:"list"`
	}) (string, error) {
		return "", nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(sent)
	if err != nil || strings.Contains(string(raw), "true") || !strings.Contains(string(raw), `"one":{}`) || !strings.Contains(string(raw), `"items":{}`) {
		t.Errorf("the tool is %s, %v", raw, err)
	}
}
