package desk

import (
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestStreamYieldsTokens(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("We have three copies."))
	var tokens []string
	for event, err := range newDesk(t, model, fakeShop(new([]string))).Stream(t.Context(), agent.Ask("Do you have Emma?"), treadle.Modes(treadle.ModeMessages)) {
		if err != nil {
			t.Fatal(err)
		}
		if token, ok := event.(treadle.Token); ok && token.Text() != "" {
			tokens = append(tokens, token.Text())
		}
	}
	if len(tokens) != 4 { // a script streams word by word
		t.Errorf("tokens %q", tokens)
	}
}
