package llmtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

var usage = llm.Usage{Input: 11, Output: 7, Total: 18}

// testText checks a whole response.
func testText(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Text: []string{"Hello", " there"}, Stop: llm.StopEnd, Usage: usage}))
	m := must(t)(r.ask(llm.System("Be brief."), llm.User("Hi")))
	if m.Role != llm.RoleAI || m.Text() != "Hello there" || m.Stop != llm.StopEnd || m.ID == "" {
		t.Errorf("the answer is %+v, want the text and the reason to stop", m)
	}
	got := r.last()
	if got.Stream {
		t.Error("a whole answer was asked for as a stream")
	}
	if want := llm.Describe(r.model).Model; got.Model != want {
		t.Errorf("the request names model %q, want %q", got.Model, want)
	}
	diff(t, "the system prompt", "Be brief.", got.System)
	diff(t, "the messages", []llm.Message{llm.User("Hi")}, said(got.Messages))
}

// testStreamedText checks that the first piece arrives before the last one is sent,
// and that all have the same ID.
func testStreamedText(t *testing.T, r *rig) {
	reply := Reply{Text: []string{"Hel", "lo", " there"}, Stop: llm.StopEnd, Usage: usage}
	seen := make(chan struct{})
	r.will(func(w http.ResponseWriter, req *http.Request, got Received) {
		if !got.Stream {
			t.Error("the answer was not asked for as a stream")
		}
		r.startStream(w)
		pieces := r.p.Stream(reply)
		for _, piece := range pieces[:len(pieces)-1] {
			write(w, piece)
		}
		within(t, patience, "the first text reaching the caller", seen)
		write(w, pieces[len(pieces)-1])
	})
	var texts []string
	ids := map[string]bool{}
	var whole llm.Chunk
	for chunk, err := range llm.Stream(t.Context(), r.model, llm.User("Hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Text() != "" {
			if texts = append(texts, chunk.Text()); len(texts) == 1 {
				close(seen)
			}
		}
		ids[chunk.ID] = true
		if whole, err = whole.Add(chunk); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, "the pieces", reply.Text, texts)
	if m := whole.Message(); m.Text() != "Hello there" || m.Stop != llm.StopEnd || len(ids) != 1 {
		t.Errorf("joined they are %+v with ids %v, want the text, the reason to stop and one id", m, ids)
	}
}

// testConversation checks that roles and order are preserved.
func testConversation(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Text: []string{"Four."}, Stop: llm.StopEnd, Usage: usage}))
	must(t)(r.ask(llm.System("Count."), llm.User("One and one?"), llm.Assistant("Two."), llm.User("And two?")))
	diff(t, "the messages", []llm.Message{llm.User("One and one?"), llm.Assistant("Two."), llm.User("And two?")}, said(r.last().Messages))
}

func testSettings(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Text: []string{"ok"}, Stop: llm.StopEnd, Usage: usage}))
	model := llm.With(r.model, llm.MaxTokens(128), llm.Temperature(0), llm.StopWords("END"), llm.ModelName("another"))
	must(t)(llm.Generate(t.Context(), model, llm.User("Hi")))
	got := r.last()
	if got.MaxTokens != 128 || got.Temperature == nil || *got.Temperature != 0 || got.Model != "another" {
		t.Errorf("the request has max tokens %d, temperature %v, model %q; want 128, 0, another", got.MaxTokens, got.Temperature, got.Model)
	}
	if _, lacks := r.p.Lacks[stopWords]; !lacks && !slices.Equal(got.StopWords, []string{"END"}) {
		t.Errorf("the request has stop words %q, want END", got.StopWords)
	}
}

