package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// modelHears returns the text that the model receives for a user's text.
func modelHears(t *testing.T, text string, o *agent.RedactOptions) (string, error) {
	t.Helper()
	model := llmtest.NewScript(llmtest.Say("ok"))
	out, err := made(t, model, &agent.Options{Middleware: []*agent.Middleware{agent.Redact(o)}}).Run(t.Context(), agent.Ask(text))
	if err != nil {
		return "", err
	}
	if got := model.Requests()[0].Messages[0].Text(); got != out.Messages[0].Text() {
		t.Errorf("the model hears %q and the thread keeps %q", got, out.Messages[0].Text())
	}
	return out.Messages[0].Text(), nil
}

func TestRedactRemovesPersonalData(t *testing.T) {
	for _, tt := range []struct {
		text, redacted, masked string
	}{
		{"mail ann.b@mail.example.com now", "mail [REDACTED_EMAIL] now", "mail ann.b@****.com now"},
		{"card 4111 1111 1111 1111.", "card [REDACTED_CREDIT_CARD].", "card **** **** **** 1111."},
		{"card 5555-5555-5555-4444", "card [REDACTED_CREDIT_CARD]", "card ****-****-****-4444"},
		{"3 cards 4111 1111 1111 1111 10", "3 cards [REDACTED_CREDIT_CARD] 10", "3 cards **** **** **** 1111 10"},
		{"card 4111111111111112 has a wrong digit", "card 4111111111111112 has a wrong digit", "card 4111111111111112 has a wrong digit"},
		{"at 192.168.0.17 and 999.1.1.1", "at [REDACTED_IP] and 999.1.1.1", "at *.*.*.17 and 999.1.1.1"},
		{"at 2001:db8::8a2e:370:7334", "at [REDACTED_IP]", "at ****"},
		{"it is 10:30:00 now", "it is 10:30:00 now", "it is 10:30:00 now"},
		{"mac 00:1A:2B:3C:4D:5E!", "mac [REDACTED_MAC_ADDRESS]!", "mac **:**:**:**:**:5E!"},
		{"see https://x.example/a?b=c.", "see [REDACTED_URL].", "see [MASKED_URL]."},
		{"nothing to hide", "nothing to hide", "nothing to hide"},
	} {
		if got, err := modelHears(t, tt.text, &agent.RedactOptions{}); err != nil || got != tt.redacted {
			t.Errorf("%q redacted = %q, %v", tt.text, got, err)
		}
		if got, err := modelHears(t, tt.text, &agent.RedactOptions{As: agent.Mask}); err != nil || got != tt.masked {
			t.Errorf("%q masked = %q, %v", tt.text, got, err)
		}
	}
	got, err := modelHears(t, "a@b.de, c@d.de and a@b.de", &agent.RedactOptions{As: agent.Hash, Find: []agent.PII{agent.Email}})
	if parts := regexp.MustCompile(`<email_hash:[0-9a-f]{8}>`).FindAllString(got, -1); err != nil || len(parts) != 3 || parts[0] != parts[2] || parts[0] == parts[1] {
		t.Errorf("hashed = %q, %v", got, err)
	}
	badge := agent.Pattern("badge", regexp.MustCompile(`B-\d+`), 8)
	if got, err := modelHears(t, "badge B-123 of a@b.de", &agent.RedactOptions{Find: []agent.PII{badge}}); err != nil || got != "badge [REDACTED_BADGE] of a@b.de" {
		t.Errorf("badge = %q, %v", got, err)
	}
}

func TestRedactBlockFailsRun(t *testing.T) {
	_, err := modelHears(t, "a@b.de and c@d.de", &agent.RedactOptions{As: agent.Block})
	found, ok := errors.AsType[*agent.RedactError](err)
	if !ok || *found != (agent.RedactError{Kind: "email", Where: llm.RoleHuman, Count: 2}) {
		t.Errorf("err = %v", err)
	}
	if strings.Contains(err.Error(), "a@b.de") {
		t.Errorf("the error reveals the text: %v", err)
	}
}

