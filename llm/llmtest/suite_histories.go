package llmtest

import (
	"embed"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// histories are conversations with the models of other providers, as savers store
// them. To write a model's own conversation, run its suite with
// TREADLE_HISTORIES set to this directory.
//
//go:embed testdata/histories
var histories embed.FS

const historiesDir = "testdata/histories"

// a conversation with an image, reasoning, a call, its result, and a response.
const (
	historyQuestion = "Where is this, and what is the weather there?"
	historyThought  = "The picture shows Oslo."
	historyArgs     = `{"city":"Oslo"}`
	historyResult   = "rain"
	historyText     = "Oslo, and it rains."
)

// testOtherHistories checks that a conversation that was started with any other
// provider continues: its texts, images, calls, and results arrive, and its
// reasoning, which only its own provider accepts, does not.
func testOtherHistories(t *testing.T, r *rig) {
	record(t, r)
	files, err := histories.ReadDir(historiesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(f.Name(), ".json"), func(t *testing.T) {
			raw, err := histories.ReadFile(path.Join(historiesDir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			var history llm.Messages
			if err := json.Unmarshal(raw, &history); err != nil {
				t.Fatal(err)
			}
			if r.p.Lacks[historyImages] != "" {
				withoutImages(history)
			}
			r.will(r.reply(Reply{Text: []string{"Snow."}, Stop: llm.StopEnd, Usage: usage}))
			m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather())), append(history, llm.User("And tomorrow?"))...))
			if m.Text() != "Snow." {
				t.Errorf("the model says %q", m.Text())
			}
			wantHistory(t, r, history)
		})
	}
}

// withoutImages removes the images of a conversation.
func withoutImages(history llm.Messages) {
	for i, m := range history {
		history[i].Blocks = slices.DeleteFunc(m.Blocks, func(b llm.Block) bool { return b.Type == llm.BlockImage })
	}
}

// wantHistory checks what the provider received of a conversation.
func wantHistory(t *testing.T, r *rig, history llm.Messages) {
	var got []string
	for _, m := range r.last().Messages {
		for _, part := range trace(m) {
			got = append(got, string(m.Role)+" "+part)
		}
	}
	for _, want := range []string{
		"human say " + historyQuestion, "human image", "ai call get_weather " + historyArgs,
		"tool say " + historyResult, "ai say " + historyText, "human say And tomorrow?",
	} {
		if !slices.Contains(got, want) && (want != "human image" || r.p.Lacks["Images"] == "") {
			t.Errorf("the provider did not receive %q, but\n%s", want, strings.Join(got, "\n"))
		}
	}
	wrote, _ := history[1].Metadata["model_provider"].(string)
	if thought := "ai think " + historyThought; slices.Contains(got, thought) && !related(wrote, llm.Describe(r.model).Provider) {
		t.Errorf("the provider received the reasoning of a model of %s:\n%s", wrote, strings.Join(got, "\n"))
	}
}

// related reports whether a provider can accept the reasoning that came from
// another: Claude's signatures are valid wherever Claude runs.
func related(a, b string) bool {
	claude := []string{"anthropic", "bedrock_converse", "bedrock", "vertex_anthropic", "google_anthropic_vertex"}
	return a == b || slices.Contains(claude, a) && slices.Contains(claude, b)
}

// record writes the conversation with this provider, if requested.
func record(t *testing.T, r *rig) {
	dir := os.Getenv("TREADLE_HISTORIES")
	if dir == "" {
		return
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	history := llm.Messages{llm.User(historyQuestion, llm.Image("image/png", []byte("\x89PNG\r\n\x1a\n a picture")))}
	call := Call{ID: "call_1", Name: "get_weather", Args: []string{historyArgs}}
	r.will(r.reply(Reply{Reasoning: []string{historyThought}, Signature: "c2lnbmVk", Calls: []Call{call}, Stop: llm.StopTools, Usage: usage}))
	model := llm.With(r.model, llm.Tools(weather()), llm.Reasoning("low"))
	m := must(t)(llm.Generate(t.Context(), model, history...))
	m.ID = "" // random
	history = append(history, m, llm.ToolResult(m.ToolCalls[0], historyResult))
	r.will(r.reply(Reply{Text: []string{historyText}, Stop: llm.StopEnd, Usage: usage}))
	m = must(t)(llm.Generate(t.Context(), model, history...))
	m.ID = ""
	raw, err := json.MarshalIndent(append(history, m), "", "  ")
	if err == nil {
		file := llm.Describe(r.model).Provider + "_" + strings.ToLower(strings.TrimPrefix(name, "Test")) + ".json"
		err = os.WriteFile(filepath.Join(dir, file), append(raw, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
