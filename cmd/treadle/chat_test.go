package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestCalculatorComputesExactly(t *testing.T) {
	for expression, want := range map[string]string{
		"2 + 3 * 4":            "14",
		"(2 + 3) * 4":          "20",
		"0.1 + 0.2":            "0.3",
		"2^64":                 "18446744073709551616",
		"2^3^2":                "512",
		"-2^2":                 "-4",
		"2^-2":                 "0.25",
		"2--2":                 "4",
		"7 % 4":                "3",
		"-7 % 4":               "-3",
		"1/3":                  "0.333333333333 (rounded)",
		"6 ÷ 4 × 2 − 1":        "2",
		" 5 ":                  "5",
		".5 * 4":               "2",
		"1 / 3 * 3":            "1",
		"(((((1)))))":          "1",
		"1000000 * 1000000.50": "1000000500000",
	} {
		got, err := calculate(expression)
		if err != nil {
			t.Error(err)
		}
		diff(t, expression+" = "+got, expression+" = "+want)
	}
}

func TestCalculatorTellsTheModelWhatIsWrong(t *testing.T) {
	const use = ": use numbers with + - * / % ^ and parentheses"
	for expression, want := range map[string]string{
		"":                              `cannot compute "": a number is missing at the end` + use,
		"2 +":                           `cannot compute "2 +": a number is missing at the end` + use,
		"2 * (3":                        `cannot compute "2 * (3": a closing parenthesis is missing` + use,
		"2 3":                           `cannot compute "2 3": "3" does not belong there` + use,
		"sqrt(2)":                       `cannot compute "sqrt(2)": a number is missing before "s"` + use,
		"1.2.3":                         `cannot compute "1.2.3": 1.2.3 is no number` + use,
		"1 / (2 - 2)":                   `cannot compute "1 / (2 - 2)": division by zero`,
		"5 % 0":                         `cannot compute "5 % 0": division by zero`,
		"0^-1":                          `cannot compute "0^-1": division by zero`,
		"1.5 % 2":                       `cannot compute "1.5 % 2": % is for whole numbers`,
		"2^0.5":                         `cannot compute "2^0.5": an exponent is a whole number from -1000 to 1000`,
		"2^1001":                        `cannot compute "2^1001": an exponent is a whole number from -1000 to 1000`,
		"(2^1000)^1000":                 `cannot compute "(2^1000)^1000": the numbers become too large`,
		strings.Repeat("(", 51):         `cannot compute "` + strings.Repeat("(", 51) + `": it is nested too deeply`,
		strings.Repeat("1+", 250) + "1": `the expression has 501 characters: at most 500 are computed`,
	} {
		got, err := calculate(expression)
		if err == nil {
			t.Errorf("%s = %s", expression, got)
			continue
		}
		diff(t, err.Error(), want)
	}
}

// callsOf are the calls that the offline model plans, as name and arguments.
func callsOf(asked string) []string {
	_, calls := plan(asked, 1)
	var out []string
	for _, c := range calls {
		out = append(out, c.Name+" "+c.Args)
	}
	return out
}