func TestRedactRejectsUselessOptions(t *testing.T) {
	for want, o := range map[string]*agent.RedactOptions{
		`invalid As "blok": want redact, mask, hash, or block`:           {As: "blok"},
		`kind "badge" at index 0 of Find has no pattern: create it with`: {Find: []agent.PII{agent.Pattern("badge", nil, 0)}},
		`kind "" at index 1 of Find has no pattern: create it with`:      {Find: []agent.PII{agent.Email, {}}},
		"nothing to search: with KeepInput, set Output":                  {KeepInput: true},
	} {
		if _, err := agent.New(llmtest.NewScript(), with(agent.Redact(o))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %s", err, want)
		}
	}
}

// Whatever form a block is written in, a provider's adapter may send it.
func TestRedactSearchesAllBlocks(t *testing.T) {
	for _, raw := range []string{
		`{"type":"text","text":"bob@example.com"}`,
		`{"type":"input_text","text":"bob@example.com"}`,
		`{"type":"text-plain","text":"bob@example.com"}`,
		`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"bob@example.com"}}`,
		`{"type":"document","title":"of bob@example.com","source":{"type":"url","url":"https://a.example/bob@example.com"}}`,
		`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"bob@example.com"}]}}`,
		`{"type":"file","source_type":"text","text":"bob@example.com"}`,
		`{"type":"file","mime_type":"text/csv","base64":"Ym9iQGV4YW1wbGUuY29t"}`,
		`{"type":"file","filename":"bob@example.com.pdf","file_id":"f1"}`,
		`{"type":"search_result","content":[{"text":"bob@example.com"}],"bob@example.com":1}`,
		`{"type":"reasoning","reasoning":"bob@example.com"}`,
		`{"type":"thinking","thinking":"bob@example.com","signature":"x"}`,
		`{"type":"image","url":"https://a.example/?to=bob@example.com"}`,
		`{"type":"whatever","deep":{"er":[{"x":"bob@example.com"}]}}`,
	} {
		for _, role := range []string{"user", "tool"} {
			var m llm.Message
			if err := json.Unmarshal([]byte(`{"role":"`+role+`","tool_call_id":"1","name":"bob","content":[`+raw+`]}`), &m); err != nil {
				t.Fatal(err)
			}
			model := llmtest.NewScript(llmtest.Say("ok"))
			a := made(t, model, with(agent.Redact(&agent.RedactOptions{Results: true})))
			history := llm.Messages{llm.User("hi"), llm.Assistant("", llm.ToolCall{ID: "1", Name: "bob"}), m}
			if _, err := a.Run(t.Context(), agent.State{Chat: llm.Chat{Messages: history}}); err != nil {
				t.Fatal(err)
			}
			for _, m := range model.Requests()[0].Messages {
				for _, p := range m.Parts() {
					read, err := json.Marshal(p)
					if err != nil || strings.Contains(string(read)+string(p.Data), "bob@example.com") {
						t.Errorf("of the block %s of a %s the model reads %s %s %v", raw, role, read, p.Data, err)
					}
				}
			}
		}
	}
}

// A picture is found by its address.
func TestRedactKeepsImageURLs(t *testing.T) {
	model := llmtest.NewScript(llmtest.Say("ok"))
	a := made(t, model, with(agent.Redact(&agent.RedactOptions{})))
	state := agent.State{Chat: llm.Chat{Messages: llm.Messages{llm.User("see", llm.ImageURL("https://a.example/owl.png"), llm.Image("image/png", []byte("png")))}}}
	if _, err := a.Run(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if got := model.Requests()[0].Messages[0].Parts(); got[1].URL != "https://a.example/owl.png" || string(got[2].Data) != "png" {
		t.Errorf("the model is shown %v", got)
	}
}

func TestRedactSearchesCallsAndResponse(t *testing.T) {
	type card struct {
		Mail string `json:"mail"`
	}
	for name, model := range map[string]func(...llmtest.Turn) llm.Model{
		"streamed": func(turns ...llmtest.Turn) llm.Model { return llmtest.NewScript(turns...) },
		"whole":    func(turns ...llmtest.Turn) llm.Model { return llm.With(llmtest.NewScript(turns...), llm.NoStream()) },
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			note := llm.NewTool("note", "", func(_ context.Context, in struct{ Text string }) (string, error) {
				got = in.Text
				return "noted", nil
			})
			o := &agent.Options{Tools: []*llm.Tool{note}, Middleware: []*agent.Middleware{agent.Redact(&agent.RedactOptions{Output: true})}, Response: agent.NewResponse[card]("", nil)}
			a := made(t, model(llmtest.Ask(llmtest.ToolCall("note", `{"Text":"mail bob\u0040example.com"}`)), llmtest.Say("done"),
				llmtest.Ask(llmtest.ToolCall("card", `{"mail":"bob@example.com"}`))), o)
			var all strings.Builder
			var out agent.State
			for e, err := range a.Stream(t.Context(), agent.Ask("go")) {
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&all, "%+v\n", e)
				if raw, err := json.Marshal(e); err == nil {
					all.Write(raw)
				}
			}
			if strings.Contains(all.String(), "bob@example") || strings.Contains(all.String(), `bob\\u0040`) {
				t.Error("the stream has it")
			}
			if got != "mail [REDACTED_EMAIL]" {
				t.Errorf("the tool got %q", got)
			}
			a = made(t, model(llmtest.Say("done"), llmtest.Ask(llmtest.ToolCall("card", `{"mail":"bob@example.com"}`))), o)
			out, err := a.Run(t.Context(), agent.Ask("go"))
			if err != nil || string(out.Response) != `{"mail":"[REDACTED_EMAIL]"}` {
				t.Errorf("the structured answer is %s, %v", out.Response, err)
			}
		})
	}
}

