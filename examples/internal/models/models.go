// Package models chooses the model of the example programs.
package models

import (
	"cmp"
	"os"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// Open opens OpenAI's model if OPENAI_API_KEY is set; MODEL may name another one of
// its models, and OPENAI_BASE_URL a server that speaks the same protocol. Without a
// key it returns the given model, so that the programs run offline.
func Open(offline llm.Model) (llm.Model, error) {
	if os.Getenv("OPENAI_API_KEY") == "" {
		return offline, nil
	}
	return llm.Open("openai:"+cmp.Or(os.Getenv("MODEL"), "gpt-5-mini"), openai.Provider(nil))
}
