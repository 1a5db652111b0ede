package mcptool

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/internal/origin"
	"github.com/treadle-go/treadle/llm"
)

// result converts a server's response to a tool result, without the secrets of the server's
// configuration.
func (s *session) result(r *mcp.CallToolResult) (any, error) {
	m := llm.Message{Artifact: s.showAll(r.StructuredContent)}
	if r.IsError {
		m.Status = llm.StatusError
	}
	for _, c := range r.Content {
		b, err := s.shown(c)
		if err != nil {
			return nil, err
		}
		m.Blocks = append(m.Blocks, b)
	}
	switch {
	case len(m.Blocks) == 0 && r.StructuredContent != nil:
		raw, err := json.Marshal(m.Artifact)
		if err != nil {
			return nil, err
		}
		m.Content = string(raw)
	case len(m.Blocks) == 1 && m.Blocks[0].Type == llm.BlockText:
		m.Content, m.Blocks = m.Blocks[0].Text, nil
	}
	return m, nil
}

// shown converts a part of a response, without the secrets of the server's configuration.
func (s *session) shown(c mcp.Content) (llm.Block, error) {
	b, err := block(c)
	b.Text, b.URL = s.show(b.Text), s.show(b.URL)
	b.Extra, _ = s.showAll(b.Extra).(map[string]any)
	return b, err
}

// showAll hides secrets in all strings of a JSON value.
func (s *session) showAll(v any) any {
	switch v := v.(type) {
	case string:
		return s.show(v)
	case []any:
		for i := range v {
			v[i] = s.showAll(v[i])
		}
	case map[string]any:
		if v == nil {
			return nil
		}
		out := make(map[string]any, len(v))
		for name, in := range v {
			out[s.show(name)] = s.showAll(in)
		}
		return out
	}
	return v
}

func block(c mcp.Content) (llm.Block, error) {
	switch c := c.(type) {
	case *mcp.TextContent:
		return llm.Text(c.Text), nil
	case *mcp.ImageContent:
		return llm.Image(c.MIMEType, c.Data), nil
	case *mcp.AudioContent:
		return llm.Audio(c.MIMEType, c.Data), nil
	case *mcp.ResourceLink:
		return linked(c), nil
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			break
		}
		if c.Resource.Blob == nil {
			return llm.Text(c.Resource.Text), nil
		}
		b := llm.File(path.Base(c.Resource.URI), c.Resource.MIMEType, c.Resource.Blob)
		if kind := mediaType(c.Resource.MIMEType); kind != llm.BlockFile {
			b.Type, b.Extra = kind, nil
		}
		return b, nil
	}
	return llm.Block{}, fmt.Errorf("%w: unsupported content type %T", ErrNoResponse, c)
}

// linked converts a link to a block that the model's provider can fetch, or otherwise to text,
// which the model can pass to another tool. A link to a private address is text: a provider in
// this network, or a program that shows the block, would fetch it.
func linked(l *mcp.ResourceLink) llm.Block {
	if origin.PublicURL(l.URI) {
		b := llm.Block{Type: mediaType(l.MIMEType), URL: l.URI, MIMEType: l.MIMEType}
		if b.Type == llm.BlockFile && l.Name != "" {
			b.Extra = map[string]any{"filename": l.Name}
		}
		return b
	}
	text := l.URI
	if l.Name != "" {
		text = l.Name + ": " + text
	}
	if l.Description != "" {
		text += "\n" + l.Description
	}
	return llm.Text(text)
}

// mediaType returns the block type for data of a MIME type.
func mediaType(mime string) string {
	for prefix, kind := range map[string]string{"image/": llm.BlockImage, "audio/": llm.BlockAudio, "video/": llm.BlockVideo} {
		if strings.HasPrefix(mime, prefix) {
			return kind
		}
	}
	return llm.BlockFile
}

// answer converts a tool message to an MCP result.
func answer(m llm.Message) (*mcp.CallToolResult, error) {
	out := &mcp.CallToolResult{Content: []mcp.Content{}, IsError: m.Status == llm.StatusError}
	if m.Content != "" || len(m.Blocks) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: m.Content})
	}
	for _, b := range m.Blocks {
		out.Content = append(out.Content, content(b))
	}
	if m.Artifact == nil {
		return out, nil
	}
	raw, err := json.Marshal(m.Artifact)
	if err != nil {
		return nil, fmt.Errorf("encode artifact: %w", err)
	}
	// Clients before 2026 accept only objects.
	if !strings.HasPrefix(string(raw), "{") {
		raw = fmt.Appendf(nil, `{"result":%s}`, raw)
	}
	out.StructuredContent = json.RawMessage(raw)
	return out, nil
}

func content(b llm.Block) mcp.Content {
	switch {
	case b.Type == llm.BlockText || b.Type == llm.BlockPlain:
		return &mcp.TextContent{Text: b.Text}
	case b.URL != "":
		name := b.Filename()
		if name == "" {
			name = path.Base(b.URL)
		}
		return &mcp.ResourceLink{URI: b.URL, Name: name, MIMEType: b.MIMEType}
	case b.Type == llm.BlockImage && b.Data != nil:
		return &mcp.ImageContent{Data: b.Data, MIMEType: b.MIMEType}
	case b.Type == llm.BlockAudio && b.Data != nil:
		return &mcp.AudioContent{Data: b.Data, MIMEType: b.MIMEType}
	case b.Data != nil:
		return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "file:///" + url.PathEscape(b.Filename()), MIMEType: b.MIMEType, Blob: b.Data}}
	}
	raw, err := json.Marshal(b)
	if err != nil {
		raw = []byte(err.Error())
	}
	return &mcp.TextContent{Text: string(raw)}
}