func TestRedactFindsCommonFormats(t *testing.T) {
	for text, want := range map[string]string{
		"peer ab:12:192.168.1.10, ok":             "peer ab:12:[REDACTED_IP], ok",
		"at 192.168.1.10:8080.":                   "at [REDACTED_IP]:8080.",
		"host=10.0.0.1;":                          "host=[REDACTED_IP];",
		"zero 192.168.001.010":                    "zero [REDACTED_IP]",
		"[2001:db8::1]:443 and ::1 and fe80::1%e": "[[REDACTED_IP]]:443 and [REDACTED_IP] and [REDACTED_IP]%e",
		"::ffff:192.0.2.1":                        "[REDACTED_IP]",
		"2001:0db8:0000:0000:0000:ff00:0042:8329": "[REDACTED_IP]",
		"at 12:30:45, std::vector, v1.2.3":        "at 12:30:45, std::vector, v1.2.3",
		"HTTPS://A.EXAMPLE/?token=1 x":            "[REDACTED_URL] x",
		"Www.Example.Com/a":                       "[REDACTED_URL]",
		"ftp://a.example/b":                       "[REDACTED_URL]",
		"4111  1111  1111  1111":                  "[REDACTED_CREDIT_CARD]",
		"4111 - 1111 - 1111 - 1111":               "[REDACTED_CREDIT_CARD]",
		"4111\t1111\u00a01111 1111":               "[REDACTED_CREDIT_CARD]",
		"4111.1111.1111.1111":                     "[REDACTED_CREDIT_CARD]",
		"4111–1111–1111–1111":                     "[REDACTED_CREDIT_CARD]",
		"0011.2233.4455":                          "[REDACTED_MAC_ADDRESS]",
		"00-1B-44-11-3A-B7":                       "[REDACTED_MAC_ADDRESS]",
		"bob@exämple.de":                          "[REDACTED_EMAIL]",
		"BOB.O'HARA+x@EXAMPLE.CO.UK":              "[REDACTED_EMAIL]",
		"1234 5678 9012 3456":                     "1234 5678 9012 3456",
	} {
		if got, err := modelHears(t, text, &agent.RedactOptions{}); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestRedactSearchesResultsAndMessages(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("mail a@b.de")), llmtest.Say("It is a@b.de indeed.", llmtest.Asked("mail [REDACTED_EMAIL]")))
	o := with(agent.Redact(&agent.RedactOptions{KeepInput: true, Results: true, Output: true}))
	out, err := made(t, model, o).Run(t.Context(), agent.Ask("who is c@d.de?"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: who is c@d.de?", `ai:  [echo {"text":"mail [REDACTED_EMAIL]"}]`, "tool: mail [REDACTED_EMAIL]", "ai: It is [REDACTED_EMAIL] indeed.")
}

// Middleware preserves the settings bound to the agent's model.
func TestModelTagsSurviveMiddleware(t *testing.T) {
	model := llm.With(llmtest.Scripted(t, llmtest.Say("fine")), llm.Tags("mine"))
	a := made(t, model, with(agent.Redact(&agent.RedactOptions{Output: true}), agent.RetryModel(nil), agent.Fallback(llmtest.NewScript())))
	tokens := 0
	for ev, err := range a.Stream(t.Context(), agent.Ask("hi"), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if token, ok := ev.(treadle.Token); ok {
			tokens++
			if !slices.Contains(token.Tags, "mine") {
				t.Errorf("%v has the tags %q", token.Chunk, token.Tags)
			}
		}
	}
	if tokens == 0 {
		t.Error("nothing was streamed")
	}
}

// streamed returns the streamed text of a response that arrives in the given pieces.
func streamed(t *testing.T, o *agent.RedactOptions, pieces ...string) (shown []string, err error) {
	var chunks []llm.Chunk
	for _, p := range pieces {
		chunks = append(chunks, llm.Chunk{Content: p})
	}
	a, err := agent.New(llmtest.NewScript(llmtest.Turn{Chunks: chunks}), &agent.Options{Middleware: []*agent.Middleware{agent.Redact(o)}})
	if err != nil {
		return nil, err
	}
	for ev, err := range a.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			return shown, err
		}
		if token, ok := ev.(treadle.Token); ok {
			if c, ok := token.Chunk.(llm.Chunk); ok {
				shown = append(shown, c.Content)
			}
		}
	}
	return shown, nil
}

