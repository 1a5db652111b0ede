package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// input converts a conversation to the items of a request.
type input struct {
	*Model
	noReasoning bool
	author      any // the provider of the current message
	items       []any
	custom      map[string]bool // IDs of the calls of custom tools
}

// addAll adds the messages to send. They are the end of the conversation. reads reports
// whether the model reads images.
func (in *input) addAll(conversation, send llm.Messages, reads bool) error {
	in.custom = map[string]bool{}
	for i := range conversation {
		for _, call := range conversation[i].ToolCalls {
			if call.Extra[extraCustom] == true {
				in.custom[call.ID] = true
			}
		}
	}
	first := len(conversation) - len(send)
	moved := adapter.MoveMedia(send, reads, in.keeps, func(b llm.Block) bool {
		_, err := inputPart(b)
		return err == nil
	})
	in.warn.Media(moved)
	for i := range moved.Messages {
		m := &moved.Messages[i]
		if err := in.add(m); err != nil {
			return fmt.Errorf("message %d (%s): %w", first+moved.At(i), m.Role, err)
		}
	}
	if len(in.items) == 0 {
		return errors.New("nothing to send after the stored response")
	}
	return nil
}

// keeps reports whether a block stays in a model's message: the server's own output.
func (in *input) keeps(m *llm.Message, b llm.Block) bool {
	return b.Type == adapter.Generation && in.wrote(m)
}

func (in *input) add(m *llm.Message) error {
	switch m.Role {
	case llm.RoleSystem:
		return in.said("system", m)
	case llm.RoleHuman:
		return in.said("user", m)
	case llm.RoleAI:
		in.response(m)
		return nil
	case llm.RoleTool:
		return in.result(m)
	}
	return errors.New("invalid role")
}

