package llmtest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// Provider is how a provider's package shows itself to the suite ([Run]). The
// suite runs an HTTP server; these functions make it speak the provider's wire
// format, as the provider documents it:
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
// The functions are independent of the package's own code for the format (they
// are written from the documentation, by hand), so that one mistake is not made
// twice.
type Provider struct {
	// Open is the model under test, with the server at url as its provider. It
	// must not retry by itself: [llm.Retry] does that for all providers alike.
	Open func(t *testing.T, url string) llm.Model
	// Request reads a request that the server got.
	Request func(r *http.Request, body []byte) (Received, error)
	// Whole is the body of a response that is not streamed.
	Whole func(Reply) []byte
	// Stream is the body of a streamed response, in the pieces in which it
	// arrives: one for each event, with its line ends.
	Stream func(Reply) [][]byte
	// StreamType is the content type of streamed responses; text/event-stream if
	// empty.
	StreamType string
	// Failure is the body of a response with an error status.
	Failure func(Failure) []byte
	// Lacks names the cases that the provider has no means for, each with the
	// reason: {"Refusal": "there is no refusal in the protocol"}.
	Lacks map[string]string
}

// Reply is what the fake provider is to answer.
type Reply struct {
	// Reasoning comes first, then Text, then Calls. Each element is a piece of a
	// stream.
	Reasoning []string
	// Signature is the provider's proof of its reasoning, where it has one.
	Signature string
	Text      []string
	Calls     []Call
	// Interleave streams the pieces of the calls in turn, one of each, if the
	// protocol can.
	Interleave bool
	// Stop is the reason for the end. With StopRefusal, Text is what the model
	// says about it.
	Stop llm.StopReason
	// Usage is reported once. Of the details only cache_read and reasoning
	// are set.
	Usage llm.Usage
}

// Call is a tool call that the fake provider asks for.
type Call struct {
	ID   string // for protocols that have ids
	Name string
	Args []string // pieces of the JSON object
}

// Failure is an error that the fake provider reports.
type Failure struct {
	Status  int
	Code    string // such as rate_limit_error, in the provider's own words where it must be
	Message string
}

// Received is what a request to the provider says, in this module's terms.
type Received struct {
	Model string
	// Stream: the answer is to be streamed.
	Stream bool
	// System is the system prompt, its parts joined by an empty line.
	System string
	// Messages is the rest of the conversation: roles, content (text and blocks
	// of this package's types), tool calls, and one tool message for each result
	// (with ToolCallID, or Name where the protocol has no ids).
	Messages []llm.Message
	Tools    []ReceivedTool
	// ToolChoice is as in [llm.Request]; "" if the request does not say.
	ToolChoice string
	// Output is the schema that the answer must have, if any.
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

// closeWithin is how soon a cancelled call must have closed its connection. It takes
// about a millisecond; a machine may be busy.
const closeWithin = 10 * time.Second
