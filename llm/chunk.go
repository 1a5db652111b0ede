package llm

// Chunk is a streamed piece of a model's response. [Collect] joins the pieces of a
// response in order:
//
//   - Content is the next piece of the text. After blocks, it starts or continues a
//     text block at the end.
//   - Blocks are pieces of blocks. A piece is appended to the block with the same
//     Index, unless their IDs or Types differ. A block without an Index is
//     complete.
//   - ToolCalls are pieces of tool calls, joined by their Index in the same way.
//     They come after the Blocks of their chunk. If content follows a call, blocks
//     of type [BlockToolCall] mark the places of the calls.
//   - Usage is summed, so a model reports each count once, or in parts.
//   - Stop and Metadata come when the provider sends them, usually last.
type Chunk struct {
	// ID is the message ID. [Stream] gives all chunks of a response the same ID:
	// that of the first chunk, or a new one. A model need not set it.
	ID        string
	Name      string
	Content   string
	Blocks    []Block
	ToolCalls []ToolCallChunk
	Usage     *Usage
	Stop      StopReason
	Metadata  map[string]any
	Extra     map[string]any
}

// MessageID returns the chunk's ID.
func (c Chunk) MessageID() string { return c.ID }

// Text returns the text of the chunk: Content and the text of its text blocks.
func (c Chunk) Text() string { return Message{Content: c.Content, Blocks: c.Blocks}.Text() }

// Add joins the chunk and the next one. It fails if two values cannot be joined,
// such as a string and a number.
func (c Chunk) Add(next Chunk) (Chunk, error) {
	var sum collector
	if err := sum.add(c); err != nil {
		return Chunk{}, err
	}
	if err := sum.add(next); err != nil {
		return Chunk{}, err
	}
	return sum.chunk(), nil
}

// Message returns the chunk as a message. If Stop is empty, the response is still
// incomplete, and truncated tool call arguments are completed to valid JSON. If
// Stop is set, a call with truncated arguments is invalid.
func (c Chunk) Message() Message {
	var sum collector
	_ = sum.add(c) // a single chunk has nothing to clash with
	return sum.messageSoFar(c.Stop == "")
}
