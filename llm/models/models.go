// Package models opens models of all providers by name:
//
//	model, err := models.Open("anthropic:claude-sonnet-5-5", llm.Temperature(0))
//	model, err := models.Open("bedrock:us.anthropic.claude-sonnet-5-5")
//	model, err := models.Open("ollama:qwen3:32b")
//	model, err := models.Open("gpt-5-mini") // of OpenAI
//
// Keys and addresses come from the environment, under the names that the providers
// use; see [Providers]. A program that uses one provider needs only that provider's
// package and links less code, because this package links all of them.
package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/anthropic/vertex"
	"github.com/treadle-go/treadle/llm/bedrock"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/ollama"
	"github.com/treadle-go/treadle/llm/openai"
	"github.com/treadle-go/treadle/store"
)

// Open opens a model by provider and model name, and binds options to it. The
// provider may have the name that LangChain's init_chat_model uses. Without a
// provider, the start of the name determines it, as for init_chat_model: gpt-5,
// claude-sonnet-5-5, and gemini-3.8-flash need no provider. (Gemini means the Gemini
// API, not Vertex AI.) Open returns an error if the name belongs to no known family.
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
func OpenEmbedder(name string) (store.Embedder, error) {
	all := Providers()
	full, err := complete("embedder", name, all)
	if err != nil {
		return nil, err
	}
	return llm.OpenEmbedder(full, all...)
}

// Providers returns all providers of this package, for [llm.Open]: openai,
// anthropic, gemini, vertex, bedrock, vertex_anthropic, ollama, Bedrock's APIs in the
// formats of OpenAI and Anthropic, and those whose servers use OpenAI's protocol.
// docs/providers.md lists their environment variables.
func Providers() []llm.Provider {
	all := []llm.Provider{openai.Provider(nil), anthropic.Provider(nil), gemini.Provider(nil), gemini.Provider(&gemini.Options{Vertex: true}),
		bedrock.Provider(nil), vertex.Provider(nil), ollama.Provider(nil), mantleOpenAI, mantleAnthropic}
	for _, p := range presets {
		all = append(all, p.provider())
	}
	return all
}

// aliases maps LangChain's provider names to different names used here.
var aliases = map[string]string{
	"google_genai":            "gemini",
	"google_vertexai":         "vertex",
	"google_anthropic_vertex": "vertex_anthropic",
	"azure_openai":            "azure",
	"azure_ai":                "azure",
	"bedrock_converse":        "bedrock",
	"anthropic_bedrock":       "bedrock",
	"mistralai":               "mistral",
}

// unsupported maps LangChain's names of other providers to what to use instead.
var unsupported = map[string]string{
	"cohere":      "use bedrock with Cohere's models, or openai.New with the address of Cohere's OpenAI-compatible API",
	"huggingface": "use openai.New with the address of an inference endpoint, or vllm for a local server",
	"ibm":         "use openai.New with the address of a gateway that uses OpenAI's protocol, and Options.Token",
	"langsmith":   "use openai.New with the address of the gateway",
	"litellm":     "use openai.New with the address of a LiteLLM proxy, or the model's own provider",
}

// families maps prefixes of model names to the provider. Models that several
// providers serve, such as llama, have no family.
var families = []struct{ prefix, provider string }{
	{"gpt-", "openai"}, {"chatgpt", "openai"}, {"text-davinci", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"}, {"text-embedding-3", "openai"},
	{"claude", "anthropic"},
	{"gemini", "gemini"},
	{"amazon.", "bedrock"}, {"anthropic.", "bedrock"}, {"meta.", "bedrock"}, {"cohere.embed", "bedrock"},
	{"mistral", "mistral"}, {"mixtral", "mistral"}, {"codestral", "mistral"}, {"magistral", "mistral"},
	{"deepseek", "deepseek"},
	{"grok", "xai"},
	{"sonar", "perplexity"},
	{"solar", "upstage"},
	{"accounts/fireworks", "fireworks"},
	{"command", "cohere"},
	{"voyage-", "voyage"},
}

// complete returns a name with its provider.
func complete(what, name string, all []llm.Provider) (string, error) {
	prefix, rest, ok := strings.Cut(name, ":")
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(p llm.Provider) bool { return p.Name == name })
	}
	if !ok || aliases[prefix] == "" && unsupported[prefix] == "" && !known(prefix) {
		lower := strings.ToLower(name)
		for _, f := range families {
			if strings.HasPrefix(lower, f.prefix) {
				prefix, rest, ok = f.provider, name, true
				break
			}
		}
	}
	prefix = cmp.Or(aliases[prefix], prefix)
	switch instead := unsupported[prefix]; {
	case !ok:
		return "", fmt.Errorf("models: open %s %q: unknown provider: write provider:%s", what, name, name)
	case instead != "" && !known(prefix):
		return "", fmt.Errorf("models: open %s %q: provider %s is not supported: %s", what, name, prefix, instead)
	}
	return prefix + ":" + rest, nil // if the provider is unknown, llm.Open's error lists the providers
}
