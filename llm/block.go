package llm

import "encoding/base64"

// Block types supported by all provider packages. A block may have any other type:
// it is kept unchanged, and the provider's package decides whether to send it.
const (
	BlockText      = "text"       // uses Text
	BlockReasoning = "reasoning"  // uses Reasoning
	BlockImage     = "image"      // uses URL, Data, or FileID
	BlockAudio     = "audio"      // uses URL, Data, or FileID
	BlockVideo     = "video"      // uses URL, Data, or FileID
	BlockFile      = "file"       // uses URL, Data, or FileID
	BlockPlain     = "text-plain" // a text document; uses Text
	BlockToolCall  = "tool_call"  // the place of the tool call with this ID
)

// Block is a part of a message's content. Its Type determines which fields are
// used.
type Block struct {
	Type string
	ID   string
	// Index is the block's position in a streamed response: pieces with the same
	// Index form one block.
	Index *int

	Text      string
	Reasoning string

	// Media uses exactly one of URL, Data (base64 in JSON), and FileID, the
	// provider's ID of an uploaded file.
	URL      string
	Data     []byte
	FileID   string
	MIMEType string

	// Extra contains the fields of the block's JSON that have no field here, such
	// as annotations, cache_control, and a reasoning block's signature. They are
	// written back to JSON. When pieces of a block are joined, strings in Extra are
	// joined too.
	Extra map[string]any
}

// Text returns a text block, for messages that also contain other blocks.
func Text(text string) Block { return Block{Type: BlockText, Text: text} }

// Image returns an image block with the given bytes.
func Image(mimeType string, data []byte) Block {
	return Block{Type: BlockImage, MIMEType: mimeType, Data: data}
}

// ImageURL returns an image block with the given URL.
func ImageURL(url string) Block { return Block{Type: BlockImage, URL: url} }

// Audio returns an audio block with the given bytes.
func Audio(mimeType string, data []byte) Block {
	return Block{Type: BlockAudio, MIMEType: mimeType, Data: data}
}

// File returns a block with a document, such as a PDF. The name may be empty.
func File(name, mimeType string, data []byte) Block {
	b := Block{Type: BlockFile, MIMEType: mimeType, Data: data}
	if name != "" {
		b.Extra = map[string]any{"filename": name}
	}
	return b
}

// Filename returns the file name of a file block, or "".
func (b Block) Filename() string {
	name, _ := b.Extra["filename"].(string)
	return name
}

// DataURL returns the URL of the block's media, or its Data as a data: URL. It
// returns "" if the block has neither.
func (b Block) DataURL() string {
	if b.URL != "" || len(b.Data) == 0 {
		return b.URL
	}
	return "data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}
