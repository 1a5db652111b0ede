package gemini

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// conversation converts messages to the API's format.
type conversation struct {
	provider string
	insists  bool // calls without a signature are rejected
	warn     *adapter.Warner

	system   *genai.Content
	contents []*genai.Content
	calls    map[string]string // tool names by call ID
}

func (c *conversation) addAll(conversation llm.Messages) error {
	c.calls = map[string]string{}
	moved := adapter.MoveMedia(conversation, true, func(_ *llm.Message, b llm.Block) bool { return c.accepts(b) }, c.accepts)
	c.warn.Media(moved)
	for i := range moved.Messages {
		m := &moved.Messages[i]
		if err := c.add(m, i > 0 && moved.Messages[i-1].Role == llm.RoleTool); err != nil {
			return &llm.HistoryError{Index: moved.At(i), ID: m.ID, CallID: m.ToolCallID, Reason: err.Error()}
		}
	}
	if len(c.contents) == 0 {
		return errors.New("only system messages: add a user message")
	}
	return nil
}

// accepts reports whether media can be sent.
func (c *conversation) accepts(b llm.Block) bool {
	_, err := mediaPart(b)
	return err == nil && (c.provider != vertexProvider || !isUpload(b))
}

// add appends a message. Consecutive tool messages form one turn, because the API
// requires the results of all calls together.
func (c *conversation) add(m *llm.Message, behindTool bool) error {
	if c.provider == vertexProvider && slices.ContainsFunc(m.Blocks, isUpload) {
		return errors.New("files uploaded to the Gemini API are not available on Vertex AI: use Data, or a URL such as gs://bucket/file")
	}
	role := genai.Role(genai.RoleUser)
	var parts []*genai.Part
	var err error
	switch m.Role {
	case llm.RoleSystem:
		return c.addSystem(m)
	case llm.RoleHuman:
		if parts, err = human(m); err == nil && len(parts) == 0 {
			err = errors.New("empty message: Gemini requires content")
		}
	case llm.RoleAI:
		role = genai.RoleModel
		if parts, err = c.model(m); err == nil && len(parts) == 0 {
			return nil // only the reasoning of another provider's model
		}
	case llm.RoleTool:
		var part *genai.Part
		part, err = c.result(m)
		parts = []*genai.Part{part}
		if err == nil && behindTool {
			last := len(c.contents) - 1
			c.contents[last].Parts = append(c.contents[last].Parts, part)
			return nil
		}
	default:
		err = fmt.Errorf("unknown role %q", m.Role)
	}
	c.contents = append(c.contents, &genai.Content{Role: string(role), Parts: parts})
	return err
}

func (c *conversation) addSystem(m *llm.Message) error {
	for _, b := range m.Parts() {
		if b.Type != llm.BlockText && b.Type != llm.BlockPlain {
			return fmt.Errorf("system message contains a block of type %q: only text is supported", b.Type)
		}
		if c.system == nil {
			c.system = &genai.Content{}
		}
		c.system.Parts = append(c.system.Parts, &genai.Part{Text: b.Text})
	}
	return nil
}

