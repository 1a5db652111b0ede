package llm

import (
	"encoding/base64"
	"maps"
	"strings"
)

// standard returns the block in this package's format if it uses an equivalent
// format of OpenAI, Anthropic, Google, or an earlier LangChain version.
func (b Block) standard() Block {
	switch b.Type {
	case "input_text", "output_text":
		b.Type = BlockText
	case "thinking":
		if text, ok := b.Extra["thinking"].(string); ok {
			b.Type, b.Reasoning, b.Extra = BlockReasoning, text, without(b.Extra, "thinking")
		}
	case "image_url", "input_image":
		if url := urlOf(b.Extra["image_url"]); url != "" {
			b.Extra = without(b.Extra, "image_url")
			b.Type = BlockImage
			b.setURL(url)
		}
	case "input_audio":
		if in, ok := b.Extra["input_audio"].(map[string]any); ok && b.setData(in["data"]) {
			b.Extra = without(b.Extra, "input_audio")
			b.Type, b.MIMEType = BlockAudio, "audio/"+text(in["format"])
		}
	case "media":
		b = b.fromMedia()
	case "document":
		b.Type = BlockFile
		b = b.fromSource()
	case BlockFile, BlockImage, BlockAudio, BlockVideo:
		b = b.fromFile().fromSource().fromSourceType()
	}
	return b
}

// fromFile parses OpenAI's {"file": {"filename", "file_data", "file_id"}}.
func (b Block) fromFile() Block {
	in, ok := b.Extra["file"].(map[string]any)
	if !ok {
		return b
	}
	b.Extra = without(b.Extra, "file")
	b.FileID = text(in["file_id"])
	if url := text(in["file_data"]); url != "" {
		b.setURL(url)
	}
	if name := text(in["filename"]); name != "" {
		b.setExtra("filename", name)
	}
	return b
}

// fromSource parses Anthropic's {"source": {"type", "media_type", "data", …}}.
func (b Block) fromSource() Block {
	in, ok := b.Extra["source"].(map[string]any)
	if !ok {
		return b
	}
	b.Extra = without(b.Extra, "source")
	b.MIMEType = text(in["media_type"])
	switch text(in["type"]) {
	case "base64":
		b.setData(in["data"])
	case "url":
		b.URL = text(in["url"])
	case "file":
		b.FileID = text(in["file_id"])
	case "text":
		b.Type, b.Text = BlockPlain, text(in["data"])
	}
	return b
}

// fromSourceType parses LangChain's earlier {"source_type": "base64", "data": …}.
func (b Block) fromSourceType() Block {
	kind, ok := b.Extra["source_type"].(string)
	if !ok {
		return b
	}
	switch kind {
	case "base64":
		b.setData(b.Extra["data"])
	case "id":
		b.FileID, b.ID = b.ID, ""
	case "text":
		b.Type = BlockPlain
	}
	b.Extra = without(b.Extra, "source_type", "data")
	return b
}

// fromMedia parses Google's {"mime_type", "data" or "file_uri"}.
func (b Block) fromMedia() Block {
	if !b.setData(b.Extra["data"]) {
		b.URL = text(b.Extra["file_uri"])
	}
	b.Extra = without(b.Extra, "data", "file_uri")
	b.Type = BlockFile
	for _, kind := range []string{BlockImage, BlockAudio, BlockVideo} {
		if strings.HasPrefix(b.MIMEType, kind+"/") {
			b.Type = kind
		}
	}
	return b
}

// setURL sets the URL, or the data and MIME type of a base64 data: URL.
func (b *Block) setURL(url string) {
	head, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	if ok && strings.HasPrefix(url, "data:") && b.setData(data) {
		b.MIMEType = head
		return
	}
	b.URL = url
}

func (b *Block) setData(v any) bool {
	data, err := base64.StdEncoding.DecodeString(text(v))
	if err != nil || len(data) == 0 {
		return false
	}
	b.Data = data
	return true
}

// setExtra changes a copy of Extra, because blocks share it.
func (b *Block) setExtra(name string, v any) {
	extra := maps.Clone(b.Extra)
	if extra == nil {
		extra = map[string]any{}
	}
	extra[name] = v
	b.Extra = extra
}

// urlOf returns a URL that OpenAI writes as {"url": "…"} or as "…".
func urlOf(v any) string {
	if in, ok := v.(map[string]any); ok {
		v = in["url"]
	}
	return text(v)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func without(m map[string]any, names ...string) map[string]any {
	out := maps.Clone(m)
	for _, name := range names {
		delete(out, name)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
