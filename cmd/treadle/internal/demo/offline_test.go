package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
)

// callsOf returns the calls that the offline model plans, as name and arguments.
func callsOf(asked string) []string {
	_, calls := plan(asked, 1)
	var out []string
	for _, c := range calls {
		out = append(out, c.Name+" "+c.Args)
	}
	return out
}

func TestOfflineModelPlansToolCalls(t *testing.T) {
	for asked, want := range map[string][]string{
		"what is 12 * (3 + 4)?":                      {`calculator {"expression":"12 * (3 + 4)"}`},
		"2 plus 2":                                   {`calculator {"expression":"2 + 2"}`},
		"Please compute 7 times 6.":                  {`calculator {"expression":"7 * 6"}`},
		"3*3 =":                                      {`calculator {"expression":"3*3"}`},
		"note shopping: milk and eggs":               {`write_note {"file":"shopping.md","text":"milk and eggs"}`},
		"note in ideas.txt: more owls":               {`write_note {"file":"ideas.txt","text":"more owls"}`},
		"make a note that the cat wants out":         {`write_note {"file":"the-cat-wants.md","text":"the cat wants out"}`},
		"note ../../x: y":                            {`write_note {"file":"x-y.md","text":"../../x: y"}`},
		"show my notes":                              {`read_notes {}`},
		"read note shopping":                         {`read_notes {"file":"shopping.md"}`},
		"Remember that I like green tea.":            {`manage_memory {"content":"I like green tea"}`},
		"what do you know about tea?":                {`search_memory {"query":"tea"}`},
		"do you remember my birthday?":               {`search_memory {"query":"my birthday"}`},
		"what do you know about me?":                 {`search_memory {"query":"","limit":100}`},
		"forget that I like green tea.":              {`search_memory {"query":"I like green tea"}`},
		"please forget my name":                      {`search_memory {"query":"my name"}`},
		"forget everything":                          {`search_memory {"query":"","limit":100}`},
		"forget everything you know about me":        {`search_memory {"query":"","limit":100}`},
		"forget it":                                  {`search_memory {"query":"it"}`},
		"what do you know?":                          {`search_memory {"query":"","limit":100}`},
		"remember that I am Ada and what is 1 + 1?":  {`manage_memory {"content":"I am Ada"}`, `calculator {"expression":"1 + 1"}`},
		"what is 1+1; what is 2+2. Then say nothing": {`calculator {"expression":"1+1"}`},
		"what is love?":                              nil,
		"what is 7?":                                 nil,
		"remember":                                   nil,
		"notebooks are nice":                         nil,
		"":                                           nil,
	} {
		t.Run(asked, func(t *testing.T) { diff(t, callsOf(asked), want) })
	}
}

func TestOfflineModelStartsWithDisclaimer(t *testing.T) {
	first, err := llm.Generate(t.Context(), offline{}, llm.User("thanks"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, first.Text(), disclaimer+"\nYou are welcome.")
	second, err := llm.Generate(t.Context(), offline{}, llm.User("thanks"), first, llm.User("and sing for me"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, second.Text(), "I have no rule for that. "+abilities)
}

func TestOfflineModelStopsWhenCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := llm.Generate(ctx, offline{}, llm.User("hello"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error: %v", err)
	}
}

func TestOfflineModelLearnsStatements(t *testing.T) {
	for name, test := range map[string]struct {
		known []string
		said  []string // by the user and the assistant in turn
		want  []string
	}{
		"new":                 {nil, []string{"Hello! My name is Ada. I like tea; do you?"}, []string{"I like tea", "My name is Ada"}},
		"nothing":             {nil, []string{"What is 1+1?", "I am a stand-in."}, nil},
		"known":               {[]string{"I like tea"}, []string{"i like tea"}, []string{"I like tea"}},
		"corrected":           {[]string{"My name is Eda", "I like tea"}, []string{"My name is Ada."}, []string{"I like tea", "My name is Ada"}},
		"latest wins":         {nil, []string{"I live in Rome", "Nice.", "I live in Oslo"}, []string{"I live in Oslo"}},
		"several of one kind": {[]string{"I like tea"}, []string{"I like milk"}, []string{"I like milk", "I like tea"}},
		"not a statement":     {nil, []string{"I am", "Yes?", "my is"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var existing []memory.Document
			for i, text := range test.known {
				d, err := memory.NewDocument(fmt.Sprint(i), text)
				if err != nil {
					t.Fatal(err)
				}
				existing = append(existing, d)
			}
			var talk []llm.Message
			for i, text := range test.said {
				if i%2 == 0 {
					talk = append(talk, llm.User(text))
				} else {
					talk = append(talk, llm.Assistant(text))
				}
			}
			m, err := memory.NewManager(offline{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			changes, err := m.Reflect(t.Context(), talk, existing)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range changes.Documents() {
				var note memory.Memory
				if err := d.Decode(&note); err != nil {
					t.Fatal(err)
				}
				got = append(got, note.Content)
			}
			slices.Sort(got)
			diff(t, got, test.want)
		})
	}
}

func TestOfflineModelAnswersFromMemories(t *testing.T) {
	reminded := llm.System("…\n- 2026-03-01: my name is Ada\n- 2026-03-01: I like tea\n- 2026-03-02: the wifi code is 42\n…")
	for asked, want := range map[string]string{
		"What is my name?":   "You told me: my name is Grace.",
		"who am I":           "You told me: my name is Grace.",
		"what do I like?":    "You told me: I like tea.",
		"where do I live?":   "You told me: I live in Oslo.",
		"what is my height?": "I do not know that yet. Tell me, and I will remember.",
	} {
		got, _ := offline{}.answer(llm.Messages{reminded, llm.User("I live in Oslo. My name is Grace"), llm.Assistant("Good to know."), llm.User(asked)})
		diff(t, strings.ReplaceAll(got, "My name", "my name"), want)
	}
}
