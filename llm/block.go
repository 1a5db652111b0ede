package llm

import "encoding/base64"

// The types of blocks that all providers' packages know. A block may have any
// other type: it is kept unchanged, and the provider's package decides whether to
// send it.
const (
	BlockText      = "text"       // uses Text
	BlockReasoning = "reasoning"  // uses Reasoning
	BlockImage     = "image"      // uses URL, Data or FileID
	BlockAudio     = "audio"      // uses URL, Data or FileID
	BlockVideo     = "video"      // uses URL, Data or FileID
	BlockFile      = "file"       // uses URL, Data or FileID
	BlockPlain     = "text-plain" // a document of text; uses Text
)

// Block is a part of a message's content. Its Type says which fields are used.
type Block struct {
	Type string
	ID   string
	// Index is the block's position in a streamed answer: pieces with the same
	// Index are one block.
	Index *int

	Text      string
	Reasoning string

	// Media has exactly one of URL, Data (base64 in JSON) and FileID, which is
	// the provider's id of an uploaded file.
	URL      string
	Data     []byte
	FileID   string
	MIMEType string

	// Extra holds the fields of the block's JSON that have no field here, such as
	// annotations, cache_control and a reasoning block's signature. They are
	// written back to JSON. When pieces of a block are joined, strings in Extra
	// are joined too.
	Extra map[string]any
}

// Text returns a block of text, for messages that have other blocks too.
func Text(text string) Block { return Block{Type: BlockText, Text: text} }

// Image returns a block with an image, given by its bytes.
func Image(mimeType string, data []byte) Block {
	return Block{Type: BlockImage, MIMEType: mimeType, Data: data}
}

// ImageURL returns a block with an image, given by its URL.
func ImageURL(url string) Block { return Block{Type: BlockImage, URL: url} }

// Audio returns a block with sound, given by its bytes.
func Audio(mimeType string, data []byte) Block {
	return Block{Type: BlockAudio, MIMEType: mimeType, Data: data}
}

// File returns a block with a document, such as a PDF, given by its bytes. The
// name may be empty.
func File(name, mimeType string, data []byte) Block {
	b := Block{Type: BlockFile, MIMEType: mimeType, Data: data}
	if name != "" {
		b.Extra = map[string]any{"filename": name}
	}
	return b
}

// Filename returns the name of a file block, or "".
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
