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
//			Open: func(t *testing.T, url string) llm.Model {
//				m, err := anthropic.New("claude-x", &anthropic.Options{BaseURL: url, Key: "key"})
//				if err != nil {
//					t.Fatal(err)
//				}
//				return m
//			},
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
	// The model must not retry, because [llm.Retry] does that, and must not follow
	// redirects to another host, which would get the key and the conversation.
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
	// Unknown is an event of a stream whose type does not exist yet. Models must
	// ignore it, and log one warning.
	Unknown []byte
	// Failure returns the body of a response with an error status or, if
	// Failure.Stream is set, an event that reports the error within a stream; nil
	// means that the API has no such event.
	Failure func(Failure) []byte
	// Overflow is the error that reports a conversation that exceeds the context
	// window.
	Overflow Failure
	// Tool is a tool that the provider runs.
	Tool Tool
	// Lacks maps the cases that the provider's API cannot support to the reason:
	// {"Refusal": "there is no refusal in the protocol"}. The cases are
	//
	//  Text, StreamedText, Conversation, Settings, Usage, ToolCalls, StreamedToolCalls,
	//  ParallelStreamedToolCalls, ToolResults, ToolChoice, Images, StructuredOutput,
	//  Reasoning, BlockOrder, ReasoningLoop, ReasoningAfterKill, ProviderTools,
	//  OtherHistories, Refusal, LengthStop, Unauthorized, Overflow, RateLimited,
	//  RateLimitedWithoutWait, ServerError, Redirect, IdleConnection, CutConnection,
	//  CutAtEveryByte, UnknownEvents, Garbage, HTML, Cancellation, LeavingTheLoop,
	//  Concurrency.
	//
	// Lacks can also name parts of cases: ReasoningUsage, CacheReadUsage, and
	// CacheCreationUsage (of Usage) if the API does not count these tokens
	// separately, StopWords (of Settings), StreamCancellation (of Cancellation) if the
	// API does not stream, HistoryImages (of OtherHistories) if it accepts no images at
	// all, and UnknownEventLog (of UnknownEvents) if the package logs nothing.
	Lacks map[string]string
}

// Reply is a response of the fake provider.
type Reply struct {
	// Reasoning comes first, then Items, Text, and Calls. When streamed, each
	// element of Reasoning and Text is one piece.
	Reasoning []string
	// Signature is the provider's signature of the reasoning, if any.
	Signature string
	// Items is the output of the provider's tool, and Citation is the source of
	// Text; see [Tool]. Only providers with such a tool get them.
	Items    []map[string]any
	Text     []string
	Citation map[string]any
	Calls    []Call
	// Interleave streams the pieces of the calls alternately, if the protocol
	// supports it.
	Interleave bool
	// Next continues the response with further reasoning, text, and calls; see
	// [Reply.Parts].
	Next []Reply
	// Stop is the stop reason. With StopRefusal, Text explains the refusal.
	Stop llm.StopReason
	// Usage is reported once. Only the details cache_read, cache_creation, and
	// reasoning are set.
	Usage llm.Usage
}

// Parts returns the reply and those in Next. Only the Reasoning, Signature, Text,
// and Calls of the latter are set.
func (r Reply) Parts() []Reply { return append([]Reply{r}, r.Next...) }

// Call is a tool call that the fake provider requests.
type Call struct {
	ID   string // for protocols with IDs
	Name string
	Args []string // pieces of the JSON object
}

// Tool is a tool that the provider runs, such as a web search; see
// [llm.ProviderTool].
type Tool struct {
	// Fields describes the tool in the provider's API.
	Fields map[string]any
	// Items is the output of a call in the provider's format: the parts of a
	// response that the model must send back unchanged.
	Items []map[string]any
	// Citation is a source of a text in the provider's format.
	Citation map[string]any
}

// Failure is an error that the fake provider reports.
type Failure struct {
	Status  int
	Code    string // such as rate_limit_error, or the provider's own code where required
	Message string
	// Stream is set if the stream has already begun, with a success status.
	Stream bool
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
	// ToolCallID, or Name where the protocol has no IDs). If the protocol has an
	// order of content and calls, a block of type [llm.BlockToolCall] marks the
	// place of each call. The output of a provider's tool is a block of another
	// type, with the item in Extra.
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

// ReceivedTool is a tool that a request offers: a function, or a tool that the
// provider runs, which has Fields.
type ReceivedTool struct {
	Name, Description string
	Parameters        json.RawMessage
	Fields            map[string]any
}

// closeWithin is the time within which a canceled call must close its connection.
// Closing takes about a millisecond, but the machine may be busy.
const closeWithin = 10 * time.Second
