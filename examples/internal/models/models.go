// Package models selects the model of the example programs.
package models

import (
	"cmp"
	"os"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// Open opens an OpenAI model if OPENAI_API_KEY is set. MODEL may name another OpenAI model, and
// OPENAI_BASE_URL an OpenAI-compatible server. Without a key, Open returns offline, so that the
// programs run without a network.
func Open(offline llm.Model) (llm.Model, error) {
	if os.Getenv("OPENAI_API_KEY") == "" {
		return offline, nil
	}
	return llm.Open("openai:"+cmp.Or(os.Getenv("MODEL"), "gpt-5-mini"), openai.Provider(nil))
}
