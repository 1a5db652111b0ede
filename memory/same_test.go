package memory_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// insertsKept reports whether a manager with Similar stores the second text next to the
// first, learned in another conversation or in the same.
func insertsKept(t *testing.T, first, second string) bool {
	t.Helper()
	for _, together := range []bool{false, true} {
		s := newStore(t, &store.Options{Embedder: topicEmbedder{}})
		turns := []llmtest.Turn{llmtest.Ask(note(first)), llmtest.Ask(note(second))}
		if together {
			turns = []llmtest.Turn{llmtest.Ask(note(first), note(second)), llmtest.Ask(done())}
		}
		m := newStoreManager(t, s, llmtest.NewScript(turns...), memory.StoreManagerOptions{Similar: 0.95})
		for range turns {
			if _, err := m.Reflect(t.Context(), llm.User("…")); err != nil {
				t.Fatal(err)
			}
		}
		if len(stored(t, s)) < 2 {
			return false
		}
	}
	return true
}

func TestContradictionIsNotDuplicate(t *testing.T) {
	for first, second := range map[string]string{
		"Ada is allergic to nuts.":                    "Ada is not allergic to nuts.",
		"Ada takes 5 mg of the drug every morning":    "Ada takes 50 mg of the drug every morning",
		"The weekly meeting with Bob starts at 3 pm":  "The weekly meeting with Bob starts at 4 pm",
		"Ada's manager is called Tom Miller":          "Ada's manager is called Tim Miller",
		"Ada flies from Oslo to Rome":                 "Ada flies from Rome to Oslo",
		"Ada wants to be called before lunch":         "Ada wants to be called after lunch",
		"Ada was a smoker":                            "Ada is a smoker",
		"Ada has a cat":                               "Ada has cats",
		"Ada's sister lives in Oslo":                  "Ada's sisters live in Oslo",
		"Ada's dog sleeps outside":                    "Ada's dogs sleep outside",
		"Ada invited the friend to lunch":             "Ada invited the friends to lunch",
		"Ada has few friends":                         "Ada has a few friends",
		"It gets down to -5 degrees in the garage":    "It gets down to 5 degrees in the garage",
		"Ada can't eat gluten":                        "Ada can eat gluten",
		"Ada loves Ben":                               "Ben loves Ada",
		"The codeword of the garage is Polish":        "The codeword of the garage is polish",
		"Ada likes 🍕 best":                            "Ada likes 🍔 best",
		"艾达 喜欢 茶":                                     "艾达 不喜欢 茶",
		"Ada ist gegen Nüsse allergisch":              "Ada ist nicht gegen Nüsse allergisch",
		"The flat costs 1,200 euros a month in total": "The flat costs 1.200,50 euros a month in total",
	} {
		if !insertsKept(t, first, second) {
			t.Errorf("%q was dropped, because %q is stored", second, first)
		}
	}
	for first, second := range map[string]string{
		"Ada likes green tea a lot": "Ada likes green tea a lot!",
		"The dog sleeps outside":    "the dog sleeps outside.",
		"Ada lives in the old town": "Ada lives in old town",
	} {
		if insertsKept(t, first, second) {
			t.Errorf("%q was stored, although %q is", second, first)
		}
	}
}

// No insert is dropped if one word is different, wherever it is: a number, a name, a
// negation, the form of a word, or any other word.
func TestDifferentWordIsNeverDropped(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	names := []string{"Ada", "Ben", "Müller", "Muller", "Zoë", "Zoe", "李雷", "O'Neil", "Ann-Marie", "X Æ", "Anna", "Ann"}
	number := func() string {
		return pick("", "-", "$", "#", "v", "+49 ") + fmt.Sprint(r.IntN(100)) + pick("", "%", " mg", ".5", ",000", ":30", "th", "/2")
	}
	filler := []string{"the", "a", "drug", "every", "morning", "takes", "of", "at", "the dogs", "goes", "to", "likes", "in", "(maybe)", "no. 1"}
	content := []string{"sister", "lives", "window", "aisle", "few", "cake", "Ada's", "walk", "his", "was", "after", "bus", "more", "family", "do", "an"}
	for range 150 {
		text := make([]string, 3+r.IntN(10))
		for i := range text {
			text[i] = pick(filler...)
		}
		at := r.IntN(len(text))
		change := append([]string(nil), text...)
		switch r.IntN(6) {
		case 0:
			for text[at], change[at] = number(), number(); text[at] == change[at]; change[at] = number() {
			}
		case 1:
			for text[at], change[at] = pick(names...), pick(names...); text[at] == change[at]; change[at] = pick(names...) {
			}
		case 2: // a plural or another form
			text[at] = pick(content...)
			change[at] = text[at] + pick("s", "es", "ed", "d", "ing", "'s", "n't", "ly", "er")
		case 3: // another word
			for text[at], change[at] = pick(content...), pick(content...); text[at] == change[at]; change[at] = pick(content...) {
			}
		case 4: // one word more
			change = append(append(append([]string(nil), text[:at]...), pick(content...)), text[at:]...)
		default:
			no := pick("not", "never", "no", "doesn't", "without", "nicht", "pas", "不")
			change = append(append(append([]string(nil), text[:at]...), no), text[at:]...)
		}
		if a, b := strings.Join(text, " "), strings.Join(change, " "); !insertsKept(t, a, b) || !insertsKept(t, b, a) {
			t.Fatalf("seed %d: %q and %q count as the same", seed, a, b)
		}
	}
}

func TestConcurrentManagersStoreFactOnce(t *testing.T) {
	s := newStore(t, nil)
	tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	learned := make(chan int, 16)
	start := make(chan struct{})
	for range 8 {
		m := newStoreManager(t, s, llmtest.NewScript(llmtest.Ask(note("Ada plays the cello"))), memory.StoreManagerOptions{})
		all.Go(func() {
			<-start
			changes, err := m.Reflect(t.Context(), llm.User("I play the cello"))
			if err != nil {
				t.Error(err)
			}
			learned <- len(changes)
		})
		all.Go(func() {
			<-start
			if _, err := tool.Call(t.Context(), llmtest.ToolCall("manage_memory", `{"content":"Ada plays the cello"}`)); err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	close(learned)
	sum := 0
	for n := range learned {
		sum += n
	}
	if got := stored(t, s); len(got) != 1 || sum > 1 {
		t.Errorf("%d memories are stored and %d changes reported: %q", len(got), sum, got)
	}
}
