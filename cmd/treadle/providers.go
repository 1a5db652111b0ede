package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// defaultModels are the models by the keys that are looked for, in this order.
var defaultModels = []struct{ key, model string }{
	{"OPENAI_API_KEY", "gpt-5-mini"},
	{"ANTHROPIC_API_KEY", "claude-sonnet-5-5"},
	{"GEMINI_API_KEY", "gemini-3.8-flash"},
}

// anthropic and gemini are reached through their endpoints that speak OpenAI's
// protocol: the clients of their own would take most of the command's size and
// of the time to build it, and the demo needs nothing that only they have.
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

// openModel chooses who does the talking.
func (f *demoFlags) openModel() (llm.Model, error) {
	providers := []llm.Provider{openai.Provider(&openai.Options{BaseURL: f.baseURL}), anthropic.provider(), gemini.provider(),
		{Name: offlineName, Model: func(string) (llm.Model, error) { return offline{time.Duration(f.pace)}, nil }}}
	name := f.model
	switch {
	case f.baseURL != "" && name == "":
		return nil, errors.New("--base-url needs --model, the model's name on that server")
	case f.baseURL != "":
		return providers[0].Model(name) // a name of its own, which may have colons
	case name == "":
		name = offlineName
		for i, m := range defaultModels {
			if os.Getenv(m.key) != "" {
				name = providers[i].Name + ":" + m.model
				break
			}
		}
	}
	if name == offlineName {
		name += ":rules"
	}
	return llm.Open(name, providers...)
}

// compatible is a provider with an endpoint that speaks OpenAI's protocol.
type compatible struct {
	info     llm.Info
	keys     []string // environment variables, the first that is set counts
	baseURL  string   // the provider's address, if the variable baseName has none
	baseName string
	path     string // of the endpoint
}

func (c *compatible) provider() llm.Provider {
	return llm.Provider{Name: c.info.Provider, Model: c.open}
}

func (c *compatible) open(name string) (llm.Model, error) {
	key := ""
	for _, variable := range c.keys {
		key = cmp.Or(key, os.Getenv(variable))
	}
	if key == "" { // or openai would take that of OpenAI, and send it to another
		return nil, fmt.Errorf("there is no API key: set the environment variable %s", c.keys[0])
	}
	base := strings.TrimSuffix(cmp.Or(os.Getenv(c.baseName), c.baseURL), "/") + c.path
	m, err := openai.New(name, &openai.Options{Key: key, BaseURL: base})
	if err != nil {
		return nil, err
	}
	info := c.info
	info.Model = name
	return named{m, info}, nil
}

// named is a model that is reached through the protocol of another provider. It
// goes by its own name, in errors too.
type named struct {
	llm.Model
	info llm.Info
}

// Describe implements [llm.Describer].
func (m named) Describe() llm.Info { return m.info }

// Stream implements [llm.Model].
func (m named) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for chunk, err := range m.Model.Stream(ctx, req) {
			if e, ok := errors.AsType[*llm.Error](err); ok {
				own := *e
				own.Provider = m.info.Provider
				err = &own
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}
