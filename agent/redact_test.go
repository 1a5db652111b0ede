package agent_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// modelHears is what the model hears of a text that a user says.
func modelHears(t *testing.T, text string, o agent.RedactOptions) (string, error) {
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

func TestPersonalDataIsTakenOut(t *testing.T) {
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
		if got, err := modelHears(t, tt.text, agent.RedactOptions{}); err != nil || got != tt.redacted {
			t.Errorf("%q redacted = %q, %v", tt.text, got, err)
		}
		if got, err := modelHears(t, tt.text, agent.RedactOptions{As: agent.Mask}); err != nil || got != tt.masked {
			t.Errorf("%q masked = %q, %v", tt.text, got, err)
		}
	}
	got, err := modelHears(t, "a@b.de, c@d.de and a@b.de", agent.RedactOptions{As: agent.Hash, Find: []agent.PII{agent.Email}})
	if parts := regexp.MustCompile(`<email_hash:[0-9a-f]{8}>`).FindAllString(got, -1); err != nil || len(parts) != 3 || parts[0] != parts[2] || parts[0] == parts[1] {
		t.Errorf("hashed = %q, %v", got, err)
	}
	badge := agent.Pattern("badge", regexp.MustCompile(`B-\d+`), 8)
	if got, err := modelHears(t, "badge B-123 of a@b.de", agent.RedactOptions{Find: []agent.PII{badge}}); err != nil || got != "badge [REDACTED_BADGE] of a@b.de" {
		t.Errorf("badge = %q, %v", got, err)
	}
}

func TestPersonalDataStopsTheRunIfItIsBlocked(t *testing.T) {
	_, err := modelHears(t, "a@b.de and c@d.de", agent.RedactOptions{As: agent.Block})
	found, ok := errors.AsType[*agent.RedactError](err)
	if !ok || *found != (agent.RedactError{Kind: "email", Where: llm.RoleHuman, Count: 2}) {
		t.Errorf("err = %v", err)
	}
	if strings.Contains(err.Error(), "a@b.de") {
		t.Errorf("the error tells: %v", err)
	}
	_, err = modelHears(t, "a@b.de", agent.RedactOptions{As: "blok"})
	if err == nil || !strings.Contains(err.Error(), `agent: Redact: As is "blok": want redact, mask, hash or block`) {
		t.Errorf("a mistyped redaction gave %v", err)
	}
}

func TestPersonalDataIsTakenOutOfResultsAndAnswers(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(say("mail a@b.de")), llmtest.Say("It is a@b.de indeed.", llmtest.Asked("mail [REDACTED_EMAIL]")))
	o := with(agent.Redact(agent.RedactOptions{KeepInput: true, Results: true, Output: true}))
	out, err := made(t, model, o).Run(t.Context(), agent.Ask("who is c@d.de?"))
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, out.Messages, "human: who is c@d.de?", `ai:  [echo {"text":"mail a@b.de"}]`, "tool: mail [REDACTED_EMAIL]", "ai: It is [REDACTED_EMAIL] indeed.")
}

// What stands around the agent's model hides nothing of what was bound to it.
func TestTagsOfTheModelOutlastMiddleware(t *testing.T) {
	model := llm.With(llmtest.Scripted(t, llmtest.Say("fine")), llm.Tags("mine"))
	a := made(t, model, with(agent.Redact(agent.RedactOptions{Output: true}), agent.RetryModel(nil), agent.Fallback(llmtest.NewScript())))
	tokens := 0
	for ev, err := range a.Stream(t.Context(), agent.Ask("hi"), treadle.Modes(treadle.ModeTokens)) {
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

// streamed is what a stream shows of an answer that comes in the given pieces.
func streamed(t *testing.T, o agent.RedactOptions, pieces ...string) (shown []string, err error) {
	var chunks []llm.Chunk
	for _, p := range pieces {
		chunks = append(chunks, llm.Chunk{Content: p})
	}
	a, err := agent.New(llmtest.NewScript(llmtest.Turn{Chunks: chunks}), &agent.Options{Middleware: []*agent.Middleware{agent.Redact(o)}})
	if err != nil {
		return nil, err
	}
	for ev, err := range a.Stream(t.Context(), agent.Ask("go"), treadle.Modes(treadle.ModeTokens)) {
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

func TestStreamHoldsBackWhatMayBePersonalData(t *testing.T) {
	o := agent.RedactOptions{Output: true}
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
	got, err = streamed(t, agent.RedactOptions{Output: true, As: agent.Block}, "mail a@", "b.de ", "now")
	if _, ok := errors.AsType[*agent.RedactError](err); !ok || strings.Contains(strings.Join(got, ""), "@") {
		t.Errorf("shown %q, %v", got, err)
	}
}

// However an answer is cut into pieces, the stream shows what the whole would be.
func TestStreamRedactsAsTheWholeAnswerIs(t *testing.T) {
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
		o := agent.RedactOptions{Output: true, Find: find}
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

func ExampleRedact() {
	model := llmtest.NewScript(llmtest.Say("I will write to bob@example.com."))
	a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{
		agent.Redact(agent.RedactOptions{Find: []agent.PII{agent.Email}, Output: true}),
		agent.Redact(agent.RedactOptions{Find: []agent.PII{agent.CreditCard}, As: agent.Mask}),
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

func TestBlocksOfTextAreLookedThrough(t *testing.T) {
	answer := llm.Assistant("")
	answer.Blocks = []llm.Block{{Type: llm.BlockReasoning, Reasoning: "hm"}, llm.Text("write to a@b.de "), llm.Text("or c@d.de")}
	for _, model := range []llm.Model{
		llmtest.Scripted(t, llmtest.Turn{Message: answer}),
		llm.With(llmtest.Scripted(t, llmtest.Turn{Message: answer}), llm.NoStream()),
	} {
		a := made(t, model, &agent.Options{Middleware: []*agent.Middleware{agent.Redact(agent.RedactOptions{Output: true})}})
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
