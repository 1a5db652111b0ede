// Package bedrock implements [llm.Model] and [store.Embedder] for the models on
// Amazon Bedrock: Claude, Nova, Llama, Mistral, and others. It uses Bedrock's
// Converse API through AWS's SDK.
//
//	model, err := bedrock.New("us.anthropic.claude-sonnet-5-5", nil)
//	answer, err := llm.Generate(ctx, model, llm.User("Why do owls hoot?"))
//
// The region and the credentials come from the environment, the shared AWS files,
// or the machine's role, as for all AWS programs; see [Options]. Most models must
// be named by an inference profile: their ID with a prefix such as us or global.
//
// # Requests
//
// All system messages form the system prompt. Consecutive user messages and tool
// results form one turn. Images, documents, audio, and video are given by bytes or
// by a URL that starts with s3://; other URLs cause an error. Models that accept no
// media in tool results get them next to the results. Blank texts are not sent,
// because Bedrock rejects them.
//
// Reasoning is sent back with its signature, in its place among the tool calls, if
// it comes from a model of the same vendor on Bedrock, or from Anthropic's API to a
// Claude model. Bedrock rejects a conversation with tool calls in a request without
// tools, so a request without tools contains the calls as text. With
// [llm.ToolChoiceNone], the request contains no tools.
//
// [llm.CachePrompt] places cache points after the tools, the system prompt, and the
// last turns. The Extra of an [llm.Block] or an [llm.Tool] may contain:
//
//   - cache_control: a cache point follows the block or the tool. Only Claude and
//     Nova support cache points; for other models, they are omitted.
//   - guard: if true, a guardrail checks the text or image, and only those so
//     marked.
//   - citations and context, for documents.
//
// A block of type non_standard contains a content block in Bedrock's own format,
// such as a searchResult, as the value in its Extra. Blocks of a response that have
// no equivalent in package llm have this type, and are sent back unchanged.
//
// A tool without Run is sent as its Extra describes it:
//
//	&llm.Tool{Extra: map[string]any{"systemTool": map[string]any{"name": "nova_grounding"}}}
//
// # Settings
//
// [llm.Setting] sets fields of the Converse request, such as guardrailConfig,
// serviceTier, requestMetadata, or additionalModelRequestFields. An object is merged
// into the field that the request already has.
//
// [llm.Request].Reasoning sets the effort of Claude, Nova 2, and the models of
// OpenAI, Moonshot, and Z.ai; other models ignore it. Claude before 4.6 uses a token
// budget instead: a quarter, half, or three quarters of the limit. Seed and
// SerialTools are ignored.
//
// # Responses
//
// The Metadata of a response contains model_provider, model_name, stop_reason, and
// request_id. It may also contain metrics, service_tier, stop_sequence, and trace,
// which has the assessments of a guardrail. If a guardrail intervenes, Stop is
// [llm.StopFilter], and the content is the guardrail's message.
//
// Citations are in the Extra of the text blocks that they belong to. If a request has
// a tool that Bedrock runs, or documents with citations, all texts of the response
// are blocks.
//
// A response to a stream that breaks before its last event is an error, never a
// shorter response. Failures have the type [*llm.Error]. Nothing is retried; use
// [llm.Retry].
package bedrock
