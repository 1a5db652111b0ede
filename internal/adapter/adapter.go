// Package adapter contains what the adapters for model providers share.
package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Canceled returns why the context ended: its error, and the cause if that differs.
func Canceled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// Excerpt returns the start of a body that is not the API's, such as a proxy's error
// page.
func Excerpt(body string) string {
	const most = 500
	body = strings.TrimSpace(body)
	if len(body) > most {
		body = strings.ToValidUTF8(body[:most], "") + "…"
	}
	return body
}

// Remedy returns what to do about a rejected request, by the words of several providers,
// or "".
func Remedy(message string) string {
	text := strings.ToLower(message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has(
		"no tool call found for", "no tool output found for", // OpenAI, Responses
		"message with 'tool_calls'", "not found in 'tool_calls'", "tool_call_ids did not have", // OpenAI, Chat Completions
		"unexpected `tool_use_id`", "without `tool_result`", // Anthropic
		"function call turn", "number of function response parts", // Gemini
		"number of toolresult blocks", "expected toolresult blocks"): // Bedrock
		return "each tool result must follow its call: use llm.Repair, which llm.Generate applies"
	case has("support tool", "support function", "tool use is not supported", "tools are not supported", "tools is not supported", "function calling is not"):
		return "remove the tools, or use another model"
	}
	return ""
}