// testUsage checks that whole and streamed responses report the same usage, once.
func testUsage(t *testing.T, r *rig) {
	want := llm.Usage{Input: 30, Output: 12, Total: 42,
		InputDetails: map[string]int{llm.UsageCacheRead: 10, llm.UsageCacheCreation: 6}, OutputDetails: map[string]int{llm.UsageReasoning: 5}}
	if _, lacks := r.p.Lacks[cacheReadUsage]; lacks {
		delete(want.InputDetails, llm.UsageCacheRead)
	}
	if _, lacks := r.p.Lacks[cacheCreationUsage]; lacks {
		delete(want.InputDetails, llm.UsageCacheCreation)
	}
	reply := r.reply(Reply{Text: []string{"a", "b"}, Stop: llm.StopEnd, Usage: want})
	r.will(reply, reply)
	whole := must(t)(r.ask(llm.User("Hi")))
	streamed := must(t)(llm.Generate(t.Context(), r.model, llm.User("Hi")))
	for name, m := range map[string]llm.Message{"whole": whole, "streamed": streamed} {
		if m.Usage == nil {
			t.Errorf("the %s answer has no usage", name)
			continue
		}
		got := *m.Usage
		if got.Input != want.Input || got.Output != want.Output || got.Total != want.Total {
			t.Errorf("the usage of the %s answer is %+v, want %+v", name, got, want)
		}
		for _, kind := range []string{llm.UsageCacheRead, llm.UsageCacheCreation} {
			if got.InputDetails[kind] != want.InputDetails[kind] {
				t.Errorf("the %s answer counts %v, want %v", name, got.InputDetails, want.InputDetails)
			}
		}
		if _, lacks := r.p.Lacks[reasoningUsage]; !lacks && got.OutputDetails[llm.UsageReasoning] != 5 {
			t.Errorf("the %s answer counts %v, want 5 tokens of reasoning", name, got.OutputDetails)
		}
	}
}

var twoCalls = []Call{
	{ID: "call_1", Name: "get_weather", Args: []string{`{"ci`, `ty":"San`, ` Francisco"}`}},
	{ID: "call_2", Name: "get_time", Args: []string{`{"zone"`, `:"PST"}`}},
}

// wantCalls checks the calls of a response.
func wantCalls(t *testing.T, m llm.Message, want ...Call) {
	t.Helper()
	if m.Stop != llm.StopTools {
		t.Errorf("the model stopped for %q, want %q", m.Stop, llm.StopTools)
	}
	if len(m.InvalidToolCalls) > 0 || len(m.ToolCalls) != len(want) {
		t.Fatalf("the calls are %+v and %+v, want %d and none invalid", m.ToolCalls, m.InvalidToolCalls, len(want))
	}
	ids := map[string]bool{}
	for i, c := range m.ToolCalls {
		if c.Name != want[i].Name {
			t.Errorf("call %d is of %q, want %q", i, c.Name, want[i].Name)
		}
		diff(t, "its arguments", joinArgs(want[i]), c.Args)
		ids[c.ID] = true
	}
	if ids[""] || len(ids) != len(want) {
		t.Errorf("the calls have the ids %v, want one for each", ids)
	}
}

func testToolCalls(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Text: []string{"Let me see."}, Calls: twoCalls[:1], Stop: llm.StopTools, Usage: usage}))
	tool := weather()
	m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.NoStream(), llm.Tools(tool)), llm.User("Weather?")))
	wantCalls(t, m, twoCalls[0])
	if m.Text() != "Let me see." {
		t.Errorf("the text beside the call is %q", m.Text())
	}
	got := r.last()
	if len(got.Tools) != 1 || got.Tools[0].Name != tool.Name || got.Tools[0].Description != tool.Description {
		t.Fatalf("the request offers %+v, want the tool", got.Tools)
	}
	var params struct {
		Type       string
		Properties map[string]struct {
			Type, Description string
			Enum              []string
		}
		Required []string
	}
	if err := json.Unmarshal(got.Tools[0].Parameters, &params); err != nil {
		t.Fatalf("its parameters are %s: %v", got.Tools[0].Parameters, err)
	}
	if !strings.EqualFold(params.Type, "object") || params.Properties["city"].Description != "where to look" ||
		!slices.Equal(params.Properties["unit"].Enum, []string{"celsius", "fahrenheit"}) || !slices.Contains(params.Required, "city") {
		t.Errorf("its parameters are %s, want city (required, described) and unit (two values)", got.Tools[0].Parameters)
	}
}

func testStreamedToolCalls(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Text: []string{"Let me", " see."}, Calls: twoCalls[:1], Stop: llm.StopTools, Usage: usage}))
	m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather())), llm.User("Weather?")))
	wantCalls(t, m, twoCalls[0])
	if m.Text() != "Let me see." {
		t.Errorf("the text beside the call is %q", m.Text())
	}
}

