package openai

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// part returns a block of a user message in the API's format.
func (m *Model) part(b llm.Block) (any, error) {
	switch b.Type {
	case llm.BlockText, llm.BlockPlain:
		return m.text(b), nil
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
		return nil, fmt.Errorf("OpenAI does not accept blocks of type %q", b.Type)
	}
	return b, nil
}

func image(b llm.Block) (any, error) {
	url := b.DataURL()
	if url == "" {
		return nil, fmt.Errorf("image without Data or URL (file ID %q)", b.FileID)
	}
	image := object{{"url", url}}
	detail, _ := b.Extra["detail"].(string)
	image.add("detail", detail)
	return object{{"image_url", image}, {"type", "image_url"}}, nil
}

func (m *Model) audio(b llm.Block) (any, error) {
	if len(b.Data) == 0 {
		return nil, fmt.Errorf("audio without Data (URL %q, file ID %q)", b.URL, b.FileID)
	}
	format := strings.TrimPrefix(strings.TrimPrefix(b.MIMEType, "audio/"), "x-")
	switch format {
	case "mpeg":
		format = "mp3"
	case "wave", "vnd.wave":
		format = "wav"
	}
	if m.own && format != "mp3" && format != "wav" {
		return nil, fmt.Errorf("OpenAI accepts audio as wav or mp3, not as %q", b.MIMEType)
	}
	sound := object{{"data", base64.StdEncoding.EncodeToString(b.Data)}}
	sound.add("format", format)
	return object{{"input_audio", sound}, {"type", "input_audio"}}, nil
}

func (m *Model) file(b llm.Block) (any, error) {
	var f object
	switch {
	case b.FileID != "":
		f = object{{"file_id", b.FileID}}
	case len(b.Data) > 0 || b.URL != "" && !m.own:
		f = object{{"file_data", b.DataURL()}, {"filename", cmp.Or(b.Filename(), "file")}} // the API requires a name
	default:
		return nil, fmt.Errorf("file without Data or FileID (URL %q)", b.URL)
	}
	return object{{"file", f}, {"type", "file"}}, nil
}

// video returns a part that several servers support, but OpenAI does not.
func (m *Model) video(b llm.Block) (any, error) {
	url := b.DataURL()
	if m.own {
		return nil, fmt.Errorf("OpenAI does not accept videos")
	}
	if url == "" {
		return nil, fmt.Errorf("video without Data or URL (file ID %q)", b.FileID)
	}
	return object{{"type", "video_url"}, {"video_url", object{{"url", url}}}}, nil
}