func TestOfflineModelPlansByRules(t *testing.T) {
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
		"what do you know?":                          {`search_memory {"query":""}`},
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

func TestOfflineModelSaysFirstThatItIsNone(t *testing.T) {
	first, err := llm.Generate(t.Context(), offline{}, llm.User("thanks"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, first.Text(), confession+"\nYou are welcome.")
	second, err := llm.Generate(t.Context(), offline{}, llm.User("thanks"), first, llm.User("and sing for me"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, second.Text(), "I have no rule for that. "+abilities)
}

func TestOfflineModelEndsWhenItIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := llm.Generate(ctx, offline{}, llm.User("hello"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestNotesStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("xyzzy"), 0o600); err != nil {
		t.Fatal(err)
	}
	book := &notebook{dir: filepath.Join(dir, "notes")}
	if err := os.Mkdir(book.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(book.dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../secret", "/etc/passwd", "a/../../secret", "", ".", "\x1b[31m"} {
		if out, err := book.write(t.Context(), note{name, "hello"}); err == nil { // it fails before it asks
			t.Errorf("%q: %s", name, out)
		}
	}
	for _, name := range []string{"../secret", "/etc/passwd", "link"} {
		if out, err := book.read(t.Context(), noteName{name}); err == nil {
			t.Errorf("%q: %s", name, out)
		}
	}
}

// Somebody's memories are nobody else's.
func TestMemoriesAreAUsers(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMemories(t.Context(), s, offline{}, false)
	if err != nil {
		t.Fatal(err)
	}
	use := func(tool int, user, args string) string {
		t.Helper()
		out, err := m.tools[tool].Call(forUser(t.Context(), user), llm.ToolCall{ID: "1", Name: m.tools[tool].Name, Args: []byte(args)})
		if err != nil {
			t.Fatal(err)
		}
		return llm.ToolResult(llm.ToolCall{}, out).Text()
	}
	for range 2 { // told twice, it is one memory
		use(0, "ada", `{"content":"I like green tea"}`)
	}
	for _, test := range []struct{ user, query, want string }{
		{"ada", "tea", "I know this: I like green tea"},
		{"ada", "", "I know this: I like green tea"},
		{"ada", "coffee", "Nothing is remembered about it."},
		{"bob", "tea", "Nothing is remembered about it."},
	} {
		diff(t, known(use(1, test.user, `{"query":"`+test.query+`"}`)), test.want)
	}
}

func TestOfflineModelLearnsWhatPeopleSayAboutThemselves(t *testing.T) {
	for name, test := range map[string]struct {
		known []string
		said  []string // by the user and the assistant in turn
		want  []string
	}{
		"new":                {nil, []string{"Hello! My name is Ada. I like tea; do you?"}, []string{"I like tea", "My name is Ada"}},
		"nothing":            {nil, []string{"What is 1+1?", "I am a stand-in."}, nil},
		"known":              {[]string{"I like tea"}, []string{"i like tea"}, []string{"I like tea"}},
		"put right":          {[]string{"My name is Eda", "I like tea"}, []string{"My name is Ada."}, []string{"I like tea", "My name is Ada"}},
		"the last word":      {nil, []string{"I live in Rome", "Nice.", "I live in Oslo"}, []string{"I live in Oslo"}},
		"several of a kind":  {[]string{"I like tea"}, []string{"I like milk"}, []string{"I like milk", "I like tea"}},
		"not of a statement": {nil, []string{"I am", "Yes?", "my is"}, nil},
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

func TestOfflineModelAnswersFromWhatItWasTold(t *testing.T) {
	reminded := llm.System("…\n- 2026-03-01: my name is Ada\n- 2026-03-01: I like tea\n- 2026-03-02: the wifi code is 42\n…")
	for asked, want := range map[string]string{
		"What is my name?":   "You told me: my name is Grace.",
		"who am I":           "You told me: my name is Grace.",
		"what do I like?":    "You told me: I like tea.",
		"where do I live?":   "You told me: I live in Oslo.",
		"what is my height?": "I do not know that yet. Tell me, and I will remember.",
	} {
		got, _ := answer(llm.Messages{reminded, llm.User("I live in Oslo. My name is Grace"), llm.Assistant("Good to know."), llm.User(asked)})
		diff(t, strings.ReplaceAll(got, "My name", "my name"), want)
	}
}

func TestAnswersToAQuestion(t *testing.T) {
	yes, no := &noteAnswer{Approved: true}, &noteAnswer{}
	for line, want := range map[string]*noteAnswer{
		"yes": yes, "Y": yes, "no": no, "N": no, "no!": no,
		"no, not now": {Reason: "not now"},
		"yes, but":    nil, "": nil, "perhaps": nil,
	} {
		got, ok := readAnswer(line)
		if ok != (want != nil) {
			t.Errorf("%q: understood %v", line, ok)
		} else if ok {
			diff(t, got, *want)
		}
	}
}

func TestDemoChoosesItsModel(t *testing.T) {
	for _, test := range []struct {
		name  string
		flags demoFlags
		keys  []string
		want  string
	}{
		{"no key", demoFlags{}, nil, "offline:rules"},
		{"offline in spite of a key", demoFlags{model: "offline"}, []string{"OPENAI_API_KEY"}, "offline:rules"},
		{"OpenAI", demoFlags{}, []string{"OPENAI_API_KEY", "GEMINI_API_KEY"}, "openai:gpt-5-mini"},
		{"Anthropic", demoFlags{}, []string{"ANTHROPIC_API_KEY"}, "anthropic:claude-sonnet-5-5"},
		{"Gemini", demoFlags{}, []string{"GEMINI_API_KEY"}, "gemini:gemini-3.8-flash"},
		{"a name", demoFlags{model: "anthropic:other"}, []string{"ANTHROPIC_API_KEY"}, "anthropic:other"},
		{"a server", demoFlags{baseURL: "http://localhost:1/v1", model: "llama3.2:1b"}, nil, "openai:llama3.2:1b"},
		{"a server without a name", demoFlags{baseURL: "http://localhost:1/v1"}, nil, "--base-url needs --model, the model's name on that server"},
		{"an unknown provider", demoFlags{model: "acme:x"}, nil, `llm: open model "acme:x": unknown provider "acme"; the providers are: openai, anthropic, gemini, offline`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, m := range defaultModels {
				t.Setenv(m.key, "")
			}
			for _, key := range test.keys {
				t.Setenv(key, "a key")
			}
			m, err := test.flags.openModel()
			if err != nil {
				diff(t, err.Error(), test.want)
				return
			}
			diff(t, llm.Describe(m).String(), test.want)
		})
	}
}

// What a model says must not move the cursor or colour the rest.
func TestSpeechHasNoEscapeCodes(t *testing.T) {
	s := &screen{}
	v := speech{streams: &streams{out: &writer{w: s}, term: &terminal{size: sized(80, 24)}}}
	v.say(llm.Chunk{ID: "1", Content: "a\x1b[31mb\x07\n\tc"})
	v.close()
	diff(t, s.raw.String(), "a[31mb\n\tc\n")
}

func TestThreadsShowAConversation(t *testing.T) {
	messages := llm.Messages{
		llm.User("what is 2 + 2?"),
		llm.Assistant("Let me see.", llm.ToolCall{ID: "1", Name: "calculator", Args: json.RawMessage(`{"expression": "2 + 2"}`)}),
		{Role: llm.RoleTool, Name: "calculator", ToolCallID: "1", Content: "no", Status: llm.StatusError},
		llm.Assistant("It is four.\nI think."),
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{}
	in := &inspector{streams: &streams{out: &writer{w: s}}}
	if !in.conversation("messages", raw) {
		t.Error("it is no conversation")
	}
	diff(t, s.String(), `messages:
  user           what is 2 + 2?
  assistant      Let me see.
                 → calculator {"expression":"2 + 2"}
  calculator ✗   no
  assistant      It is four.
                 I think.
`)
	for _, other := range []string{`[]`, `["a"]`, `[{"role":"user","content":"a"}]`, `[{"type":"circle"}]`, `{"type":"human"}`, `3`} {
		if in.conversation("messages", json.RawMessage(other)) {
			t.Errorf("%s is a conversation", other)
		}
	}
}