// testParallelStreamedToolCalls checks that two calls of the same tool, and
// interleaved pieces, stay separate.
func testParallelStreamedToolCalls(t *testing.T, r *rig) {
	calls := append(slices.Clone(twoCalls), Call{ID: "call_3", Name: "get_weather", Args: []string{`{"city":`, `"Boston"}`}})
	for _, interleave := range []bool{false, true} {
		r.will(r.reply(Reply{Calls: calls, Interleave: interleave, Stop: llm.StopTools, Usage: usage}))
		m := must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather(), clock())), llm.User("Weather and time?")))
		wantCalls(t, m, calls...)
	}
}

// testToolResults checks that results reach the provider in the order of the calls,
// even if the history contains them in another order.
func testToolResults(t *testing.T, r *rig) {
	r.will(r.reply(Reply{Calls: twoCalls, Stop: llm.StopTools, Usage: usage}),
		r.reply(Reply{Text: []string{"Sunny, noon."}, Stop: llm.StopEnd, Usage: usage}))
	model := llm.With(r.model, llm.Tools(weather(), clock()))
	asked := llm.User("Weather and time?")
	m := must(t)(llm.Generate(t.Context(), model, asked))
	wantCalls(t, m, twoCalls...)
	late := llm.ToolResult(m.ToolCalls[1], "noon")
	failed := llm.ToolResult(m.ToolCalls[0], "no such city")
	failed.Status = llm.StatusError
	must(t)(llm.Generate(t.Context(), model, asked, m, late, failed))
	got := r.last().Messages
	if len(got) != 4 || got[1].Role != llm.RoleAI || len(got[1].ToolCalls) != 2 {
		t.Fatalf("the provider got %+v, want question, calls and two results", got)
	}
	for i, call := range got[1].ToolCalls {
		result := got[2+i]
		if result.Role != llm.RoleTool || result.ToolCallID != "" && result.ToolCallID != call.ID || result.ToolCallID == "" && result.Name != call.Name {
			t.Errorf("result %d is %+v, want that of %s (%s)", i, result, call.Name, call.ID)
		}
		diff(t, "the arguments sent back", joinArgs(twoCalls[i]), call.Args)
	}
	if !strings.Contains(got[2].Text(), "no such city") || !strings.Contains(got[3].Text(), "noon") {
		t.Errorf("the results are %q and %q", got[2].Text(), got[3].Text())
	}
}

func testToolChoice(t *testing.T, r *rig) {
	for _, choice := range []string{llm.ToolChoiceAny, llm.ToolChoiceNone, "get_time"} {
		r.will(r.reply(Reply{Text: []string{"ok"}, Stop: llm.StopEnd, Usage: usage}))
		must(t)(llm.Generate(t.Context(), llm.With(r.model, llm.Tools(weather(), clock()), llm.ToolChoice(choice)), llm.User("Hi")))
		if got := r.last().ToolChoice; got != choice {
			t.Errorf("the request has tool choice %q, want %q", got, choice)
		}
	}
}

func testImages(t *testing.T, r *rig) {
	picture := []byte("\x89PNG\r\n\x1a\n a picture")
	r.will(r.reply(Reply{Text: []string{"An owl."}, Stop: llm.StopEnd, Usage: usage}))
	must(t)(llm.Generate(t.Context(), r.model, llm.User("What is it?", llm.Image("image/png", picture), llm.ImageURL("https://example.com/owl.jpg"))))
	got := r.last().Messages
	if len(got) != 1 || got[0].Text() != "What is it?" {
		t.Fatalf("the provider got %+v, want one message with the question", got)
	}
	var images []llm.Block
	for _, b := range got[0].Parts() {
		if b.Type == llm.BlockImage {
			images = append(images, b)
		}
	}
	if len(images) != 2 || !bytes.Equal(images[0].Data, picture) || images[0].MIMEType != "image/png" || images[1].URL != "https://example.com/owl.jpg" {
		t.Errorf("the provider got the images %+v, want the bytes and the address", images)
	}
}

