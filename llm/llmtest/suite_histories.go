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
// TREADLE_HISTORIES set to this directory. In gemini-images.json, the model's messages
// contain images and audio; that file was derived from gemini.json.
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
// reasoning, which only its own provider accepts, does not. Images of a model's messages
// arrive if the provider accepts images, even if only from users, and are otherwise
// dropped.
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
			resume := func() {
				t.Helper()
				r.will(r.reply(Reply{Text: []string{"Snow."}, Stop: llm.StopEnd, Usage: usage}))
				m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather())), append(history, llm.User("And tomorrow?"))...))
				if m.Text() != "Snow." {
					t.Errorf("the model says %q", m.Text())
				}
			}
			if r.p.Lacks[historyImages] == "" {
				resume()
				wantHistory(t, r, history)
				wantImages(t, r, history)
			}
			withoutUserImages(history)
			resume() // a model that might not read images
			wantHistory(t, r, history)
		})
	}
}

// withoutUserImages removes the images of user messages.
func withoutUserImages(history llm.Messages) {
	for i, m := range history {
		if m.Role == llm.RoleHuman {
			history[i].Blocks = slices.DeleteFunc(m.Blocks, isImage)
		}
	}
}

func isImage(b llm.Block) bool { return b.Type == llm.BlockImage }

// received describes the content and the calls of the last request in order.
func received(r *rig) (got []string) {
	for _, m := range r.last().Messages {
		for _, part := range trace(m) {
			got = append(got, string(m.Role)+" "+part)
		}
	}
	return got
}

// wantImages checks that the provider received all images of a conversation once,
// whichever their role, those of a message before the next message of the same role.
func wantImages(t *testing.T, r *rig, history llm.Messages) {
	count := func(parts []string) (n int) {
		for _, p := range parts {
			if strings.HasSuffix(p, " image") {
				n++
			}
		}
		return n
	}
	got := received(r)
	text := slices.Index(got, "ai say "+historyText)
	var want [2]int // before the last response, and in all
	for i, m := range history {
		for range slices.DeleteFunc(m.Parts(), func(b llm.Block) bool { return !isImage(b) }) {
			want[1]++
			if i < len(history)-1 {
				want[0]++
			}
		}
	}
	if found := [2]int{count(got[:max(text, 0)]), count(got)}; found != want {
		t.Errorf("the provider received %d images before the last response and %d in all, want %d and %d:\n%s", found[0], found[1], want[0], want[1], strings.Join(got, "\n"))
	}
}

// wantHistory checks what the provider received of a conversation, apart from images.
func wantHistory(t *testing.T, r *rig, history llm.Messages) {
	got := received(r)
	for _, want := range []string{
		"human say " + historyQuestion, "ai call get_weather " + historyArgs,
		"tool say " + historyResult, "ai say " + historyText, "human say And tomorrow?",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("the provider did not receive %q, but\n%s", want, strings.Join(got, "\n"))
		}
	}
	call := slices.Index(got, "ai call get_weather "+historyArgs)
	if result := slices.Index(got, "tool say "+historyResult); result != call+1 {
		t.Errorf("the provider did not receive the result directly after the call, but\n%s", strings.Join(got, "\n"))
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
