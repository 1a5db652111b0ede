package gemini_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
)

func fn(id, name string, args object, signature string) object {
	f := object{"name": name, "args": args}
	if id != "" {
		f["id"] = id
	}
	p := object{"functionCall": f}
	if signature != "" {
		p["thoughtSignature"] = signature
	}
	return p
}

// both gives the answer to the same parts as a whole and streamed.
func both(t *testing.T, opts []llm.Option, parts ...object) map[string]llm.Message {
	t.Helper()
	var events []object
	for _, p := range parts {
		events = append(events, event("", p))
	}
	events = append(events, event("STOP", text("")))
	s := serve(t, ok(parts...), streams(events...))
	model := llm.With(open(t, "gemini-3-test", s.URL), opts...)
	out := map[string]llm.Message{}
	for _, kind := range []string{"whole", "streamed"} {
		m := model
		if kind == "whole" {
			m = llm.With(model, llm.NoStream())
		}
		answer, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = answer
	}
	return out
}

func TestCallsWithoutIDsGetStableOnes(t *testing.T) {
	for kind, m := range both(t, nil, fn("", "a", object{"x": 1}, ""), fn("fc_7", "b", nil, ""), fn("", "a", object{"x": 2}, "")) {
		want := []llm.ToolCall{
			{ID: "gemini-resp-1-0", Name: "a", Args: json.RawMessage(`{"x":1}`)},
			{ID: "fc_7", Name: "b", Args: json.RawMessage(`{}`)},
			{ID: "gemini-resp-1-2", Name: "a", Args: json.RawMessage(`{"x":2}`)},
		}
		if d := cmp.Diff(want, m.ToolCalls); d != "" || m.Stop != llm.StopTools {
			t.Errorf("%s: it stopped for %q with the calls (-want +got):\n%s", kind, m.Stop, d)
		}
	}
}

func TestCallsWithoutIDsGetUniqueIDs(t *testing.T) {
	answer := says(http.StatusOK, `{"candidates": [{"content": {"parts": [{"functionCall": {"name": "a"}}]}, "finishReason": "STOP"}]}`)
	s := serve(t, answer, answer)
	model := llm.With(open(t, "gemini-3-test", s.URL), llm.NoStream())
	ids := map[string]bool{}
	for range 2 {
		m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if err != nil || len(m.ToolCalls) != 1 {
			t.Fatalf("%+v, %v", m, err)
		}
		ids[m.ToolCalls[0].ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("the ids are %v, want two different ones", ids)
	}
}

func TestSerialToolsKeepsFirstCall(t *testing.T) {
	for kind, m := range both(t, []llm.Option{llm.SerialTools()}, fn("fc_1", "a", nil, "c2ln"), fn("fc_2", "b", nil, "")) {
		if len(m.ToolCalls) != 1 || m.ToolCalls[0].ID != "fc_1" {
			t.Errorf("%s: the calls are %+v, want the first", kind, m.ToolCalls)
		}
	}
}

// A message that was stored as JSON and read again is sent as it came.
func TestThoughtSignaturesAreSentBack(t *testing.T) {
	picture := object{"inlineData": object{"mimeType": "image/png", "data": "cG5n"}, "thoughtSignature": "cGlj"}
	parts := []object{
		{"text": "Let me think.", "thought": true}, {"text": "Done.", "thoughtSignature": "dGV4dA=="}, picture,
		{"executableCode": object{"language": "PYTHON", "code": "print(1)"}}, {"codeExecutionResult": object{"outcome": "OUTCOME_OK", "output": "1"}},
		fn("fc_1", "a", object{"x": "y"}, "Y2FsbA=="), fn("fc_2", "b", object{"z": true}, ""),
	}
	for kind, m := range both(t, nil, parts...) {
		if m.Reasoning() != "Let me think." || m.Text() != "Done." {
			t.Errorf("%s: it thinks %q and says %q", kind, m.Reasoning(), m.Text())
		}
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var stored llm.Message
		if err := json.Unmarshal(raw, &stored); err != nil {
			t.Fatal(err)
		}
		s := serve(t, ok(text("ok")))
		history := []llm.Message{llm.User("Hi"), stored, llm.ToolResult(m.ToolCalls[0], "1"), llm.ToolResult(m.ToolCalls[1], "2")}
		if _, err := llm.Generate(t.Context(), llm.With(open(t, "gemini-3-test", s.URL), llm.NoStream()), history...); err != nil {
			t.Fatal(err)
		}
		var sent struct{ Contents []struct{ Parts []object } }
		if err := json.Unmarshal(s.last().body, &sent); err != nil {
			t.Fatal(err)
		}
		var want []object
		if err := json.Unmarshal(marshal(parts), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, sent.Contents[1].Parts); d != "" {
			t.Errorf("%s: sent back (-want +got):\n%s", kind, d)
		}
	}
}

func TestThoughtsInSeveralPlacesStayApart(t *testing.T) {
	thought := func(s string) object { return object{"text": s, "thought": true} }
	s := serve(t, streams(event("", thought("one")), event("", thought(" more"), text("Hm.")), event("STOP", thought("two"))))
	m, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Block{{Type: llm.BlockReasoning, Reasoning: "one more"}, llm.Text("Hm."), {Type: llm.BlockReasoning, Reasoning: "two"}}
	if d := cmp.Diff(want, m.Blocks); d != "" {
		t.Errorf("the blocks (-want +got):\n%s", d)
	}
}

func TestFinishReasonsAreMapped(t *testing.T) {
	tests := map[string]llm.StopReason{
		"STOP": llm.StopEnd, "MAX_TOKENS": llm.StopLength, "CONTINUATION": llm.StopLength,
		"SAFETY": llm.StopFilter, "RECITATION": llm.StopFilter, "LANGUAGE": llm.StopFilter, "BLOCKLIST": llm.StopFilter,
		"PROHIBITED_CONTENT": llm.StopFilter, "SPII": llm.StopFilter, "IMAGE_SAFETY": llm.StopFilter,
	}
	for reason, want := range tests {
		s := serve(t, streams(event("", text("So ")), event(reason, text("far"))))
		m, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
		if err != nil || m.Stop != want || m.Text() != "So far" {
			t.Errorf("%s: it stopped for %q and says %q, %v; want %q", reason, m.Stop, m.Text(), err, want)
		}
		if m.Metadata["finish_reason"] != reason || m.Metadata["model_provider"] != "gemini" || m.Metadata["model_name"] != "gemini-test-001" || m.Metadata["id"] != "resp-1" {
			t.Errorf("%s: the metadata is %v", reason, m.Metadata)
		}
	}
}

// The SDK would ask on by itself, also where the connection broke.
func TestOnlyCallerContinuesResponse(t *testing.T) {
	part := event("CONTINUATION", text("So far"))
	part["candidates"].([]object)[0]["continuationToken"] = "dG9rZW4="
	s := serve(t, streams(part), says(http.StatusOK, string(marshal(part))))
	model := open(t, "gemini-3-test", s.URL)
	for i, model := range []llm.Model{model, llm.With(model, llm.NoStream())} {
		m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if err != nil || m.Stop != llm.StopLength || len(s.asked) != i+1 {
			t.Errorf("it stopped for %q (%v) after %d requests, want the length and one", m.Stop, err, len(s.asked)-i)
		}
	}
}

func TestUnusableResponseIsError(t *testing.T) {
	for _, reason := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER", "SOMETHING_NEW"} {
		s := serve(t, streams(event("", text("I will")), event(reason)), says(http.StatusOK, string(marshal(event(reason)))))
		model := open(t, "gemini-3-test", s.URL)
		m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if m.Text() != "I will" {
			t.Errorf("%s: the text so far is %q", reason, m.Text())
		}
		_, whole := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi"))
		for _, err := range []error{err, whole} {
			if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != reason || e.Status != http.StatusOK || !e.Temporary() {
				t.Errorf("%s: the error is %v", reason, err)
			}
		}
	}
}

