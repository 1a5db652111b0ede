package llm

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// readByEncodingJSON reads a message as UnmarshalJSON does, but for the short way
// that plain messages take.
func readByEncodingJSON(raw []byte) (m Message, err error) {
	if m.readSimple(raw) {
		return m, nil
	}
	m = Message{}
	o, err := readObject(raw)
	if err == nil {
		err = m.read(o)
	}
	return m, err
}

func compareReading(t *testing.T, raw []byte) {
	t.Helper()
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return
	}
	var got Message
	err := json.Unmarshal(raw, &got)
	if !json.Valid(raw) {
		if err == nil {
			t.Errorf("%s was read", raw)
		}
		if (&Message{}).readPlain(raw) {
			t.Errorf("%s is not JSON, and was taken for plain", raw)
		}
		return
	}
	want, wantErr := readByEncodingJSON(raw)
	if (err == nil) != (wantErr == nil) {
		t.Errorf("%s: the error is %v, by encoding/json %v", raw, err, wantErr)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%s was read as\n%#v\nby encoding/json as\n%#v", raw, got, want)
	}
}

var plainMessages = []string{
	`{"type":"human","content":"hi","id":"1"}`,
	`{"type":"ai","content":"","id":"2","tool_calls":[{"name":"add","args":{"a":1},"id":"c1","type":"tool_call"},{"name":"now","args":{ },"id":"c2"},{"id":"c3"}]}`,
	`{"type":"ai","content":"a\n\"b\" \u00e9","usage_metadata":{"input_tokens":1,"output_tokens":2,"total_tokens":3,"input_token_details":{"cache_read":1}},"response_metadata":{"finish_reason":"stop","model":"m"}}`,
	`{"type":"tool","content":"3","tool_call_id":"c1","status":"error","name":"add"}`,
	`{"type":"system","content":"s","response_metadata":{}}`,
	`{"type":"ai","content":"x","usage_metadata":{"Input_tokens":1}}`,
	`{"type":"ai","content":"x","usage_metadata":{"input_tokens":1},"usage_metadata":{"output_tokens":2}}`,
	`{"type":"ai","content":"x","tool_calls":[],"id":null}`,
	`{"type":"ai","content":"x","tool_calls":[{"name":"a","args":"{\"b\":1}","id":"c"}]}`,
	`{"type":"ai","content":"x","tool_calls":[{"name":"a","args":[1],"id":"c"}]}`,
	`{"type":"ai","content":"x","content":"y"}`, `{"Type":"ai","content":"x"}`, `{"type":"remove","content":"","id":"1"}`,
	`{"type":"ai","content":null}`, `{"type":"ai"}`, `{"type":"ai","content":"x"}}`, `{"type":"ai","content":"x",}`,
	`{"type":"ai","content":"x","response_metadata":{"finish_reason":5}}`, `{"type":"ai","content":"x","response_metadata":[]}`,
}

func TestPlainMessagesDecodeLikePackageJSON(t *testing.T) {
	for _, raw := range plainMessages {
		compareReading(t, []byte(raw))
	}
	for _, raw := range plainMessages[:5] {
		if !(&Message{}).readPlain([]byte(raw)) {
			t.Errorf("%s did not take the short way", raw)
		}
	}
}

func FuzzReadPlain(f *testing.F) {
	for _, raw := range plainMessages {
		f.Add([]byte(raw))
	}
	f.Fuzz(compareReading)
}