func TestStreamHoldsBackPossibleMatches(t *testing.T) {
	o := &agent.RedactOptions{Output: true}
	got, err := streamed(t, o, "Write ", "to an", "n@mai", "l.exam", "ple.com ", "or call ", "Bob ", "today.")
	if err != nil {
		t.Fatal(err)
	}
	if whole := strings.Join(got, ""); whole != "Write to [REDACTED_EMAIL] or call Bob today." || len(got) < 4 {
		t.Errorf("shown %q", got)
	}
	got, err = streamed(t, o, "card 4111", " 1111", " 1111 1", "111 ok")
	if whole := strings.Join(got, ""); err != nil || whole != "card [REDACTED_CREDIT_CARD] ok" {
		t.Errorf("shown %q, %v", got, err)
	}
	got, err = streamed(t, &agent.RedactOptions{Output: true, As: agent.Block}, "mail a@", "b.de ", "now")
	if _, ok := errors.AsType[*agent.RedactError](err); !ok || strings.Contains(strings.Join(got, ""), "@") {
		t.Errorf("shown %q, %v", got, err)
	}
}

// However a response is split, the stream shows the redacted whole.
func TestStreamRedactsLikeWholeResponse(t *testing.T) {
	badge := agent.Pattern("badge", regexp.MustCompile(`B \d{3}`), 5)
	quote := agent.Pattern("quote", regexp.MustCompile(`"[^"]*"`), 0)
	words := []string{"hello", "a@b.de", "4111 1111 1111 1111", "10.0.0.1", "::1", "https://x.de/ü", "B 123", "12 34", "-", "  ", "\n", "42", `"hi there"`, "ü", "a@", "00:1A:2B:3C:4D:5E"}
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 8).Draw(rt, "words"), rapid.SampledFrom([]string{" ", ""}).Draw(rt, "between"))
		text += "."
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len([]rune(rest))).Draw(rt, "piece")
			pieces = append(pieces, string([]rune(rest)[:n]))
			rest = string([]rune(rest)[n:])
		}
		find := []agent.PII{agent.Email, agent.CreditCard, agent.IP, agent.MAC, agent.URL, badge}
		if rapid.Bool().Draw(rt, "quotes") {
			find = append(find, quote)
		}
		o := &agent.RedactOptions{Output: true, Find: find}
		whole, err := streamed(t, o, text)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := streamed(t, o, pieces...)
		if err != nil {
			rt.Fatal(err)
		}
		if strings.Join(got, "") != strings.Join(whole, "") {
			rt.Errorf("%q in pieces is %q, as a whole %q", text, got, whole)
		}
	})
}

