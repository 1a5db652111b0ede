package openai

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/treadle-go/treadle/llm"
)

// part is a block of a user's message.
func (m *Model) part(b llm.Block) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	switch b.Type {
	case llm.BlockText, llm.BlockPlain:
		part.OfText = m.text(b)
		return part, nil
	case llm.BlockImage:
		return image(b)
	case llm.BlockAudio:
		return m.audio(b)
	case llm.BlockFile:
		return m.file(b)
	case llm.BlockVideo:
		return m.video(b)
	}
	if m.own {
		return part, fmt.Errorf("OpenAI does not know blocks of type %q", b.Type)
	}
	return raw(b)
}

func image(b llm.Block) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	url := b.DataURL()
	if url == "" {
		return part, fmt.Errorf("an image is sent by its bytes or its address; this one has neither (file id %q)", b.FileID)
	}
	detail, _ := b.Extra["detail"].(string)
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: url, Detail: detail}), nil
}

func (m *Model) audio(b llm.Block) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	if len(b.Data) == 0 {
		return part, fmt.Errorf("audio is sent by its bytes; this has none (address %q, file id %q)", b.URL, b.FileID)
	}
	format := strings.TrimPrefix(strings.TrimPrefix(b.MIMEType, "audio/"), "x-")
	switch format {
	case "mpeg":
		format = "mp3"
	case "wave", "vnd.wave":
		format = "wav"
	}
	if m.own && format != "mp3" && format != "wav" {
		return part, fmt.Errorf("OpenAI takes audio as wav or mp3, not as %q", b.MIMEType)
	}
	return sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{
		Data: base64.StdEncoding.EncodeToString(b.Data), Format: format}), nil
}

func (m *Model) file(b llm.Block) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	var f sdk.ChatCompletionContentPartFileFileParam
	switch {
	case b.FileID != "":
		f.FileID = sdk.String(b.FileID)
	case len(b.Data) > 0 || b.URL != "" && !m.own:
		f.FileData = sdk.String(b.DataURL())
		f.Filename = sdk.String(cmp.Or(b.Filename(), "file")) // the API wants one
	default:
		return part, fmt.Errorf("a file is sent to OpenAI by its bytes or its file id; this one has neither (address %q)", b.URL)
	}
	return sdk.FileContentPart(f), nil
}

// video is a part that several servers know, and OpenAI does not.
func (m *Model) video(b llm.Block) (part sdk.ChatCompletionContentPartUnionParam, err error) {
	url := b.DataURL()
	if m.own {
		return part, fmt.Errorf("OpenAI takes no videos")
	}
	if url == "" {
		return part, fmt.Errorf("a video is sent by its bytes or its address; this one has neither (file id %q)", b.FileID)
	}
	return raw(map[string]any{"type": "video_url", "video_url": map[string]any{"url": url}})
}