func TestBlockedPromptStopsByFilter(t *testing.T) {
	blocked := object{"promptFeedback": object{"blockReason": "PROHIBITED_CONTENT", "safetyRatings": []object{{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH"}}},
		"usageMetadata": object{"promptTokenCount": 4, "totalTokenCount": 4}, "modelVersion": "gemini-test-001", "responseId": "resp-1"}
	s := serve(t, streams(blocked), says(http.StatusOK, string(marshal(blocked))))
	model := open(t, "gemini-3-test", s.URL)
	for _, model := range []llm.Model{model, llm.With(model, llm.NoStream())} {
		m, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if err != nil || m.Stop != llm.StopFilter || m.Text() != "" || m.Usage == nil || m.Usage.Input != 4 {
			t.Errorf("the answer is %+v, %v", m, err)
		}
		if ratings, _ := m.Metadata["safety_ratings"].([]any); m.Metadata["block_reason"] != "PROHIBITED_CONTENT" || len(ratings) != 1 {
			t.Errorf("the metadata is %v", m.Metadata)
		}
	}
}

func TestUsageCountsAllTokens(t *testing.T) {
	last := event("STOP", text("ok"))
	last["usageMetadata"] = object{"promptTokenCount": 10, "toolUsePromptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 20, "cachedContentTokenCount": 8, "totalTokenCount": 38,
		"promptTokensDetails": []object{{"modality": "TEXT", "tokenCount": 6}, {"modality": "AUDIO", "tokenCount": 4}}, "candidatesTokensDetails": []object{{"modality": "AUDIO", "tokenCount": 2}}}
	s := serve(t, streams(last))
	m, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	want := &llm.Usage{Input: 15, Output: 23, Total: 38, InputDetails: map[string]int{llm.UsageCacheRead: 8, llm.UsageAudio: 4}, OutputDetails: map[string]int{llm.UsageReasoning: 20, llm.UsageAudio: 2}}
	if d := cmp.Diff(want, m.Usage); d != "" {
		t.Errorf("the usage (-want +got):\n%s", d)
	}
}

func TestMetadataHasGroundingAndCitations(t *testing.T) {
	last := event("STOP", text("Owls fly."))
	last["candidates"].([]object)[0]["groundingMetadata"] = object{"webSearchQueries": []string{"owls"}}
	last["candidates"].([]object)[0]["citationMetadata"] = object{"citationSources": []object{{"uri": "https://example.com", "startIndex": 1, "endIndex": 4}}}
	s := serve(t, streams(last))
	m, err := llm.Generate(t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	want := object{
		"grounding_metadata": object{"webSearchQueries": []any{"owls"}},
		"citation_metadata":  object{"citations": []any{object{"uri": "https://example.com", "startIndex": 1.0, "endIndex": 4.0}}},
	}
	got := object{"grounding_metadata": m.Metadata["grounding_metadata"], "citation_metadata": m.Metadata["citation_metadata"]}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the metadata (-want +got):\n%s", d)
	}
}
