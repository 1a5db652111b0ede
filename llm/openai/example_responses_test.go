package openai_test

import (
	"context"
	"fmt"
	"log"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/openai"
)

// A model searches the web on OpenAI's servers. The response contains the search
// and the sources of the text.
func ExampleNew_responses() {
	server := localServer(`{"id":"resp_1","object":"response","status":"completed","model":"gpt-5-mini","output":[
		{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAA"},
		{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"barn owl clutch size"}},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Four to seven eggs.",
			"annotations":[{"type":"url_citation","url":"https://example.com/owls","title":"Owls","start_index":0,"end_index":19}]}]}]}`)
	defer server.Close()

	model, err := openai.New("gpt-5-mini", &openai.Options{
		BaseURL: server.URL + "/v1", API: "responses", // both are the defaults for OpenAI
	})
	if err != nil {
		log.Fatal(err)
	}
	search := llm.ProviderTool(map[string]any{"type": "web_search"})
	answer, err := llm.Generate(context.Background(), llm.With(model, llm.NoStream(), llm.Tools(search), llm.Reasoning("low")),
		llm.User("How many eggs does a barn owl lay?"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Text())
	for _, b := range answer.Blocks {
		switch b.Type {
		case "web_search_call":
			fmt.Println("searched:", b.Extra["action"].(map[string]any)["query"])
		case llm.BlockText:
			fmt.Println("source:", b.Extra["annotations"].([]any)[0].(map[string]any)["url"])
		}
	}
	// Output:
	// Four to seven eggs.
	// searched: barn owl clutch size
	// source: https://example.com/owls
}

// An access token of Entra ID takes the place of a key. In a real program, the
// function calls GetToken of package azidentity, which caches the token.
func ExampleOptions_azure() {
	_, err := openai.New("my-deployment", &openai.Options{
		BaseURL: "https://RESOURCE.openai.azure.com",
		Token: func(ctx context.Context) (string, error) {
			return "token for https://cognitiveservices.azure.com/.default", nil
		},
	})
	fmt.Println(err)

	_, err = openai.New("gpt", &openai.Options{BaseURL: "https://RESOURCE.openai.azure.com/openai/deployments/gpt", Key: "key"})
	fmt.Println(err)
	// Output:
	// <nil>
	// openai: model "gpt": base URL "https://RESOURCE.openai.azure.com/openai/deployments/gpt" contains a deployment: use https://RESOURCE.openai.azure.com/openai/v1, and the deployment as the model name
}
