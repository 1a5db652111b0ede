package bedrock

import (
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/catalog"
)

// family is the ID of a model without region and profile, such as
// "anthropic.claude-sonnet-5-5". It determines the features of a model,
// which the API does not report.
type family string

var regionPrefix = regexp.MustCompile(`^(us|us-gov|eu|apac|ap|amer|sa|ca|mx|uk|jp|au|in|il|me|af|global)\.`)

// familyOf returns the family of a model, given by its ID, the ID of an inference
// profile, or an ARN. It is meaningless for the ARN of an application inference
// profile.
func familyOf(model string) family {
	if strings.HasPrefix(model, "arn:") {
		model = model[strings.LastIndex(model, "/")+1:]
	}
	return family(regionPrefix.ReplaceAllString(model, ""))
}

// vendor returns the first part of the ID, such as "anthropic".
func (f family) vendor() string {
	v, _, _ := strings.Cut(string(f), ".")
	return v
}

func (f family) claude() bool { return f.vendor() == "anthropic" }

func (f family) nova() bool { return f.any("amazon.nova") }

// any reports whether the ID starts with one of the prefixes.
func (f family) any(prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(string(f), p) })
}

// caches reports whether the model supports cache points.
func (f family) caches() bool { return f.claude() || f.nova() }

// mediaInResults reports whether the model accepts media in tool results.
func (f family) mediaInResults() bool {
	return slices.Contains([]string{"anthropic", "amazon", "meta"}, f.vendor())
}

// acceptsReasoning reports whether the model accepts its reasoning, signed or not.
func (f family) acceptsReasoning(signed bool) bool {
	if f.any("deepseek.r1") {
		return false
	}
	return signed || f.any("openai.gpt-oss", "amazon.nova-2", "deepseek.v3", "minimax.", "moonshot")
}

var (
	// Claude before 4.6 thinks by a token budget, and Claude before 4.5 has no
	// structured output.
	beforeEffort  = regexp.MustCompile(`claude-(2|3|instant|(opus|sonnet|haiku)-4(-[015])?([-@]\d{8}|-v\d|$))`)
	beforeOutputs = regexp.MustCompile(`claude-(v2|2|3|instant|(opus|sonnet)-4(-[01])?([-@]\d{8}|-v\d|$))`)
	// withoutTools lists the models that cannot call tools.
	withoutTools = regexp.MustCompile(`^(amazon\.titan|deepseek\.r1|meta\.llama(2|3-8b|3-70b)|mistral\.(mistral-7b|mixtral)|cohere\.command-(light-)?text|anthropic\.claude-(v2|2|instant))`)
)

// thinksByBudget reports whether a Claude model's thinking is set as a token budget.
func (f family) thinksByBudget() bool { return beforeEffort.MatchString(string(f)) }

// hasOutputs reports whether the model supports structured output.
func (f family) hasOutputs() bool {
	switch f.vendor() {
	case "anthropic":
		return !beforeOutputs.MatchString(string(f))
	case "openai", "qwen", "minimax", "moonshot", "moonshotai", "nvidia", "google", "zai":
		return true
	}
	return f.any("deepseek.v3", "mistral.mistral-large-3", "mistral.magistral", "mistral.ministral")
}

func (f family) hasTools() bool { return !withoutTools.MatchString(string(f)) }

// facts returns the known facts about a model, from package catalog.
func facts(model string) llm.Info {
	f := familyOf(model)
	info := catalog.Complete(llm.Info{Provider: provider, Model: model})
	base := catalog.Complete(llm.Info{Provider: provider, Model: string(f)})
	base.Price = nil // it depends on the profile
	info = info.Or(base)
	if f.claude() { // the limits of a model are the same on all platforms
		bare := versionSuffix.ReplaceAllString(strings.TrimPrefix(string(f), "anthropic."), "")
		own := catalog.Complete(llm.Info{Provider: "anthropic", Model: bare})
		info.NoToolChoice = info.NoToolChoice || own.NoToolChoice
		info.NoTemperature = info.NoTemperature || own.NoTemperature
	}
	info.NativeOutput = info.NativeOutput || f.hasOutputs()
	info.NoTools = info.NoTools || !f.hasTools()
	info.Provider, info.Model = provider, model
	return info
}

var versionSuffix = regexp.MustCompile(`-v\d+(:\d+)?$`)

// profile returns the likely ID of the inference profile for a model in a region.
func profile(region, model string) string {
	for _, p := range []struct{ region, prefix string }{
		{"us-gov-", "us-gov"}, {"us-", "us"}, {"eu-", "eu"}, {"ap-northeast-1", "jp"}, {"ap-northeast-3", "jp"},
		{"ap-southeast-2", "au"}, {"ap-southeast-4", "au"}, {"ap-", "apac"},
	} {
		if strings.HasPrefix(region, p.region) {
			return p.prefix + "." + model
		}
	}
	return "global." + model
}
