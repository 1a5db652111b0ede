package llmtest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// Provider describes a provider's package to the suite ([Run]). The suite runs an
// HTTP server, and these functions read and write the provider's wire format:
//
//	func TestProvider(t *testing.T) {
//		llmtest.Run(t, llmtest.Provider{
//			Open:    func(t *testing.T, url string) llm.Model { return anthropic.New("claude-x", &anthropic.Options{BaseURL: url, Key: "key"}) },
//			Request: readRequest,
//			Whole:   writeMessage,
//			Stream:  writeEvents,
//			Failure: writeError,
//		})
//	}
//
// The functions must not use the package's own code for the format. Write them from
// the provider's documentation, so that a mistake in one is detected by the other.
type Provider struct {
	// Open returns the model under test, with the server at url as its provider.
	// The model must not retry, because [llm.Retry] does that.
	Open func(t *testing.T, url string) llm.Model
	// Request decodes a request that the server received.
	Request func(r *http.Request, body []byte) (Received, error)
	// Whole returns the body of a response that is not streamed.
	Whole func(Reply) []byte
	// Stream returns the body of a streamed response in pieces: one for each event,
	// including its line endings.
	Stream func(Reply) [][]byte
	// StreamType is the content type of streamed responses; empty means
	// text/event-stream.
	StreamType string
	// Failure returns the body of a response with an error status.
	Failure func(Failure) []byte
	// Lacks maps the cases that the provider's API cannot support to the reason:
	// {"Refusal": "there is no refusal in the protocol"}.
	Lacks map[string]string
}

// Reply is a response of the fake provider.
type Reply struct {
	// Reasoning comes first, then Text, then Calls. When streamed, each element is
	// one piece.
	Reasoning []string
	// Signature is the provider's signature of the reasoning, if any.
	Signature string
	Text      []string
	Calls     []Call
	// Interleave streams the pieces of the calls alternately, if the protocol
	// supports it.
	Interleave bool
	// Stop is the stop reason. With StopRefusal, Text explains the refusal.
	Stop llm.StopReason
	// Usage is reported once. Only the details cache_read and reasoning are set.
	Usage llm.Usage
}

// Call is a tool call that the fake provider requests.
type Call struct {
	ID   string // for protocols with IDs
	Name string
	Args []string // pieces of the JSON object
}

// Failure is an error that the fake provider reports.
type Failure struct {
	Status  int
	Code    string // such as rate_limit_error, or the provider's own code where required
	Message string
}

// Received is a request to the provider, decoded into the types of this module.
type Received struct {
	Model string
	// Stream is set if the request asks for a stream.
	Stream bool
	// System is the system prompt, with its parts separated by an empty line.
	System string
	// Messages is the rest of the conversation: roles, content (text and blocks of
	// package llm's types), tool calls, and one tool message for each result (with
	// ToolCallID, or Name where the protocol has no IDs).
	Messages []llm.Message
	Tools    []ReceivedTool
	// ToolChoice is as in [llm.Request]; "" if the request does not set it.
	ToolChoice string
	// Output is the schema of the response, if any.
	Output      json.RawMessage
	MaxTokens   int
	Temperature *float64
	StopWords   []string
}

// ReceivedTool is a tool that a request offers.
type ReceivedTool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// closeWithin is the time within which a canceled call must close its connection.
// Closing takes about a millisecond, but the machine may be busy.
const closeWithin = 10 * time.Second
