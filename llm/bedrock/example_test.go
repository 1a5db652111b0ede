package bedrock_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/bedrock"
)

func Example() {
	// The server stands for Bedrock.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		for _, e := range [][]byte{
			event("messageStart", object{"role": "assistant"}),
			event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "To mark their "}}),
			event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "territory."}}),
			event("contentBlockStop", object{"contentBlockIndex": 0}),
			event("messageStop", object{"stopReason": "end_turn"}),
			event("metadata", object{"usage": object{"inputTokens": 12, "outputTokens": 6, "totalTokens": 18}}),
		} {
			_, _ = w.Write(e)
		}
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()

	// With nil options, the region and the credentials come from the environment,
	// the AWS files, or the machine's role.
	model, err := bedrock.New("us.anthropic.claude-sonnet-5-5", &bedrock.Options{
		BaseURL: server.URL,
		Config: &aws.Config{Region: "us-east-1", Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}, nil
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Generate(context.Background(), model, llm.User("Why do owls hoot?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Text(), answer.Usage.Total)
	// Output:
	// To mark their territory. 18
}
