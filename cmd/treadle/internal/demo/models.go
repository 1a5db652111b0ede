package demo

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// DefaultModels lists the environment variables where [OpenModel] looks for keys, in order, and
// the model that it opens for each.
var DefaultModels = []struct{ Key, Model string }{
	{"OPENAI_API_KEY", "gpt-5-mini"},
	{"ANTHROPIC_API_KEY", "claude-sonnet-5-5"},
	{"GEMINI_API_KEY", "gemini-3.8-flash"},
}

// anthropic and gemini are used through their OpenAI-compatible endpoints. Their own clients
// would account for most of the command's size and build time, and the demo needs no feature
// that only they have.
var (
	anthropic = &compatible{
		info:    llm.Info{Provider: "anthropic"}, // the endpoint ignores response_format
		keys:    []string{"ANTHROPIC_API_KEY"},
		baseURL: "https://api.anthropic.com", baseName: "ANTHROPIC_BASE_URL", path: "/v1",
	}
	gemini = &compatible{
		info:    llm.Info{Provider: "gemini", NativeOutput: true},
		keys:    []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		baseURL: "https://generativelanguage.googleapis.com", baseName: "GOOGLE_GEMINI_BASE_URL", path: "/v1beta/openai",
	}
)

// Offline is the name of the rule-based model.
const Offline = "offline"

// ModelOptions configures [OpenModel].
type ModelOptions struct {
	Name    string        // provider:model, [Offline], or "" for the first provider whose key is set
	BaseURL string        // address of an OpenAI-compatible server, if not ""
	Pace    time.Duration // the offline model's pause between two words
}

// OpenModel opens a model.
func OpenModel(o ModelOptions) (llm.Model, error) {
	providers := []llm.Provider{openai.Provider(&openai.Options{BaseURL: o.BaseURL}), anthropic.provider(), gemini.provider(),
		{Name: Offline, Model: func(string) (llm.Model, error) { return offline{pace: o.Pace}, nil }}}
	name := o.Name
	switch {
	case o.BaseURL != "" && name == "":
		return nil, errors.New("--base-url requires --model, the model's name on that server")
	case o.BaseURL != "":
		return providers[0].Model(name) // the server's name for the model, which may contain colons
	case name == "":
		name = Offline
		for i, m := range DefaultModels {
			if os.Getenv(m.Key) != "" {
				name = providers[i].Name + ":" + m.Model
				break
			}
		}
	}
	if name == Offline {
		name += ":rules"
	}
	return llm.Open(name, providers...)
}

// compatible is a provider with an OpenAI-compatible endpoint.
type compatible struct {
	info     llm.Info
	keys     []string // environment variables; the first one that is set is used
	baseURL  string   // the provider's address, unless the environment variable baseName is set
	baseName string
	path     string // the endpoint's path
}

func (c *compatible) provider() llm.Provider {
	return llm.Provider{Name: c.info.Provider, Model: c.open}
}

func (c *compatible) open(name string) (llm.Model, error) {
	key := ""
	for _, variable := range c.keys {
		key = cmp.Or(key, os.Getenv(variable))
	}
	if key == "" { // otherwise package openai would send OpenAI's key to this provider
		return nil, fmt.Errorf("missing API key: set the environment variable %s", c.keys[0])
	}
	base := strings.TrimSuffix(cmp.Or(os.Getenv(c.baseName), c.baseURL), "/") + c.path
	m, err := openai.New(name, &openai.Options{Provider: c.info.Provider, Key: key, BaseURL: base})
	if err != nil {
		return nil, err
	}
	info := c.info
	info.Model = name
	return named{m, info}, nil
}

// named describes a model that is used through OpenAI's protocol.
type named struct {
	llm.Model
	info llm.Info
}

// Describe implements [llm.Describer].
func (m named) Describe() llm.Info { return m.info }
