package models

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
	"github.com/treadle-go/treadle/store"
)

// preset is a provider whose server uses OpenAI's protocol.
type preset struct {
	name string
	key  string // environment variable of the API key
	base string // environment variable of the server's address
	url  string // default address; "" if the variable is required
	path string // path of the API, optional in the variable
	open bool   // the key is optional
	only bool   // it has only embedders
}

var presets = []preset{
	{name: "azure", key: "AZURE_OPENAI_API_KEY", base: "AZURE_OPENAI_ENDPOINT", path: "/openai/v1"},
	{name: "mistral", key: "MISTRAL_API_KEY", base: "MISTRAL_BASE_URL", url: "https://api.mistral.ai", path: "/v1"},
	{name: "groq", key: "GROQ_API_KEY", base: "GROQ_BASE_URL", url: "https://api.groq.com", path: "/openai/v1"},
	{name: "deepseek", key: "DEEPSEEK_API_KEY", base: "DEEPSEEK_BASE_URL", url: "https://api.deepseek.com", path: "/v1"},
	{name: "xai", key: "XAI_API_KEY", base: "XAI_BASE_URL", url: "https://api.x.ai", path: "/v1"},
	{name: "openrouter", key: "OPENROUTER_API_KEY", base: "OPENROUTER_BASE_URL", url: "https://openrouter.ai", path: "/api/v1"},
	{name: "together", key: "TOGETHER_API_KEY", base: "TOGETHER_BASE_URL", url: "https://api.together.xyz", path: "/v1"},
	{name: "fireworks", key: "FIREWORKS_API_KEY", base: "FIREWORKS_BASE_URL", url: "https://api.fireworks.ai", path: "/inference/v1"},
	{name: "perplexity", key: "PERPLEXITY_API_KEY", base: "PERPLEXITY_BASE_URL", url: "https://api.perplexity.ai"},
	{name: "nvidia", key: "NVIDIA_API_KEY", base: "NVIDIA_BASE_URL", url: "https://integrate.api.nvidia.com", path: "/v1"},
	{name: "upstage", key: "UPSTAGE_API_KEY", base: "UPSTAGE_BASE_URL", url: "https://api.upstage.ai", path: "/v1/solar"},
	{name: "baseten", key: "BASETEN_API_KEY", base: "BASETEN_BASE_URL", url: "https://inference.baseten.co", path: "/v1"},
	{name: "meta", key: "MODEL_API_KEY", base: "META_BASE_URL", url: "https://api.meta.ai", path: "/v1"},
	{name: "voyage", key: "VOYAGE_API_KEY", base: "VOYAGE_BASE_URL", url: "https://api.voyageai.com", path: "/v1", only: true},
	{name: "vllm", key: "VLLM_API_KEY", base: "VLLM_BASE_URL", url: "http://127.0.0.1:8000", path: "/v1", open: true},
	{name: "lmstudio", key: "LMSTUDIO_API_KEY", base: "LMSTUDIO_BASE_URL", url: "http://127.0.0.1:1234", path: "/v1", open: true},
}

// provider returns a provider that reads the environment when it opens a model or
// embedder.
func (p preset) provider() llm.Provider {
	out := llm.Provider{
		Name: p.name,
		Model: func(name string) (llm.Model, error) {
			o, err := p.options()
			if err != nil {
				return nil, err
			}
			return openai.Provider(o).Model(name)
		},
		Embedder: func(name string) (store.Embedder, error) {
			o, err := p.options()
			if err != nil {
				return nil, err
			}
			return openai.Provider(o).Embedder(name)
		},
	}
	if p.only {
		out.Model = nil
	}
	return out
}

func (p preset) options() (*openai.Options, error) {
	address, err := p.address()
	if err != nil {
		return nil, err
	}
	o := &openai.Options{Provider: p.name, BaseURL: address, Key: os.Getenv(p.key), Azure: p.name == "azure"}
	switch {
	case o.Azure: // a token may replace the key
	case o.Key == "" && !p.open:
		return nil, fmt.Errorf("no API key: set the environment variable %s", p.key)
	case o.Key == "":
		// Otherwise package openai sends OpenAI's key.
		o.Header = http.Header{"Authorization": nil}
	}
	return o, nil
}

// address returns the address of the API. Users write the server's address with the
// API's path, as for OpenAI's clients, or without it, as for the provider's own
// clients; and for local servers also without http://.
func (p preset) address() (string, error) {
	url := p.url
	if p.name == "voyage" && strings.HasPrefix(os.Getenv(p.key), "al-") {
		url = "https://ai.mongodb.com" // for keys of MongoDB Atlas
	}
	address := strings.TrimRight(cmp.Or(os.Getenv(p.base), url), "/")
	if address == "" {
		return "", fmt.Errorf("no address: set the environment variable %s", p.base)
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	if !strings.HasSuffix(address, p.path) {
		address += p.path
	}
	return address, nil
}
