package near_test

import (
	"testing"

	"github.com/treadle-go/treadle/internal/near"
)

func TestHintSuggestsSimilarName(t *testing.T) {
	names := []string{"store", "checkpointer", "http"}
	for name, want := range map[string]string{
		"stroe":         `: did you mean "store"?`,
		"HTTP":          `: did you mean "http"?`,
		"check_pointer": `: did you mean "checkpointer"?`,
		"unrelated":     "",
		"":              "",
	} {
		if got := near.Hint(name, names); got != want {
			t.Errorf("Hint(%q) is %q, want %q", name, got, want)
		}
	}
}

func TestNameToleratesMoreInLongNames(t *testing.T) {
	names := []string{"demo", "demo-2", "conversation-with-ada", "猫"}
	for name, want := range map[string]string{
		"dmo": "demo", "DEMO": "demo", "demo-3": "demo-2", "conversation-with-adam": "conversation-with-ada", "other": "", "猫猫": "猫",
	} {
		if got := near.Name(name, names); got != want {
			t.Errorf("Name(%q) is %q, want %q", name, got, want)
		}
	}
}
