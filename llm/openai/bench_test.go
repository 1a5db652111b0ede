package openai_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// chunks returns a streamed answer of n tokens as OpenAI sends it.
func chunks(n int, delta string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `data: {"id":"chatcmpl-abc","object":"chat.completion.chunk","created":1741570283,"model":"gpt-5-mini-2025-08-07","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{`+delta+`},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x7"}`+"\n\n", i)
	}
	b.WriteString(`data: {"id":"chatcmpl-abc","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

// BenchmarkStream is the time for one token, from the body of the response to
// the chunk.
func BenchmarkStream(b *testing.B) {
	const n = 1000
	for name, delta := range map[string]string{
		"text":      `"content":" token%d"`,
		"escapes":   `"content":"\n\t\"token\u00e9%d\""`,
		"reasoning": `"content":null,"reasoning_content":" token%d"`,
		"calls":     `"tool_calls":[{"index":0,"function":{"arguments":"%d"}}]`,
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(chunks(n, delta))
			model, err := openai.New("gpt-test", &openai.Options{BaseURL: another, Key: "a key", HTTPClient: &http.Client{
				Transport: roundTrip(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(body))}, nil
				})}})
			if err != nil {
				b.Fatal(err)
			}
			req := &llm.Request{Messages: llm.Messages{llm.User("Hi")}}
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range model.Stream(b.Context(), req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/token")
		})
	}
}

// BenchmarkRequest is the time to send a conversation of 200 messages.
func BenchmarkRequest(b *testing.B) {
	model, err := openai.New("gpt-test", &openai.Options{BaseURL: another, Key: "a key", HTTPClient: &http.Client{
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(okBody))}, nil
		})}})
	if err != nil {
		b.Fatal(err)
	}
	req := &llm.Request{NoStream: true, Tools: []*llm.Tool{weather()}}
	for range 50 {
		c := call("call_1", `{"city":"Paris"}`)
		req.Messages = append(req.Messages, llm.User("How is the weather in Paris?"), llm.Assistant("", c), llm.ToolResult(c, "sunny"),
			llm.Assistant(strings.Repeat("It is \"sunny\".\n", 20)))
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range model.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
