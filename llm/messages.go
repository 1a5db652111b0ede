package llm

// Messages is a conversation. As a field of a graph's state it merges updates
// by message id: see [Messages.Reduce].
type Messages []Message

// Chat is a state that is nothing but a conversation, for use as it is or for
// embedding beside more fields. It has no methods, so embedding adds none.
type Chat struct {
	Messages Messages `json:"messages"`
}
