// Package models opens models of all providers by name:
//
//	model, err := models.Open("anthropic:claude-sonnet-5-5", llm.Temperature(0))
//	model, err := models.Open("ollama:qwen3")
//	model, err := models.Open("gpt-5-mini") // of OpenAI
//
// Keys and addresses come from the environment, under the names that the providers
// use; see [Providers]. A program that uses one provider needs only that provider's
// package and links less code, because this package links all of them.
package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/openai"
)

// Open opens a model by provider and model name, and binds options to it. Without a
// provider, the start of the name determines it: gpt-5, claude-sonnet-5-5, and
// gemini-3.8-flash need no provider. Open returns an error if the name belongs to
// no known family.
func Open(name string, opts ...llm.Option) (llm.Model, error) {
	all := Providers()
	full, err := complete("model", name, all)
	if err != nil {
		return nil, err
	}
	m, err := llm.Open(full, all...)
	if err != nil || len(opts) == 0 {
		return m, err
	}
	return llm.With(m, opts...), nil
}

// OpenEmbedder opens an embedder by provider and model name, such as
// "openai:text-embedding-3-small".
func OpenEmbedder(name string) (llm.Embedder, error) {
	all := Providers()
	full, err := complete("embedder", name, all)
	if err != nil {
		return nil, err
	}
	return llm.OpenEmbedder(full, all...)
}

// Providers returns all providers of this package, for [llm.Open]: openai,
// anthropic, gemini, and those whose servers use OpenAI's protocol.
// docs/providers.md lists their environment variables.
func Providers() []llm.Provider {
	all := []llm.Provider{openai.Provider(nil), anthropic.Provider(nil), gemini.Provider(nil)}
	for _, p := range presets {
		all = append(all, p.provider())
	}
	return all
}

// aliases maps LangChain's provider names to different names used here.
var aliases = map[string]string{
	"google_genai": "gemini",
	"azure_openai": "azure",
	"mistralai":    "mistral",
}

// families maps prefixes of model names to the provider. Models that several
// providers serve, such as llama, have no family.
var families = []struct{ prefix, provider string }{
	{"gpt-", "openai"}, {"chatgpt-", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"}, {"text-embedding-3", "openai"},
	{"claude", "anthropic"},
	{"gemini", "gemini"},
	{"mistral", "mistral"}, {"mixtral", "mistral"}, {"codestral", "mistral"}, {"magistral", "mistral"},
	{"deepseek", "deepseek"},
	{"grok", "xai"},
}

// complete returns a name with its provider.
func complete(what, name string, all []llm.Provider) (string, error) {
	prefix, rest, ok := strings.Cut(name, ":")
	if own := aliases[prefix]; ok && own != "" {
		return own + ":" + rest, nil
	}
	if ok && slices.ContainsFunc(all, func(p llm.Provider) bool { return p.Name == prefix }) {
		return name, nil
	}
	for _, f := range families {
		if strings.HasPrefix(name, f.prefix) {
			return f.provider + ":" + name, nil
		}
	}
	if ok { // llm.Open's error lists the providers
		return name, nil
	}
	return "", fmt.Errorf("models: open %s %q: its provider cannot be told from the name: write provider:%s", what, name, name)
}
