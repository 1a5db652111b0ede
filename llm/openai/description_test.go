package openai_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// The requests in testdata match OpenAI's published description of its API, whose
// request types are in testdata/openapi.json.
func TestRequestsMatchOpenAPI(t *testing.T) {
	checked := map[string]int{}
	for kind, patterns := range map[string][]string{
		"CreateResponse":              {"responses_*.json"},
		"CreateChatCompletionRequest": {"request_*_openai.json", "request_output_*.json"},
		"CreateEmbeddingRequest":      {"request_embeddings.json"},
	} {
		schema := described(t, kind)
		for _, pattern := range patterns {
			files, err := filepath.Glob(filepath.Join("testdata", pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				var body map[string]any
				if err := json.Unmarshal([]byte(readFile(t, filepath.Base(file))), &body); err != nil {
					t.Fatal(err)
				}
				delete(body, "a.b") // an unknown setting
				completeOutput(body)
				if err := schema.Validate(body); err != nil {
					t.Errorf("%s is not a %s: %v", file, kind, err)
				}
				checked[kind]++
			}
		}
		for _, invalid := range []string{`{"model":7}`, `{"model":"m","surprise":1}`} {
			var body any
			if err := json.Unmarshal([]byte(invalid), &body); err != nil {
				t.Fatal(err)
			}
			if schema.Validate(body) == nil {
				t.Errorf("the invalid request %s is a %s", invalid, kind)
			}
		}
		if checked[kind] == 0 {
			t.Errorf("no request is a %s", kind)
		}
	}
}

// completeOutput adds the fields that requests leave out of the model's own messages,
// because the server does not store them.
func completeOutput(body map[string]any) {
	items, _ := body["input"].([]any)
	for _, item := range items {
		item, _ := item.(map[string]any)
		if item["role"] != "assistant" {
			continue
		}
		item["id"], item["status"] = "msg_1", "completed"
		content, _ := item["content"].([]any)
		for _, part := range content {
			if part, ok := part.(map[string]any); ok && part["type"] == "output_text" {
				part["logprobs"] = []any{}
			}
		}
	}
}

// described returns the description of a request.
func described(t *testing.T, kind string) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	if err := json.Unmarshal([]byte(readFile(t, "openapi.json")), &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Defs[kind] == nil || !strings.Contains(schema.Comment, "openai-openapi") {
		t.Fatalf("testdata/openapi.json does not describe %s", kind)
	}
	schema.Ref = "#/$defs/" + kind
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