// said adds a system or user message. Blocks of other types than text and media are
// items of their own, such as mcp_approval_response.
func (in *input) said(role string, m *llm.Message) error {
	var parts, items []any
	for _, b := range m.Parts() {
		part, err := inputPart(b)
		switch {
		case err != nil:
			return err
		case role == "system" && b.Type != llm.BlockText && b.Type != llm.BlockPlain:
			return fmt.Errorf("block of type %s in a system message: move it to a user message", b.Type)
		case part == nil && b.Type != llm.BlockReasoning:
			items = append(items, b)
		case part != nil:
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 && len(items) == 0 {
		parts = []any{object{{"type", "input_text"}, {"text", ""}}}
	}
	if len(parts) > 0 {
		in.items = append(in.items, message(role, parts))
	}
	in.items = append(in.items, items...)
	return nil
}

func message(role string, parts []any) object {
	return object{{"type", "message"}, {"role", role}, {"content", parts}}
}

// inputPart returns a part of a message, or nil if the block is not text or media.
func inputPart(b llm.Block) (part object, err error) {
	switch b.Type {
	case llm.BlockText, llm.BlockPlain:
		part = object{{"type", "input_text"}, {"text", b.Text}}
	case llm.BlockImage:
		part, err = inputImage(b)
	case llm.BlockFile:
		part, err = inputFile(b)
	case llm.BlockAudio, llm.BlockVideo:
		err = fmt.Errorf("block of type %q, which the Responses API does not accept", b.Type)
	default:
		return nil, nil
	}
	if v, ok := b.Extra["prompt_cache_breakpoint"]; ok {
		part = append(part, field{"prompt_cache_breakpoint", v})
	}
	return part, err
}

func inputImage(b llm.Block) (object, error) {
	part := object{{"type", "input_image"}}
	part.add("image_url", b.DataURL())
	part.add("file_id", b.FileID)
	if len(part) != 2 {
		return nil, fmt.Errorf("image requires one of Data, URL, and FileID (URL %q, file ID %q)", b.URL, b.FileID)
	}
	detail, _ := b.Extra["detail"].(string)
	return append(part, field{"detail", cmp.Or(detail, "auto")}), nil // required
}

func inputFile(b llm.Block) (object, error) {
	part := object{{"type", "input_file"}}
	switch {
	case len(b.Data) > 0:
		part = append(part, field{"file_data", b.DataURL()}, field{"filename", cmp.Or(b.Filename(), "file")})
	case b.URL != "":
		part = append(part, field{"file_url", b.URL})
	case b.FileID != "":
		part = append(part, field{"file_id", b.FileID})
	default:
		return nil, fmt.Errorf("file %q requires Data, URL, or FileID", b.Filename())
	}
	if detail, ok := b.Extra["detail"]; ok {
		part = append(part, field{"detail", detail})
	}
	return part, nil
}

// response adds a model's message: its content and calls in order. Reasoning and
// other items go back only to the server that wrote them.
func (in *input) response(m *llm.Message) {
	ours := in.wrote(m)
	in.author = m.Metadata["model_provider"]
	start := len(in.items)
	for b, call := range m.Sequence() {
		var item any
		if call != nil {
			item = in.call(call, ours)
		} else {
			item = in.block(b, ours)
		}
		if item != nil {
			in.items = append(in.items, item)
		}
	}
	// The API rejects reasoning without the item that followed it.
	for n := len(in.items); n > start && isReasoning(in.items[n-1]); n-- {
		in.items = in.items[:n-1]
	}
}

func isReasoning(item any) bool {
	o, ok := item.(object)
	return ok && o[0].value == llm.BlockReasoning
}

// wrote reports whether this server wrote a message. Without model_provider, the
// message may come from any server.
func (m *Model) wrote(msg *llm.Message) bool {
	host, known := msg.Metadata[metaHost].(string)
	return msg.Metadata["model_provider"] == provider && (!known || host == m.client.base.Host)
}

// metaHost is the name in the metadata for the server that wrote a response. Only
// that server can decrypt its reasoning.
const metaHost = "host"

// block returns a block of a model's message as an item, or nil.
func (in *input) block(b llm.Block, ours bool) any {
	switch b.Type {
	case llm.BlockText, llm.BlockPlain:
		return outputText(b, ours)
	case llm.BlockReasoning:
		return in.reasoning(b, ours)
	}
	if !ours || b.Type == adapter.Generation && b.Extra["result"] == nil {
		return nil
	}
	return b
}

// outputText returns a text of a model as a message.
func outputText(b llm.Block, ours bool) any {
	if b.Text == "" {
		return nil
	}
	part := object{{"type", "output_text"}, {"text", b.Text}, {"annotations", []any{}}}
	if ours && b.Extra[extraRefusal] == true {
		part = object{{"type", "refusal"}, {"refusal", b.Text}}
	}
	item := message("assistant", []any{part})
	if ours {
		phase, _ := b.Extra["phase"].(string)
		item.add("phase", phase)
	}
	return item
}

// reasoning returns reasoning as an item, or nil if the server could not use it:
// OpenAI needs the encrypted content, and servers of open models the text.
func (in *input) reasoning(b llm.Block, ours bool) any {
	encrypted, _ := b.Extra["encrypted_content"].(string)
	content, open := b.Extra["content"].([]any)
	if !ours {
		in.warn.ForeignReasoning(in.author)
	}
	if !ours || in.noReasoning || encrypted == "" && !open {
		return nil
	}
	item := object{{"type", "reasoning"}}
	item.add("id", b.ID)
	item = append(item, field{"summary", summaryOf(b)})
	if open {
		item = append(item, field{"content", content})
	}
	item.add("encrypted_content", encrypted)
	return item
}

// summaryOf returns the summary of reasoning in the parts that it came in.
func summaryOf(b llm.Block) []any {
	if list, ok := b.Extra["summary"].([]any); ok {
		return list
	}
	if _, open := b.Extra["content"]; open || b.Reasoning == "" {
		return []any{}
	}
	return []any{object{{"type", "summary_text"}, {"text", b.Reasoning}}}
}

// Fields of a call's or a block's Extra.
const (
	extraCustom  = "custom"  // the tool is a custom tool
	extraRefusal = "refusal" // the text is a refusal
)

// returned lists the fields of a call that the server expects back.
var returned = []string{"namespace", "caller", "async"}

func (in *input) call(call *llm.ToolCall, ours bool) object {
	item := object{{"type", "function_call"}, {"call_id", callID(call.ID)}, {"name", call.Name}, {"arguments", cmp.Or(string(call.Args), "{}")}}
	if in.custom[call.ID] {
		item[0].value = "custom_tool_call"
		item[3] = field{"input", customInput(call.Args)}
	}
	for _, name := range returned {
		if v, ok := call.Extra[name]; ok && ours {
			item = append(item, field{name, v})
		}
	}
	return item
}

// maxCallID is the maximum length of a call ID.
const maxCallID = 64

// callID returns an ID that the API accepts. Other providers' IDs may be longer.
func callID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:20])
}

// result adds a tool result.
func (in *input) result(m *llm.Message) error {
	kind := "function_call_output"
	if in.custom[m.ToolCallID] {
		kind = "custom_tool_call_output"
	}
	var parts []any
	plain := true
	for _, b := range m.Parts() {
		part, err := inputPart(b)
		if err != nil {
			return err
		}
		if part == nil {
			return fmt.Errorf("API does not accept blocks of type %q in tool results", b.Type)
		}
		parts = append(parts, part)
		plain = plain && b.Type == llm.BlockText
	}
	var output any = parts
	if plain {
		output = m.Text()
	}
	in.items = append(in.items, object{{"type", kind}, {"call_id", callID(m.ToolCallID)}, {"output", output}})
	return nil
}
