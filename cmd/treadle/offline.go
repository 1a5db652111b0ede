package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// offline is the model of a demo without a key: no language model but a few
// rules, by which it plans calls of the same tools that a real one is given. It
// says so in its first answer.
type offline struct {
	pace time.Duration // between two words
}

const (
	confession = "I am a stand-in that works by rules, not a language model."
	abilities  = `I can compute ("what is 12 * (3 + 4)?"), write notes ("note shopping: milk and eggs"), ` +
		`read them ("show my notes"), remember ("remember that I like green tea") and ` +
		`look things up ("what do you know about tea?"). What you say about yourself I remember anyway ("my name is Ada").`
)

// Describe implements [llm.Describer].
func (offline) Describe() llm.Info { return llm.Info{Provider: "offline", Model: "rules"} }

// Stream implements [llm.Model].
func (m offline) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text, calls := answer(req.Messages)
		if isLearning(req) {
			text, calls = "", learn(req.Messages)
		}
		chunks := sayAll(text, calls)
		if req.NoStream {
			chunks = []llm.Chunk{{Content: text, ToolCalls: calls}}
		}
		for i, c := range chunks {
			if i > 0 || ctx.Err() != nil {
				if err := model(m).pause(ctx); err != nil {
					yield(llm.Chunk{}, context.Cause(ctx))
					return
				}
			}
			if i == len(chunks)-1 {
				c.Stop = llm.StopEnd
				if len(calls) > 0 {
					c.Stop = llm.StopTools
				}
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// sayAll is an answer in words, and then its calls.
func sayAll(text string, calls []llm.ToolCallChunk) []llm.Chunk {
	var out []llm.Chunk
	for _, word := range words.FindAllString(text, -1) {
		out = append(out, llm.Chunk{Content: word})
	}
	if len(calls) > 0 {
		out = append(out, llm.Chunk{ToolCalls: calls})
	}
	return out
}

// answer decides what to say and what to call.
func answer(history llm.Messages) (string, []llm.ToolCallChunk) {
	said := slices.ContainsFunc(history, func(m llm.Message) bool { return m.Role == llm.RoleAI })
	last := len(history) - 1
	if last >= 0 && history[last].Role == llm.RoleTool {
		return report(history), nil
	}
	var asked string
	if last >= 0 {
		asked = history[last].Text()
	}
	text, calls := plan(asked, len(history))
	if calls == nil && aboutMe.MatchString(strings.TrimSpace(asked)) {
		text = recollect(asked, history[:last])
	}
	if !said {
		text = strings.TrimSpace(confession + "\n" + text)
	}
	return text, calls
}

// A rule makes a call of what follows the words that it knows.
type rule struct {
	words *regexp.Regexp // what is behind is what the rule is about
	tool  string
	args  func(about string) any // nil if the rule does not apply after all
}

// rules are tried in this order.
var rules = []rule{
	{regexp.MustCompile(`(?i)^(?:(?:show|read|list)(?: me)?(?: my| the)? notes?|what are my notes)\b[\s:,]*`), "read_notes",
		func(about string) any {
			if about == "" {
				return noteName{}
			}
			return noteName{fileName(about)}
		}},
	{regexp.MustCompile(`(?i)^(?:(?:make|take|write)(?: me)? a note|write down|note)\b(?: that| of)?[\s:,]*`), "write_note", noteArgs},
	{regexp.MustCompile(`(?i)^(?:(?:what|who) do you (?:know|remember)|do you (?:know|remember)(?: anything| something)?|search(?: your| my)? memory)\b(?: about| of| for)?[\s:,]*`), "search_memory",
		func(about string) any { return map[string]string{"query": about} }},
	{regexp.MustCompile(`(?i)^remember\b(?: that)?[\s:,]*`), "manage_memory", func(about string) any {
		if about == "" {
			return nil
		}
		return map[string]string{"content": about}
	}},
	{regexp.MustCompile(`(?i)^(?:what is|what's|whats|how much is|calculate|compute)?\b[\s:,]*`), "calculator", sumArgs},
}

var (
	polite = regexp.MustCompile(`(?i)^(?:please|could you|can you|would you)\b[\s,]*(?:please\b[\s,]*)?`)
	titled = regexp.MustCompile(`^(?:(?:in|to|for) )?([\pL\d][\pL\d._ -]{0,30}?)\s*:\s+(\S.*)$`)
	joint  = regexp.MustCompile(`(?i)(?:\s*[;\n]\s*|[.?!]\s+|,?\s+(?:and then|and|then)\s+)((?:please\s+)?(?:what is|what's|what do you|how much|calculate|compute|note|write|take|make|remember|show|read|list|search)\b)`)
	isSum  = regexp.MustCompile(`^[\d\s.+\-−*×·/÷%^()]*\d[\d\s.+\-−*×·/÷%^()]*$`)
	hasOp  = regexp.MustCompile(`[+\-−*×·/÷%^]`)
)

// inWords are operators as people say them.
var inWords = strings.NewReplacer(" plus ", " + ", " minus ", " - ", " times ", " * ", " divided by ", " / ", " to the power of ", " ^ ")

// noteArgs reads "shopping: milk", or makes a name of the first words.
func noteArgs(about string) any {
	if about == "" {
		return nil
	}
	if m := titled.FindStringSubmatch(about); m != nil {
		return note{fileName(m[1]), m[2]}
	}
	return note{fileName(strings.Join(strings.Fields(about)[:min(3, len(strings.Fields(about)))], " ")), about}
}

// fileName makes a name of words.
func fileName(s string) string {
	if strings.ContainsRune(s, '.') && !strings.ContainsRune(s, ' ') {
		return s
	}
	name := strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), "-")
	if name == "" {
		name = "note"
	}
	return name + ".md"
}

