package openai

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/treadle-go/treadle/llm"
)

// messages is the conversation in the API's words.
func (m *Model) messages(history llm.Messages) ([]sdk.ChatCompletionMessageParamUnion, error) {
	turn := 0 // where the present turn begins
	for i := range history {
		if history[i].Role == llm.RoleHuman {
			turn = i
		}
	}
	out := make([]sdk.ChatCompletionMessageParamUnion, 0, len(history))
	var shown []sdk.ChatCompletionContentPartUnionParam // by tools, not yet sent
	for i := range history {
		msg := &history[i]
		if msg.Role != llm.RoleTool {
			out, shown = flush(out, shown), nil
		}
		var one sdk.ChatCompletionMessageParamUnion
		var err error
		switch msg.Role {
		case llm.RoleSystem:
			one, err = m.system(msg)
		case llm.RoleHuman:
			one, err = m.user(msg)
		case llm.RoleAI:
			one, err = m.assistant(msg, i > turn)
		case llm.RoleTool:
			var media []sdk.ChatCompletionContentPartUnionParam
			one, media, err = m.tool(msg)
			shown = append(shown, media...)
		default:
			err = fmt.Errorf("there is no such role in the API")
		}
		if err != nil {
			return nil, fmt.Errorf("message %d (%s): %w", i, msg.Role, err)
		}
		out = append(out, one)
	}
	return flush(out, shown), nil
}

// flush sends what tools have shown. The API takes media from users only, and
// nothing may stand between the results of one answer's calls.
func flush(out []sdk.ChatCompletionMessageParamUnion, shown []sdk.ChatCompletionContentPartUnionParam) []sdk.ChatCompletionMessageParamUnion {
	if len(shown) == 0 {
		return out
	}
	return append(out, sdk.UserMessage(shown))
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// nameOf is a speaker's name as the API allows it.
func nameOf(name string) (o param.Opt[string]) {
	if name = strings.Trim(notInName.ReplaceAllString(name, "_"), "_"); name != "" {
		o = sdk.String(name[:min(len(name), 64)])
	}
	return o
}

func (m *Model) system(msg *llm.Message) (out sdk.ChatCompletionMessageParamUnion, err error) {
	texts, media := m.texts(msg)
	if len(media) > 0 {
		return out, fmt.Errorf("a block of type %s cannot be sent in a system prompt: give it to the user's message", media[0].Type)
	}
	if text, ok := plain(texts); ok {
		out = sdk.SystemMessage(text)
	} else {
		out = sdk.SystemMessage(texts)
	}
	out.OfSystem.Name = nameOf(msg.Name)
	return out, nil
}

func (m *Model) user(msg *llm.Message) (out sdk.ChatCompletionMessageParamUnion, err error) {
	texts, media := m.texts(msg)
	if text, ok := plain(texts); ok && len(media) == 0 {
		out = sdk.UserMessage(text)
		out.OfUser.Name = nameOf(msg.Name)
		return out, nil
	}
	var parts []sdk.ChatCompletionContentPartUnionParam
	for _, b := range msg.Parts() {
		if b.Type == llm.BlockReasoning {
			continue
		}
		part, err := m.part(b)
		if err != nil {
			return out, err
		}
		parts = append(parts, part)
	}
	out = sdk.UserMessage(parts)
	out.OfUser.Name = nameOf(msg.Name)
	return out, nil
}

// assistant is an answer of a model. With current set it is of the turn that is
// going on.
func (m *Model) assistant(msg *llm.Message, current bool) (out sdk.ChatCompletionMessageParamUnion, err error) {
	a := &sdk.ChatCompletionAssistantMessageParam{Name: nameOf(msg.Name)}
	var text strings.Builder
	var thoughts []llm.Block
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			text.WriteString(b.Text)
		case llm.BlockReasoning:
			thoughts = append(thoughts, b)
		case llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile:
			if b.Type == llm.BlockAudio && b.ID != "" {
				a.Audio.ID = b.ID // the server knows what it said
				continue
			}
			return out, fmt.Errorf("a block of type %s cannot be sent: the API takes them from users only", b.Type)
		}
		// Blocks of other types are another provider's notes on its own work.
	}
	for _, call := range msg.ToolCalls {
		a.ToolCalls = append(a.ToolCalls, m.call(call))
	}
	fields := map[string]any{}
	if !m.own {
		fields = sendBack(thoughts, current)
	}
	if text.Len() > 0 || len(a.ToolCalls) == 0 {
		a.Content.OfString = sdk.String(text.String())
	} else {
		fields["content"] = nil // some servers want to see that there is none
	}
	if len(fields) > 0 {
		a.SetExtraFields(fields)
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: a}, nil
}

func (m *Model) call(call llm.ToolCall) sdk.ChatCompletionMessageToolCallUnionParam {
	args := string(call.Args)
	if args == "" {
		args = "{}"
	}
	fn := &sdk.ChatCompletionMessageFunctionToolCallParam{ID: call.ID,
		Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: call.Name, Arguments: args}}
	if v, there := call.Extra[extraContent]; there && !m.own {
		fn.SetExtraFields(map[string]any{extraContent: v})
	}
	return sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: fn}
}

// tool is a result. Its media come apart, with a word on what they are.
func (m *Model) tool(msg *llm.Message) (out sdk.ChatCompletionMessageParamUnion, media []sdk.ChatCompletionContentPartUnionParam, err error) {
	texts, blocks := m.texts(msg)
	if len(blocks) > 0 {
		what := fmt.Sprintf("From the tool %s (call %s):", msg.Name, msg.ToolCallID)
		media = append(media, sdk.TextContentPart(what))
		if len(texts) == 0 {
			texts = append(texts, sdk.ChatCompletionContentPartTextParam{Text: "The result is in the next message of the user."})
		}
	}
	for _, b := range blocks {
		part, err := m.part(b)
		if err != nil {
			return out, nil, err
		}
		media = append(media, part)
	}
	if text, ok := plain(texts); ok {
		return sdk.ToolMessage(text, msg.ToolCallID), media, nil
	}
	return sdk.ToolMessage(texts, msg.ToolCallID), media, nil
}

// texts is the texts of a message, and the blocks that are none.
func (m *Model) texts(msg *llm.Message) (texts []sdk.ChatCompletionContentPartTextParam, media []llm.Block) {
	for _, b := range msg.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			texts = append(texts, *m.text(b))
		case llm.BlockReasoning:
		default:
			media = append(media, b)
		}
	}
	return texts, media
}

// plain is the texts as a string, which all servers understand, if nothing is
// lost by it.
func plain(texts []sdk.ChatCompletionContentPartTextParam) (string, bool) {
	switch {
	case len(texts) == 0:
		return "", true
	case len(texts) == 1 && len(texts[0].ExtraFields()) == 0:
		return texts[0].Text, true
	}
	return "", false
}

// text is a text with the marks that servers put on texts for their caches.
func (m *Model) text(b llm.Block) *sdk.ChatCompletionContentPartTextParam {
	t := &sdk.ChatCompletionContentPartTextParam{Text: b.Text}
	mark := "cache_control" // OpenRouter's
	if m.own {
		mark = "prompt_cache_breakpoint"
	}
	if v, there := b.Extra[mark]; there {
		t.SetExtraFields(map[string]any{mark: v})
	}
	return t
}

// raw is a part of the content as it is.
func raw(v any) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return part, err
	}
	return param.Override[sdk.ChatCompletionContentPartUnionParam](json.RawMessage(data)), nil
}
