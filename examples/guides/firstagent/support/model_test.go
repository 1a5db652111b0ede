package support

import (
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// provider is Model after the change that the guide describes.
func provider() (llm.Model, error) {
	return openai.New("gpt-5-mini", nil) // reads OPENAI_API_KEY
}

func TestModelOpensWithKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "a key")
	if _, err := provider(); err != nil {
		t.Fatal(err)
	}
}
