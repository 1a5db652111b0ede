package gemini

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"mime"
	"net/url"
	"path"
	"strings"

	"google.golang.org/genai"

	"github.com/treadle-go/treadle/llm"
)

// mediaPart is a block that is no text.
func mediaPart(b llm.Block) (*genai.Part, error) {
	switch b.Type {
	case llm.BlockImage, llm.BlockAudio, llm.BlockVideo, llm.BlockFile:
	default:
		return nil, fmt.Errorf("gemini: blocks of type %q are not accepted", b.Type)
	}
	if len(b.Data) == 0 && strings.HasPrefix(b.URL, "data:") {
		head, data, _ := strings.Cut(strings.TrimPrefix(b.URL, "data:"), ";base64,")
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fmt.Errorf("the data: URL of its %s: %w", b.Type, err)
		}
		b.Data, b.MIMEType = raw, cmp.Or(b.MIMEType, head)
	}
	switch {
	case len(b.Data) > 0 && b.MIMEType == "":
		return nil, fmt.Errorf("its %s has no MIMEType, which Gemini requires for Data", b.Type)
	case len(b.Data) > 0:
		return &genai.Part{InlineData: &genai.Blob{Data: b.Data, MIMEType: b.MIMEType}}, nil
	case b.FileID != "":
		at := b.FileID
		if !strings.Contains(at, "://") {
			at = ownFiles + strings.TrimPrefix(at, "files/")
		}
		return &genai.Part{FileData: &genai.FileData{FileURI: at, MIMEType: b.MIMEType}}, nil
	case b.URL != "":
		return &genai.Part{FileData: &genai.FileData{FileURI: b.URL, MIMEType: cmp.Or(b.MIMEType, typeOf(b.URL))}}, nil
	}
	return nil, fmt.Errorf("its %s has no URL, Data or FileID", b.Type)
}

// typeOf guesses from the ending of an address.
func typeOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(u.Path)), ";")
	return kind
}

// responsePart is a part in the form that it has in the result of a function.
func responsePart(p *genai.Part) *genai.FunctionResponsePart {
	if p.InlineData != nil {
		return genai.NewFunctionResponsePartFromBytes(p.InlineData.Data, p.InlineData.MIMEType)
	}
	return genai.NewFunctionResponsePartFromURI(p.FileData.FileURI, p.FileData.MIMEType)
}

// mediaBlock is a picture or a sound that the model made.
func mediaBlock(p *genai.Part) llm.Block {
	var b llm.Block
	if p.InlineData != nil {
		b.Data, b.MIMEType = p.InlineData.Data, p.InlineData.MIMEType
	} else {
		b.URL, b.MIMEType = p.FileData.FileURI, p.FileData.MIMEType
	}
	switch kind, _, _ := strings.Cut(b.MIMEType, "/"); kind {
	case llm.BlockImage, llm.BlockAudio, llm.BlockVideo:
		b.Type = kind
	default:
		b.Type = llm.BlockFile
	}
	return b
}