func testStructuredOutput(t *testing.T, r *rig) {
	if !llm.Describe(r.model).NativeOutput {
		t.Fatal("Describe returns no NativeOutput: set it, or give the reason in Lacks under StructuredOutput")
	}
	type owl struct {
		Name string `json:"name" jsonschema:"what people call it"`
		Eggs int    `json:"eggs"`
	}
	r.will(r.reply(Reply{Text: []string{`{"name": "bar`, `n owl", "eggs": 5}`}, Stop: llm.StopEnd, Usage: usage}))
	got, err := llm.Object[owl](t.Context(), r.model, llm.User("An owl, please."))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "the value", owl{"barn owl", 5}, got)
	var schema struct {
		Properties map[string]struct{ Type, Description string }
		Required   []string
	}
	if err := json.Unmarshal(r.last().Output, &schema); err != nil {
		t.Fatalf("the request asks for %q: %v", r.last().Output, err)
	}
	if schema.Properties["name"].Description != "what people call it" || !strings.EqualFold(schema.Properties["eggs"].Type, "integer") {
		t.Errorf("the request asks for %s, want a schema with name and eggs", r.last().Output)
	}
}

// testReasoning checks that reasoning is separate from the text, and that the
// message can be sent back.
func testReasoning(t *testing.T, r *rig) {
	reply := r.reply(Reply{Reasoning: []string{"Owls", " fly."}, Signature: "c2lnbmVk", Text: []string{"They", " fly."}, Stop: llm.StopEnd, Usage: usage})
	r.will(reply, reply, reply)
	question := llm.User("Do owls fly?")
	for name, model := range map[string]llm.Model{"whole": llm.With(r.model, llm.NoStream()), "streamed": r.model} {
		m := must(t)(llm.Generate(t.Context(), llm.With(model, llm.Reasoning("low")), question))
		if m.Reasoning() != "Owls fly." || m.Text() != "They fly." {
			t.Errorf("the %s answer thinks %q and says %q", name, m.Reasoning(), m.Text())
		}
		if name == "streamed" {
			must(t)(llm.Generate(t.Context(), model, question, m, llm.User("Sure?")))
			diff(t, "the messages sent back", []llm.Message{question, llm.Assistant("They fly."), llm.User("Sure?")}, said(r.last().Messages))
		}
	}
}

// testRefusal checks that a refusal has its own stop reason, and that its
// explanation is the text, also of a saved message.
func testRefusal(t *testing.T, r *rig) {
	reply := r.reply(Reply{Text: []string{"I can", "not help."}, Stop: llm.StopRefusal, Usage: usage})
	r.will(reply, reply)
	for _, model := range []llm.Model{llm.With(r.model, llm.NoStream()), r.model} {
		m := reload(t, must(t)(llm.Generate(t.Context(), model, llm.User("Something bad"))))
		if m.Stop != llm.StopRefusal || m.Text() != "I cannot help." {
			t.Errorf("the answer stopped for %q and says %q, want a refusal with its text", m.Stop, m.Text())
		}
	}
}

func testLengthStop(t *testing.T, r *rig) {
	reply := r.reply(Reply{Text: []string{"Once upon", " a"}, Stop: llm.StopLength, Usage: usage})
	r.will(reply, reply)
	for _, model := range []llm.Model{llm.With(r.model, llm.NoStream()), r.model} {
		m := must(t)(llm.Generate(t.Context(), model, llm.User("A story")))
		if m.Stop != llm.StopLength || m.Text() != "Once upon a" {
			t.Errorf("the answer stopped for %q and says %q, want the length and the text so far", m.Stop, m.Text())
		}
	}
}

// testConcurrency checks that one model serves concurrent callers.
func testConcurrency(t *testing.T, r *rig) {
	const callers = 8
	for range callers {
		r.will(func(w http.ResponseWriter, req *http.Request, got Received) {
			r.reply(Reply{Text: []string{"You said ", got.Messages[0].Text()}, Stop: llm.StopEnd, Usage: usage})(w, req, got)
		})
	}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			word := strings.Repeat("x", i+1)
			m, err := llm.Generate(t.Context(), r.model, llm.User(word))
			if err != nil || m.Text() != "You said "+word {
				t.Errorf("caller %d got %q, %v", i, m.Text(), err)
			}
		})
	}
	wg.Wait()
}
