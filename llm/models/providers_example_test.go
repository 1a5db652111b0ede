package models_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/catalog"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/models"
	"github.com/treadle-go/treadle/llm/openai"
)

// The examples in this file are the code of docs/providers.md.

func ExampleOpen_anthropic() { //nolint:testableexamples // requires a key
	model, err := models.Open("anthropic:claude-sonnet-5-5", llm.Temperature(0))
	fmt.Println(llm.Describe(model), err)
}

func ExampleOpen_bedrock() { //nolint:testableexamples // requires credentials
	model, err := models.Open("bedrock:us.anthropic.claude-sonnet-5-5")
	fmt.Println(llm.Describe(model), err)
}

func ExampleOpen_vertex() { //nolint:testableexamples // requires credentials
	model, err := models.Open("vertex:gemini-3.8-flash") // the project is in GOOGLE_CLOUD_PROJECT
	fmt.Println(llm.Describe(model), err)
}

func ExampleOpen_ollama() {
	model, err := models.Open("ollama:qwen3", llm.Setting("options", map[string]any{"num_ctx": 32768}))
	fmt.Println(llm.Describe(model), err)
	// Output: ollama:qwen3 <nil>
}

func ExampleOpen_settings() {
	var model llm.Model = llmtest.NewScript(llmtest.Say("Hoot."))
	model = llm.With(model, llm.Setting("guardrailConfig", map[string]any{"guardrailIdentifier": "g1", "guardrailVersion": "1", "trace": "enabled"}))

	search := llm.ProviderTool(map[string]any{"type": "web_search"})
	model = llm.With(model, llm.Tools(search), llm.Reasoning("medium"),
		llm.Setting("reasoning", map[string]any{"summary": "auto"}), // added to the effort
		llm.Setting("text", map[string]any{"verbosity": "low"}),
		llm.Setting("service_tier", "flex"))

	answer, err := llm.Generate(context.Background(), model, llm.User("What does the owl say?"))
	fmt.Println(answer.Text(), err)
	// Output: Hoot. <nil>
}

// A token of Google's access management takes the place of the application default credentials.
func Example_vertexToken() {
	token := func(context.Context) (string, error) { return "a token", nil }
	model, err := gemini.New("gemini-3.8-flash", &gemini.Options{Vertex: true, Project: "my-project", Location: "europe-west1", Token: token})
	fmt.Println(llm.Describe(model).Model, err)
	// Output: gemini-3.8-flash <nil>
}

// The deployment name does not identify the model, so the program sets its facts.
func Example_azure() {
	key := "a key"
	model, err := openai.New("my-deployment", &openai.Options{BaseURL: "https://RESOURCE.openai.azure.com", Key: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	named := llm.WithInfo(model, catalog.Complete(llm.Info{Provider: "azure", Model: "gpt-5-mini"}))
	fmt.Println(llm.Describe(named))
	// Output: azure:gpt-5-mini
}

func Example_azureToken() {
	entraToken := func(context.Context) (string, error) {
		return "token for https://cognitiveservices.azure.com/.default", nil
	}
	model, err := openai.New("my-deployment", &openai.Options{BaseURL: "https://RESOURCE.openai.azure.com", Token: entraToken})
	fmt.Println(llm.Describe(model).Model, err)
	// Output: my-deployment <nil>
}

// Settings is the context value of a run.
type Settings struct{ Model string }

func ExampleChoose() {
	allowed := []string{"openai:gpt-5-mini", "anthropic:claude-sonnet-5-5"}
	model := models.Choose(func(ctx context.Context) string {
		s, _ := treadle.ContextFrom[Settings](ctx)
		if slices.Contains(allowed, s.Model) {
			return s.Model
		}
		return "openai:gpt-5-mini"
	})
	fmt.Println(model != nil)
	// Output: true
}

func Example_facts() {
	var model llm.Model = llmtest.NewScript()
	model = llm.WithInfo(model, llm.Info{Window: 32_000, Price: &llm.Price{Input: 0.5, Output: 2}})
	fmt.Println(llm.Describe(model).Window)
	// Output: 32000
}

func Example_oneProvider() { //nolint:testableexamples // requires a key
	model, err := openai.New("gpt-5-mini", nil)
	fmt.Println(llm.Describe(model), err)
}

func Example_twoProviders() { //nolint:testableexamples // requires a key
	name := "anthropic:claude-sonnet-5-5" // from the configuration
	model, err := llm.Open(name, openai.Provider(nil), anthropic.Provider(nil))
	fmt.Println(llm.Describe(model), err)
}
