package llm

import "encoding/base64"

// The types of blocks that providers' adapters understand. A block may have any
// other type: it is kept as it is, and adapters decide whether to send it.
const (
	BlockText      = "text"       // Text
	BlockReasoning = "reasoning"  // Reasoning
	BlockImage     = "image"      // URL, Data or FileID
	BlockAudio     = "audio"      // URL, Data or FileID
	BlockVideo     = "video"      // URL, Data or FileID
	BlockFile      = "file"       // URL, Data or FileID
	BlockPlain     = "text-plain" // a document as text: Text
)

// Block is a piece of a message's content. Its Type says which fields count.
type Block struct {
	Type string
	ID   string
	// Index is the block's place in a streamed answer: pieces with the same
	// Index are one block.
	Index *int

	Text      string
	Reasoning string

	// Media is given by exactly one of URL, Data (in JSON: base64) and FileID,
	// the provider's name for something uploaded before.
	URL      string
	Data     []byte
	FileID   string
	MIMEType string

	// Extra holds the fields of the block's JSON that have no field here:
	// annotations, cache_control, a reasoning block's signature, extras. They
	// are kept and written back. Where pieces of a block are merged, texts in
	// Extra are joined too.
	Extra map[string]any
}

// Text is a block of text, for messages that hold more than text.
func Text(text string) Block { return Block{Type: BlockText, Text: text} }

// Image is a picture given by its bytes.
func Image(mimeType string, data []byte) Block {
	return Block{Type: BlockImage, MIMEType: mimeType, Data: data}
}

// ImageURL is a picture given by its address.
func ImageURL(url string) Block { return Block{Type: BlockImage, URL: url} }

// Audio is sound given by its bytes.
func Audio(mimeType string, data []byte) Block {
	return Block{Type: BlockAudio, MIMEType: mimeType, Data: data}
}

// File is a document given by its bytes, such as a PDF. The name may be empty.
func File(name, mimeType string, data []byte) Block {
	b := Block{Type: BlockFile, MIMEType: mimeType, Data: data}
	if name != "" {
		b.Extra = map[string]any{"filename": name}
	}
	return b
}

// Filename is the name of a file block, or "".
func (b Block) Filename() string {
	name, _ := b.Extra["filename"].(string)
	return name
}

// DataURL is the address of the block's media: its URL, or its Data as a data:
// URL. It is "" if there is neither.
func (b Block) DataURL() string {
	if b.URL != "" || len(b.Data) == 0 {
		return b.URL
	}
	return "data:" + b.MIMEType + ";base64," + base64.StdEncoding.EncodeToString(b.Data)
}