func human(m *llm.Message) ([]*genai.Part, error) {
	var parts []*genai.Part
	for _, b := range m.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			parts = append(parts, &genai.Part{Text: b.Text})
		default:
			part, err := mediaPart(b)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// model returns the parts of an AI message. If the message is Gemini's, they include its
// reasoning and signatures.
func (c *conversation) model(m *llm.Message) ([]*genai.Part, error) {
	ours := isOurs(m, c.provider)
	if !ours && slices.ContainsFunc(m.Parts(), func(b llm.Block) bool { return b.Type == llm.BlockReasoning }) {
		c.warn.ForeignReasoning(m.Metadata["model_provider"])
	}
	var parts []*genai.Part
	for b, call := range m.Sequence() {
		var part *genai.Part
		var err error
		if call != nil {
			part, err = c.callPart(call, ours)
		} else {
			part, err = modelPart(b, ours)
		}
		if err != nil {
			return nil, err
		}
		if part != nil {
			parts = append(parts, part)
		}
	}
	if c.insists {
		prove(parts)
	}
	return parts, nil
}

func (c *conversation) callPart(call *llm.ToolCall, ours bool) (*genai.Part, error) {
	f := &genai.FunctionCall{Name: call.Name}
	if !madeHere(call.ID) {
		f.ID = call.ID
	}
	if err := json.Unmarshal(argsOf(call.Args), &f.Args); err != nil {
		return nil, fmt.Errorf("arguments of the call to %s: %w", call.Name, err)
	}
	c.calls[call.ID] = call.Name
	part := &genai.Part{FunctionCall: f}
	if ours {
		part.ThoughtSignature = signatureOf(call.Extra)
	}
	return part, nil
}

// prove marks the first call as not signed, unless a call has a signature. Of
// several parallel calls, the model signs only the first.
func prove(parts []*genai.Part) {
	var first *genai.Part
	for _, p := range parts {
		switch {
		case p.FunctionCall == nil:
		case p.ThoughtSignature != nil:
			return
		case first == nil:
			first = p
		}
	}
	if first != nil {
		first.ThoughtSignature = unsigned
	}
}

func argsOf(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// modelPart converts a block of an AI message. It returns nil for a block that need not or
// must not be sent.
func modelPart(b llm.Block, ours bool) (*genai.Part, error) {
	var sign []byte
	if ours {
		sign = signatureOf(b.Extra)
	}
	if b.Type == llm.BlockText && b.Text == "" {
		// In a stream, the signature of a text follows it in an empty part.
		if sign == nil {
			return nil, nil
		}
		return &genai.Part{ThoughtSignature: sign}, nil
	}
	if b.Type == partBlock {
		if !ours { // Vertex AI and the Gemini API have different tools
			return nil, nil
		}
		return plainJSON[*genai.Part](b.Extra[partField])
	}
	switch b.Type {
	case llm.BlockText, llm.BlockPlain:
		return &genai.Part{Text: b.Text, ThoughtSignature: sign}, nil
	case llm.BlockReasoning:
		if !ours {
			return nil, nil
		}
		return &genai.Part{Text: b.Reasoning, Thought: true, ThoughtSignature: sign}, nil
	case llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile:
		part, err := mediaPart(b)
		if err == nil {
			part.ThoughtSignature = sign
		}
		return part, err
	}
	return nil, nil
}

// aliases maps provider names to the names in LangChain's messages.
var aliases = map[string]string{provider: "google_genai", vertexProvider: "google_vertexai"}

// isOurs reports whether the provider can use a message's signatures and reasoning.
func isOurs(m *llm.Message, provider string) bool {
	from, ok := m.Metadata["model_provider"].(string)
	return !ok || slices.Contains([]string{provider, aliases[provider], ""}, from)
}

const signatureField = "signature"

// signatureOf returns the thought signature in the Extra of a block or call. In
// LangChain's messages, it may be in extras and use URL-safe base64. A damaged
// signature is ignored, because the API would reject the request.
func signatureOf(extra map[string]any) []byte {
	text, ok := extra[signatureField].(string)
	if !ok {
		extras, _ := extra["extras"].(map[string]any)
		text, _ = extras[signatureField].(string)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(text))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return raw
}

// The API documents a word that replaces the signature of a call that Gemini did
// not make. It must be sent verbatim and not as base64, so completeParts puts it
// where the SDK has put the base64 of unsigned.
const (
	unsignedWord  = "skip_thought_signature_validator"
	unsignedAsSDK = "skip/thought/signature/validator"
)

var unsigned, _ = base64.StdEncoding.DecodeString(unsignedAsSDK)

// completeParts fixes what the SDK cannot encode: the word for unsigned calls, and
// empty texts that must be present because the API rejects empty parts.
func completeParts(body map[string]any) {
	contents, _ := body["contents"].([]map[string]any)
	for _, content := range contents {
		parts, _ := content["parts"].([]map[string]any)
		for _, part := range parts {
			if part["thoughtSignature"] == unsignedAsSDK {
				part["thoughtSignature"] = unsignedWord
			}
			if !slices.ContainsFunc(partData, func(name string) bool { return part[name] != nil }) {
				part["text"] = ""
			}
		}
	}
}

// partData lists the fields of which each part has one.
var partData = []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse"}

// result returns a tool result.
func (c *conversation) result(m *llm.Message) (*genai.Part, error) {
	name, ok := c.calls[m.ToolCallID]
	if !ok {
		name = m.Name
	}
	r := &genai.FunctionResponse{Name: name}
	if !madeHere(m.ToolCallID) {
		r.ID = m.ToolCallID
	}
	var text strings.Builder
	for _, b := range m.Parts() {
		switch b.Type {
		case llm.BlockText, llm.BlockPlain:
			text.WriteString(b.Text)
		default:
			part, err := mediaPart(b)
			if err != nil {
				return nil, err
			}
			r.Parts = append(r.Parts, responsePart(part))
		}
	}
	field := "output"
	if m.Status == llm.StatusError {
		field = "error"
	}
	r.Response = map[string]any{field: text.String()}
	return &genai.Part{FunctionResponse: r}, nil
}
