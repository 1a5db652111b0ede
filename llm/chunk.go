package llm

// Chunk is a piece of a model's answer as it is streamed. A model yields the
// pieces in order; joined they are the answer ([Collect]):
//
//   - Content is the next piece of the text. It continues the text so far,
//     also behind a block of another type.
//   - Blocks are pieces of blocks. A piece continues the block that has the same
//     Index (and no other ID or Type); a block without an Index is a whole one.
//   - ToolCalls are pieces of tool calls, joined by their Index in the same way.
//   - Usage is added up, so a model reports a count once, or as differences.
//   - Stop and Metadata come when the provider tells them, usually last.
type Chunk struct {
	// ID of the message. [Stream] gives every chunk of an answer the same one:
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

// MessageID is the chunk's ID.
func (c Chunk) MessageID() string { return c.ID }

// Text returns the text of the chunk: Content and that of its text blocks.
func (c Chunk) Text() string { return Message{Content: c.Content, Blocks: c.Blocks}.Text() }

// Add joins the chunk and the one that follows it. It fails if a value of one
// cannot be continued by the other's, such as a text by a number.
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

// Message is the answer as far as the chunk goes. While the model has not
// stopped (Stop is empty), arguments of tool calls that break off in the middle
// are completed to what they say so far; once it has, such a call is invalid.
func (c Chunk) Message() Message {
	var sum collector
	_ = sum.add(c) // a single chunk has nothing to clash with
	return sum.messageSoFar(c.Stop == "")
}
