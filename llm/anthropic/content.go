package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/treadle-go/treadle/llm"
)

// contentOf returns the content of a user or tool message.
func contentOf(parts []llm.Block) ([]sdk.ContentBlockParamUnion, error) {
	var out []sdk.ContentBlockParamUnion
	for _, b := range parts {
		if b.Type == llm.BlockText && blank(b.Text) {
			continue
		}
		block, err := blockParam(b)
		if err != nil {
			return nil, err
		}
		out = append(out, block)
	}
	return out, nil
}

func blockParam(b llm.Block) (out sdk.ContentBlockParamUnion, err error) {
	if b, err = inlined(b); err != nil {
		return out, err
	}
	switch b.Type {
	case llm.BlockText:
		text := textParam(b)
		out.OfText = &text
	case llm.BlockImage:
		out.OfImage, err = imageParam(b)
	case llm.BlockPlain:
		out.OfDocument = documentParam(b)
		out.OfDocument.Source.OfText = &sdk.PlainTextSourceParam{Data: b.Text}
	case llm.BlockFile:
		if strings.HasPrefix(b.MIMEType, "image/") {
			out.OfImage, err = imageParam(b)
			break
		}
		out.OfDocument, err = fileParam(b)
	case "search_result", "container_upload":
		return unchanged(b)
	default:
		err = fmt.Errorf("unsupported block type %q", b.Type)
	}
	return out, err
}

// inlined converts a data: URL to Data.
func inlined(b llm.Block) (llm.Block, error) {
	rest, ok := strings.CutPrefix(b.URL, "data:")
	if !ok {
		return b, nil
	}
	kind, data, ok := strings.Cut(rest, ";base64,")
	raw, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil {
		return b, fmt.Errorf("block of type %q: data: URL is not base64", b.Type)
	}
	b.URL, b.Data, b.MIMEType = "", raw, kind
	return b, nil
}

// extra returns a field of the API from the block's Extra.
func extra[T param.ParamStruct, P param.InferPtr[T]](b llm.Block, name string) (out T) {
	if v, ok := b.Extra[name]; ok && v != nil {
		return param.Override[T, P](v)
	}
	return out
}

func textParam(b llm.Block) sdk.TextBlockParam {
	return sdk.TextBlockParam{Text: b.Text, CacheControl: extra[sdk.CacheControlEphemeralParam](b, "cache_control")}
}

func imageParam(b llm.Block) (*sdk.ImageBlockParam, error) {
	out := &sdk.ImageBlockParam{
		CacheControl:    extra[sdk.CacheControlEphemeralParam](b, "cache_control"),
		Transformations: extra[sdk.ImageTransformationsParam](b, "transformations"),
	}
	switch {
	case len(b.Data) > 0:
		kind := b.MIMEType
		if kind == "" {
			kind = http.DetectContentType(b.Data)
		}
		out.Source.OfBase64 = &sdk.Base64ImageSourceParam{Data: base64.StdEncoding.EncodeToString(b.Data), MediaType: sdk.Base64ImageSourceMediaType(kind)}
	case b.URL != "":
		out.Source.OfURL = &sdk.URLImageSourceParam{URL: b.URL}
	case b.FileID != "":
		out.Source.OfFile = &sdk.FileImageSourceParam{FileID: b.FileID}
	default:
		return nil, errors.New("image block without Data, URL, or FileID")
	}
	return out, nil
}

func documentParam(b llm.Block) *sdk.DocumentBlockParam {
	out := &sdk.DocumentBlockParam{
		CacheControl: extra[sdk.CacheControlEphemeralParam](b, "cache_control"),
		Citations:    extra[sdk.CitationsConfigParam](b, "citations"),
	}
	if title, ok := b.Extra["title"].(string); ok {
		out.Title = param.NewOpt(title)
	} else if name := b.Filename(); name != "" {
		out.Title = param.NewOpt(name)
	}
	if context, ok := b.Extra["context"].(string); ok {
		out.Context = param.NewOpt(context)
	}
	return out
}

func fileParam(b llm.Block) (*sdk.DocumentBlockParam, error) {
	out := documentParam(b)
	switch {
	case len(b.Data) > 0:
		kind := b.MIMEType
		if kind == "" {
			kind = http.DetectContentType(b.Data)
		}
		kind, _, _ = mime.ParseMediaType(kind)
		switch {
		case kind == "application/pdf":
			out.Source.OfBase64 = &sdk.Base64PDFSourceParam{Data: base64.StdEncoding.EncodeToString(b.Data)}
		case (strings.HasPrefix(kind, "text/") || kind == "application/json") && utf8.Valid(b.Data):
			out.Source.OfText = &sdk.PlainTextSourceParam{Data: string(b.Data)}
		default:
			return nil, fmt.Errorf("file %q of unsupported type %q: use a PDF or UTF-8 text", b.Filename(), kind)
		}
	case b.URL != "":
		out.Source.OfURL = &sdk.URLPDFSourceParam{URL: b.URL}
	case b.FileID != "":
		out.Source.OfFile = &sdk.FileDocumentSourceParam{FileID: b.FileID}
	default:
		return nil, fmt.Errorf("file %q without Data, URL, or FileID", b.Filename())
	}
	return out, nil
}