func TestRedactKeepsBlockOrder(t *testing.T) {
	thought := func(i int, s string) llm.Chunk {
		return llm.Chunk{Blocks: []llm.Block{{Type: llm.BlockReasoning, Index: &i, Reasoning: s}}}
	}
	call := func(id string) llm.Chunk {
		return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: id, Name: "search", Args: `{"q":"a@b.de"}`}}}
	}
	script := llmtest.NewScript(
		llmtest.Turn{Chunks: []llm.Chunk{{Content: "Hm, a@"}, call("a"), thought(0, "ask b@c.de"), call("b"), {Stop: llm.StopTools}}},
		llmtest.Say("done"))
	search := llm.NewTool("search", "Searches.", func(context.Context, struct{}) (string, error) { return "none", nil })
	search.Parameters = nil
	a := made(t, script, &agent.Options{Tools: []*llm.Tool{search}, Middleware: []*agent.Middleware{agent.Redact(&agent.RedactOptions{Output: true})}})
	out, err := a.Run(t.Context(), agent.Ask("go"))
	if err != nil {
		t.Fatal(err)
	}
	m := out.Messages[1]
	want := []llm.Block{{Type: llm.BlockToolCall, ID: "a"}, {Type: llm.BlockReasoning, Reasoning: "ask [REDACTED_EMAIL]"}, {Type: llm.BlockToolCall, ID: "b"}}
	if d := cmp.Diff(want, m.Blocks); d != "" || m.Content != "Hm, a@" || len(m.ToolCalls) != 2 {
		t.Errorf("text %q, %d calls, blocks (-want +got):\n%s", m.Content, len(m.ToolCalls), d)
	}
}

func ExampleRedact() {
	model := llmtest.NewScript(llmtest.Say("I will write to bob@example.com."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{
		agent.Redact(&agent.RedactOptions{Find: []agent.PII{agent.Email}, Output: true}),
		agent.Redact(&agent.RedactOptions{Find: []agent.PII{agent.CreditCard}, As: agent.Mask}),
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(context.Background(), agent.Ask("Tell bob@example.com that I pay with 4111 1111 1111 1111."))
	for _, line := range lines(out.Messages) {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// human: Tell [REDACTED_EMAIL] that I pay with **** **** **** 1111.
	// ai: I will write to [REDACTED_EMAIL].
	// <nil>
}

func TestRedactSearchesTextBlocks(t *testing.T) {
	answer := llm.Assistant("")
	answer.Blocks = []llm.Block{{Type: llm.BlockReasoning, Reasoning: "hm"}, llm.Text("write to a@b.de "), llm.Text("or c@d.de")}
	for _, model := range []llm.Model{
		llmtest.Scripted(t, llmtest.Turn{Message: answer}),
		llm.With(llmtest.Scripted(t, llmtest.Turn{Message: answer}), llm.NoStream()),
	} {
		a := made(t, model, &agent.Options{Middleware: []*agent.Middleware{agent.Redact(&agent.RedactOptions{Output: true})}})
		out, err := a.Run(t.Context(), chat(llm.User("", llm.Text("I am x@y.de"))))
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, out.Messages, "human: I am [REDACTED_EMAIL]", "ai: write to [REDACTED_EMAIL] or [REDACTED_EMAIL]")
		if got := out.Messages[1].Reasoning(); got != "hm" {
			t.Errorf("reasoning = %q", got)
		}
	}
}

// Numbers and names of fields are redacted wherever they stand, and no field is
// lost because two names became one.
func TestRedactFindsNumbersAndFieldNames(t *testing.T) {
	m := llm.User("hi")
	m.Extra = map[string]any{"paid": 4111111111111111.0, "card": 4111111111111111, "to": map[string]any{"a@b.org": 1.0, "c@d.org": 2.0}}
	script := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("ok"), Expect: []func(*llm.Request) error{func(r *llm.Request) error {
		raw, err := json.Marshal(r.Messages[len(r.Messages)-1].Extra)
		if err == nil && (strings.Contains(string(raw), "4111") || strings.Contains(string(raw), "@") || !strings.Contains(string(raw), "1") || !strings.Contains(string(raw), "2")) {
			err = fmt.Errorf("the model reads %s", raw)
		}
		return err
	}}})
	a := made(t, script, with(agent.Redact(&agent.RedactOptions{Find: []agent.PII{agent.CreditCard, agent.Email}})))
	if _, err := a.Run(t.Context(), agent.State{Chat: llm.Chat{Messages: llm.Messages{m}}}); err != nil {
		t.Fatal(err)
	}
}