func sumArgs(about string) any {
	about = strings.TrimSpace(strings.TrimRight(inWords.Replace(about), "=? "))
	if !isSum.MatchString(about) || !hasOp.MatchString(about) {
		return nil
	}
	return sum{about}
}

// plan makes calls of what somebody asks for, or small talk. Several requests
// in one message become several calls of one answer.
func plan(asked string, turn int) (string, []llm.ToolCallChunk) {
	var calls []llm.ToolCallChunk
	for _, part := range split(asked) {
		name, args := match(part)
		if args == nil {
			continue
		}
		i := len(calls)
		calls = append(calls, llm.ToolCallChunk{Index: &i, ID: fmt.Sprintf("call_%d_%d", turn, i), Name: name, Args: arguments(args)})
	}
	if len(calls) == 0 {
		return smallTalk(asked), nil
	}
	return "", calls
}

// split takes a message apart where a new request begins.
func split(asked string) []string {
	var parts []string
	from := 0
	for _, at := range joint.FindAllStringSubmatchIndex(asked, -1) {
		parts = append(parts, asked[from:at[0]])
		from = at[2]
	}
	return append(parts, asked[from:])
}

// match finds the first rule for a request.
func match(part string) (tool string, args any) {
	part = strings.TrimRight(strings.TrimSpace(part), " ?!")
	part = polite.ReplaceAllString(part, "")
	for _, r := range rules {
		at := r.words.FindStringIndex(part)
		if at == nil {
			continue
		}
		if args := r.args(strings.TrimRight(part[at[1]:], ". ")); args != nil {
			return r.tool, args
		}
	}
	return "", nil
}

// talk is what to say to what, by its first words.
var talk = []struct {
	words *regexp.Regexp
	reply string
}{
	{regexp.MustCompile(`(?i)^(?:hi|hello|hey|good (?:morning|evening|day))\b`), "Hello! " + abilities},
	{regexp.MustCompile(`(?i)^(?:thanks|thank you|cheers)\b`), "You are welcome."},
	{regexp.MustCompile(`(?i)^(?:bye|goodbye|good night)\b`), "Goodbye. What you told me stays."},
	{statement, "Good to know."},
	{regexp.MustCompile(`(?i)^how are you\b`), "All my rules are in order, thank you."},
	{regexp.MustCompile(`(?i)^(?:help|what can you do|who are you|what are you)\b`), confession + " " + abilities},
}

func smallTalk(asked string) string {
	asked = strings.TrimSpace(asked)
	for _, t := range talk {
		if t.words.MatchString(asked) {
			return t.reply
		}
	}
	return "I have no rule for that. " + abilities
}

// report says what came of the calls of the last answer, in their order.
func report(history llm.Messages) string {
	results := map[string]llm.Message{}
	i := len(history) - 1
	for ; i >= 0 && history[i].Role == llm.RoleTool; i-- {
		results[history[i].ToolCallID] = history[i]
	}
	var lines []string
	if i >= 0 {
		for _, call := range history[i].ToolCalls {
			if r, ok := results[call.ID]; ok {
				lines = append(lines, outcome(call, r))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// outcome is what came of a call, in a sentence.
func outcome(call llm.ToolCall, r llm.Message) string {
	var args struct{ Expression, File, Content string }
	_ = json.Unmarshal(call.Args, &args) // its own words
	text := strings.TrimSpace(r.Text())
	switch {
	case r.Status == llm.StatusError:
		// Without the words that agents add for models.
		text = strings.TrimSuffix(strings.TrimPrefix(text, "Error: "), "\n Please fix your mistakes.")
		return "That did not work: " + strings.TrimPrefix(text, "tool "+call.Name+": ")
	case call.Name == "calculator":
		return args.Expression + " = " + text
	case call.Name == "manage_memory":
		return "I will remember: " + args.Content
	case call.Name == "search_memory":
		return known(text)
	case call.Name == "read_notes" && args.File != "":
		return args.File + " says: " + text
	case call.Name == "read_notes" && !strings.HasPrefix(text, "There are no"):
		return "Your notes: " + strings.ReplaceAll(text, "\n", ", ")
	}
	return text
}

// known says what a search of memories has found.
func known(found string) string {
	var items []struct{ Value json.RawMessage }
	if err := json.Unmarshal([]byte(found), &items); err != nil || len(items) == 0 {
		return "Nothing is remembered about it."
	}
	var texts []string
	for _, item := range items {
		d := memory.DocumentOf(&store.Item{Value: item.Value})
		var note memory.Memory
		if d.Decode(&note) != nil || note.Content == "" {
			note.Content = string(d.Content)
		}
		texts = append(texts, note.Content)
	}
	return "I know this: " + strings.Join(texts, "; ")
}
