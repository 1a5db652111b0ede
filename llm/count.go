package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Counter counts the tokens of messages. Only a provider can count exactly;
// [CountTokens] is an estimate for all providers.
type Counter func(ctx context.Context, ms []Message) (int, error)

// CountOptions configures [CountTokens]. A nil *CountOptions means the defaults.
type CountOptions struct {
	// CharsPerToken is the number of characters per token; 0 means 4. For
	// Anthropic's models, 3.3 is closer.
	CharsPerToken float64
	// PerMessage is the number of tokens of a message in addition to its text; nil
	// means 3.
	PerMessage *float64
	// PerImage is the number of tokens of an image; 0 means 85.
	PerImage int
	// NoNames excludes the names of messages.
	NoNames bool
	// Tools are counted once, by their JSON.
	Tools []*Tool
	// Scale corrects the estimate by the usage that the provider reported with the
	// last AI message. The correction only increases the estimate, by at most a
	// quarter. It applies only if all AI messages come from one provider
	// (model_provider in their Metadata).
	Scale bool
}

// CountTokens estimates the number of tokens of the messages from the number of
// characters in their texts, tool calls, and names. The formula is LangChain's. The
// results may differ by a few characters, because CountTokens counts the JSON of
// tool calls and unknown blocks, and LangChain their Python notation. LangChain
// does not count the calls of a message with blocks; CountTokens does, unless the
// blocks repeat them.
func CountTokens(ms []Message, opts *CountOptions) int {
	c := counting(opts)
	total := c.tools()
	provider, mixed := "", false
	reported, guessed := 0, 0.0
	ais := 0
	for i := range ms {
		m := &ms[i]
		total += c.message(m)
		if !c.Scale || m.Role != RoleAI {
			continue
		}
		p := text(m.Metadata["model_provider"])
		mixed = mixed || ais > 0 && p != provider
		provider = p
		ais++
		if p != "" && m.Usage != nil && m.Usage.Total > 0 {
			reported, guessed = m.Usage.Total, total
		}
	}
	if len(ms) > 1 && !mixed && guessed > 0 {
		total *= min(1.25, max(1, float64(reported)/guessed))
	}
	return int(math.Ceil(total))
}

type counter struct {
	CountOptions
	perMessage float64
}

func counting(opts *CountOptions) *counter {
	if opts == nil {
		opts = &CountOptions{}
	}
	c := &counter{CountOptions: *opts, perMessage: 3}
	c.CharsPerToken = cmp.Or(c.CharsPerToken, 4)
	c.PerImage = cmp.Or(c.PerImage, 85)
	if opts.PerMessage != nil {
		c.perMessage = *opts.PerMessage
	}
	return c
}

func (c *counter) tools() float64 {
	if len(c.Tools) == 0 {
		return 0
	}
	return math.Ceil(float64(toolsLen(c.Tools)) / c.CharsPerToken)
}

// message returns the count of one message. Counts are additive.
func (c *counter) message(m *Message) float64 {
	chars, images := utf8.RuneCountInString(m.Content), 0
	repeated := false // blocks contain the calls
	for i := range m.Blocks {
		switch b := &m.Blocks[i]; {
		case b.Type == BlockText:
			chars += utf8.RuneCountInString(b.Text)
		case b.Type == BlockImage || b.Type == "image_url":
			images++
		case b.Type != BlockToolCall || len(b.Extra) > 0:
			chars += jsonLen(b)
			repeated = repeated || repeatsCall(b.Type)
		}
	}
	if len(m.ToolCalls) > 0 && !repeated {
		chars += jsonLen(m.ToolCalls)
	}
	if m.Role == RoleTool {
		chars += utf8.RuneCountInString(m.ToolCallID)
	}
	chars += len(openAIName(m))
	if !c.NoNames {
		chars += utf8.RuneCountInString(m.Name)
	}
	return math.Ceil(float64(chars)/c.CharsPerToken) + float64(images*c.PerImage) + c.perMessage
}

func jsonLen(v any) int {
	raw, err := json.Marshal(v)
	if err != nil {
		return 0 // it cannot be sent either
	}
	return utf8.RuneCount(raw)
}

// toolSize is the length of a tool's description as JSON, which agents count in each call.
type toolSize struct {
	name, description string
	schema            *jsonschema.Schema
	n                 int
}

// toolsLen returns the length of the descriptions of tools, or 0 if they cannot be sent.
func toolsLen(tools []*Tool) int {
	n := 1 + len(tools) // brackets and commas
	for _, t := range tools {
		one := t.size()
		if one == 0 {
			return 0
		}
		n += one
	}
	return n
}

func (t *Tool) size() int {
	if t.resolved == nil || len(t.Extra) > 0 {
		return jsonLen(describeTools([]*Tool{t})[0])
	}
	// A copy of the tool, which shares the pointer, may have another name.
	if s := t.resolved.size.Load(); s != nil && s.name == t.Name && s.description == t.Description && s.schema == t.Parameters {
		return s.n
	}
	n := jsonLen(describeTools([]*Tool{t})[0])
	t.resolved.size.Store(&toolSize{t.Name, t.Description, t.Parameters, n})
	return n
}

// openAIName returns the role's name in OpenAI's API.
func openAIName(m *Message) string {
	switch m.Role {
	case RoleHuman:
		return "user"
	case RoleAI:
		return "assistant"
	case RoleSystem:
		kwargs, _ := m.Extra["additional_kwargs"].(map[string]any)
		return cmp.Or(text(kwargs[openAIRole]), "system")
	}
	return string(m.Role)
}
