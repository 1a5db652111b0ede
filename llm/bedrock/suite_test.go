package bedrock_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
	"github.com/treadle-go/treadle/llm/llmtest"
)

const claude = "us.anthropic.claude-sonnet-5-5"

// credentials are static keys.
var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET", SessionToken: "SESSION"}, nil
})

// options returns options for a server at url.
func options(url string) *bedrock.Options {
	return &bedrock.Options{Config: &aws.Config{Region: "us-east-1", Credentials: credentials}, BaseURL: url}
}

func open(t *testing.T, name, url string) *bedrock.Model {
	t.Helper()
	m, err := bedrock.New(name, options(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return m
}

func TestProviderSuite(t *testing.T) {
	llmtest.Run(t, llmtest.Provider{
		Open:       func(t *testing.T, url string) llm.Model { return open(t, "us.anthropic.claude-sonnet-4-6", url) },
		Request:    readRequest,
		Whole:      writeWhole,
		Stream:     writeStream,
		StreamType: "application/vnd.amazon.eventstream",
		Unknown:    event("surprise", object{"contentBlockIndex": 7}),
		Failure: func(f llmtest.Failure) []byte {
			if f.Stream {
				return exception(strings.ToLower(f.Code[:1])+f.Code[1:], object{"message": f.Message})
			}
			return marshal(object{"__type": f.Code, "message": f.Message})
		},
		Overflow: llmtest.Failure{Status: http.StatusBadRequest, Code: "ValidationException", Message: "Input is too long for requested model."},
		Tool: llmtest.Tool{
			Fields: object{"systemTool": object{"name": "nova_grounding"}},
			Items: []object{
				{"toolUse": object{"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use", "input": object{"query": "weather"}}},
				{"toolResult": object{"toolUseId": "s1", "type": "nova_grounding_result", "status": "success", "content": []any{object{"text": "Rain."}}}},
			},
			Citation: object{"title": "Weather", "location": object{"web": object{"url": "https://example.com/weather", "domain": "example.com"}}},
		},
		Lacks: map[string]string{
			"Images":  "the API accepts no URLs; TestMedia tests bytes",
			"Refusal": "the API has no refusals",
		},
	})
}