// unchanged returns a block exactly as the API sent it.
func unchanged(b llm.Block) (sdk.ContentBlockParamUnion, error) {
	b.Index = nil
	raw, err := json.Marshal(b)
	if err != nil {
		return sdk.ContentBlockParamUnion{}, fmt.Errorf("block of type %q: %w", b.Type, err)
	}
	return param.Override[sdk.ContentBlockParamUnion](json.RawMessage(raw)), nil
}

// resultOf returns a tool result.
func resultOf(m *llm.Message) (out sdk.ContentBlockParamUnion, err error) {
	result := &sdk.ToolResultBlockParam{ToolUseID: m.ToolCallID}
	if m.Status == llm.StatusError {
		result.IsError = param.NewOpt(true)
	}
	content, err := contentOf(m.Parts())
	if err != nil {
		return out, err
	}
	for _, b := range content {
		part := sdk.ToolResultBlockParamContentUnion{OfText: b.OfText, OfImage: b.OfImage, OfDocument: b.OfDocument}
		if raw, ok := b.Overrides(); ok {
			part = param.Override[sdk.ToolResultBlockParamContentUnion](raw)
		}
		result.Content = append(result.Content, part)
	}
	out.OfToolResult = result
	return out, nil
}

// answerContent returns the content of an AI message to send back, in order: the API
// rejects thinking in another place.
func answerContent(m *llm.Message) ([]sdk.ContentBlockParamUnion, error) {
	var out []sdk.ContentBlockParamUnion
	_, own := author(m)
	for b, call := range m.Sequence() {
		var block sdk.ContentBlockParamUnion
		switch {
		case call != nil:
			block = callParam(*call)
		case b.Type == llm.BlockText || b.Type == llm.BlockPlain:
			if blank(b.Text) {
				continue
			}
			text := textParam(b)
			if own {
				text.Citations = citationParams(b)
			}
			block.OfText = &text
		case b.Type == llm.BlockReasoning:
			signature, ok := b.Extra["signature"].(string)
			if !own || !ok {
				continue
			}
			block.OfThinking = &sdk.ThinkingBlockParam{Thinking: b.Reasoning, Signature: signature}
		default:
			if !own || !isServerBlock(b.Type) {
				continue
			}
			var err error
			if block, err = unchanged(b); err != nil {
				return nil, err
			}
		}
		out = append(out, block)
	}
	return out, nil
}

// citationParams returns the citations of a text. Those of a web search contain
// references that Claude needs in later turns.
func citationParams(b llm.Block) []sdk.TextCitationParamUnion {
	cited, _ := b.Extra["citations"].([]any)
	var out []sdk.TextCitationParamUnion
	for _, c := range cited {
		if fields, ok := c.(map[string]any); ok {
			fields = maps.Clone(fields)
			delete(fields, "file_id") // only in responses
			out = append(out, param.Override[sdk.TextCitationParamUnion](fields))
		}
	}
	return out
}

// author returns the provider whose model wrote a message, and whether it may be
// Claude.
func author(m *llm.Message) (from string, own bool) {
	from, known := m.Metadata["model_provider"].(string)
	return from, !known || from == provider
}

func isThought(b llm.Block) bool { return b.Type == llm.BlockReasoning }

// isWritten reports whether a block is a text that is sent to Claude.
func isWritten(b llm.Block) bool {
	return (b.Type == llm.BlockText || b.Type == llm.BlockPlain) && !blank(b.Text)
}

// isServerBlock reports whether blocks of a type occur in Claude's responses
// besides texts, thinking, and tool calls. They are sent back unchanged.
func isServerBlock(kind string) bool {
	return kind == "redacted_thinking" || kind == "server_tool_use" || kind == "container_upload" || strings.HasSuffix(kind, "_tool_result")
}

func callParam(call llm.ToolCall) sdk.ContentBlockParamUnion {
	use := &sdk.ToolUseBlockParam{ID: call.ID, Name: call.Name, Input: call.Args}
	if len(call.Args) == 0 {
		use.Input = json.RawMessage("{}")
	}
	fields := llm.Block{Extra: call.Extra}
	use.CacheControl = extra[sdk.CacheControlEphemeralParam](fields, "cache_control")
	use.Caller = extra[sdk.ToolUseBlockParamCallerUnion](fields, "caller")
	if set, ok := call.Extra["toolset_name"].(string); ok {
		use.ToolsetName = param.NewOpt(set)
	}
	return sdk.ContentBlockParamUnion{OfToolUse: use}
}
