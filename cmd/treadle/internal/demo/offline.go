package demo

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

// offline is the model of the demo without an API key. It plans the same tool calls as a
// language model, but by a few rules, and says so in its first response.
type offline struct {
	pace      time.Duration // pause between two words
	temporary bool          // memories end with the process
}

const (
	disclaimer = "I am not a language model: I follow a few rules."
	abilities  = `I can compute ("what is 12 * (3 + 4)?"), write notes ("note shopping: milk and eggs"), ` +
		`read them ("show my notes"), remember ("remember that I like green tea"), ` +
		`recall ("what do you know about me?"), and forget ("forget that I like green tea"). ` +
		`I also remember what you say about yourself ("my name is Ada").`
)

// Describe implements [llm.Describer].
func (offline) Describe() llm.Info { return llm.Info{Provider: "offline", Model: "rules"} }

// Stream implements [llm.Model].
func (m offline) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		text, calls := m.answer(req.Messages)
		if isLearning(req) {
			text, calls = "", learn(req.Messages)
		}
		chunks := chunked(text, calls)
		if req.NoStream {
			chunks = []llm.Chunk{{Content: text, ToolCalls: calls}}
		}
		for i, c := range chunks {
			if i > 0 || ctx.Err() != nil {
				if err := pause(ctx, m.pace); err != nil {
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

// chunked splits a response into words, followed by its tool calls.
func chunked(text string, calls []llm.ToolCallChunk) []llm.Chunk {
	var out []llm.Chunk
	for _, word := range words.FindAllString(text, -1) {
		out = append(out, llm.Chunk{Content: word})
	}
	if len(calls) > 0 {
		out = append(out, llm.Chunk{ToolCalls: calls})
	}
	return out
}

// answer decides what to say and which tools to call.
func (m offline) answer(history llm.Messages) (string, []llm.ToolCallChunk) {
	said := slices.ContainsFunc(history, func(m llm.Message) bool { return m.Role == llm.RoleAI })
	last := len(history) - 1
	if last >= 0 && history[last].Role == llm.RoleTool {
		t := lastTurn(history)
		if calls := t.deletions(len(history)); calls != nil {
			return "", calls
		}
		return m.report(t), nil
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
		text = strings.TrimSpace(disclaimer + "\n" + text)
	}
	return text, calls
}

// rule turns a request that starts with certain words into a tool call.
type rule struct {
	words *regexp.Regexp // matches the start; the rest of the request is passed to args
	tool  string
	args  func(about string) any // returns nil if the rule does not apply after all
}

// rules lists the rules in the order in which they are tried.
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
		func(about string) any {
			if aboutUser.MatchString(about) {
				return search{Limit: maxMemories}
			}
			return search{Query: about}
		}},
	{forget, "search_memory", func(about string) any {
		about, ok := forgetRequest("forget " + about)
		if !ok {
			return nil
		}
		if about == "" {
			return search{Limit: maxMemories}
		}
		return search{Query: about}
	}},
	{regexp.MustCompile(`(?i)^remember\b(?: that)?[\s:,]*`), "manage_memory", func(about string) any {
		if about == "" {
			return nil
		}
		return map[string]string{"content": about}
	}},
	{regexp.MustCompile(`(?i)^(?:what is|what's|whats|how much is|calculate|compute)?\b[\s:,]*`), "calculator", calculationArgs},
}

type search struct {
	Query string `json:"query"`
	Limit int    `json:"limit,omitempty"`
}

// maxMemories is the limit of a search for all memories.
const maxMemories = 100

var (
	aboutUser = regexp.MustCompile(`(?i)^(?:me|myself)?$`)

	polite = regexp.MustCompile(`(?i)^(?:please|could you|can you|would you)\b[\s,]*(?:please\b[\s,]*)?`)
	titled = regexp.MustCompile(`^(?:(?:in|to|for) )?([\pL\d][\pL\d._ -]{0,30}?)\s*:\s+(\S.*)$`)
	joint  = regexp.MustCompile(`(?i)(?:\s*[;\n]\s*|[.?!]\s+|,?\s+(?:and then|and|then)\s+)((?:please\s+)?(?:what is|what's|what do you|how much|calculate|compute|note|write|take|make|remember|show|read|list|search|forget)\b)`)
	isSum  = regexp.MustCompile(`^[\d\s.+\-−*×·/÷%^()]*\d[\d\s.+\-−*×·/÷%^()]*$`)
	hasOp  = regexp.MustCompile(`[+\-−*×·/÷%^]`)
)

// spokenOperators replaces the names of operators.
var spokenOperators = strings.NewReplacer(" plus ", " + ", " minus ", " - ", " times ", " * ", " divided by ", " / ", " to the power of ", " ^ ")

// noteArgs parses "shopping: milk", or derives a file name from the first words.
func noteArgs(about string) any {
	if about == "" {
		return nil
	}
	if m := titled.FindStringSubmatch(about); m != nil {
		return note{fileName(m[1]), m[2]}
	}
	return note{fileName(strings.Join(strings.Fields(about)[:min(3, len(strings.Fields(about)))], " ")), about}
}

// fileName derives a file name from words.
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

func calculationArgs(about string) any {
	about = strings.TrimSpace(strings.TrimRight(spokenOperators.Replace(about), "=? "))
	if !isSum.MatchString(about) || !hasOp.MatchString(about) {
		return nil
	}
	return calculation{about}
}

// plan turns a message into tool calls, one for each request in it, or responds with small
// talk.
func plan(asked string, turn int) (string, []llm.ToolCallChunk) {
	var calls []llm.ToolCallChunk
	for _, part := range split(asked) {
		name, args := match(part)
		if args == nil {
			continue
		}
		kind := "call"
		if _, ok := forgetRequest(part); ok {
			kind = forgetCall
		}
		calls = appendCall(calls, kind, turn, name, args)
	}
	if len(calls) == 0 {
		return smallTalk(asked), nil
	}
	return "", calls
}

// forgetCall is the ID prefix of a search whose results will be deleted.
const forgetCall = "forget"

// appendCall adds a call with an ID that is unique in the conversation.
func appendCall(calls []llm.ToolCallChunk, kind string, turn int, tool string, args any) []llm.ToolCallChunk {
	i := len(calls)
	return append(calls, llm.ToolCallChunk{Index: &i, ID: fmt.Sprintf("%s_%d_%d", kind, turn, i), Name: tool, Args: toJSON(args)})
}

func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // the arguments are structs of strings and numbers
	}
	return string(raw)
}

// split splits a message where a new request starts.
func split(asked string) []string {
	var parts []string
	from := 0
	for _, at := range joint.FindAllStringSubmatchIndex(asked, -1) {
		parts = append(parts, asked[from:at[0]])
		from = at[2]
	}
	return append(parts, asked[from:])
}

// match finds the first rule that applies to a request.
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

// phrases lists responses to small talk by its first words.
var phrases = []struct {
	words *regexp.Regexp
	reply string
}{
	{regexp.MustCompile(`(?i)^(?:hi|hello|hey|good (?:morning|evening|day))\b`), "Hello! " + abilities},
	{regexp.MustCompile(`(?i)^(?:thanks|thank you|cheers)\b`), "You are welcome."},
	{regexp.MustCompile(`(?i)^(?:bye|goodbye|good night)\b`), "Goodbye. I will remember what you told me."},
	{statement, "Good to know."},
	{regexp.MustCompile(`(?i)^how are you\b`), "All my rules are in order, thank you."},
	{regexp.MustCompile(`(?i)^(?:help|what can you do|who are you|what are you)\b`), disclaimer + " " + abilities},
}

func smallTalk(asked string) string {
	asked = strings.TrimSpace(asked)
	for _, t := range phrases {
		if t.words.MatchString(asked) {
			return t.reply
		}
	}
	return "I have no rule for that. " + abilities
}

// turn is what the model and the tools did since the user's last message.
type turn struct {
	asked   string
	before  llm.Messages // the conversation up to the user's message
	calls   []llm.ToolCall
	results map[string]llm.Message // by call ID
}

func lastTurn(history llm.Messages) turn {
	t := turn{results: map[string]llm.Message{}}
	i := len(history) - 1
	for ; i >= 0 && history[i].Role != llm.RoleHuman; i-- {
		switch m := history[i]; m.Role {
		case llm.RoleTool:
			t.results[m.ToolCallID] = m
		case llm.RoleAI:
			t.calls = append(slices.Clone(m.ToolCalls), t.calls...)
		}
	}
	if i >= 0 {
		t.asked, t.before = history[i].Text(), history[:i]
	}
	return t
}

// deletions returns the calls that delete the memories which the turn's searches found and the
// user wants forgotten. It returns nil if the calls were already made or there is nothing to
// delete.
func (t *turn) deletions(length int) []llm.ToolCallChunk {
	var calls []llm.ToolCallChunk
	for _, c := range t.calls {
		if c.Name == "manage_memory" && callArgs(c).Action == "delete" {
			return nil
		}
		if !strings.HasPrefix(c.ID, forgetCall) || t.results[c.ID].Status == llm.StatusError {
			continue
		}
		for _, m := range foundBy(t.results[c.ID].Text()) {
			if isAbout(m.text, callArgs(c).Query) {
				calls = appendCall(calls, "call", length, "manage_memory", map[string]string{"action": "delete", "id": m.key})
			}
		}
	}
	return calls
}

// report describes the results of the turn's calls, in order.
func (m offline) report(t turn) string {
	texts := map[string]string{} // found memories by key
	for _, c := range t.calls {
		for _, f := range foundBy(t.results[c.ID].Text()) {
			texts[f.key] = f.text
		}
	}
	var lines []string
	for _, c := range t.calls {
		r, ok := t.results[c.ID]
		if !ok {
			continue
		}
		switch a := callArgs(c); {
		case r.Status == llm.StatusError:
			lines = append(lines, failure(c, r))
		case strings.HasPrefix(c.ID, forgetCall):
			lines = append(lines, t.forgotten(c, r)...)
		case c.Name == "manage_memory" && a.Action == "delete":
			lines = append(lines, "Forgotten: "+texts[a.ID])
		case c.Name == "manage_memory" && m.temporary:
			lines = append(lines, "I will remember until this run ends: "+a.Content)
		case c.Name == "manage_memory":
			lines = append(lines, "I will remember: "+a.Content)
		case c.Name == "search_memory":
			lines = append(lines, t.known(a.Query, r))
		default:
			lines = append(lines, outcome(c, r))
		}
	}
	return strings.Join(lines, "\n")
}

// forgotten lists what is forgotten without a deletion: statements that have no memory yet. It
// says so if there is nothing to forget.
func (t *turn) forgotten(c llm.ToolCall, r llm.Message) []string {
	query := callArgs(c).Query
	found := slices.DeleteFunc(foundBy(r.Text()), func(f foundMemory) bool { return !isAbout(f.text, query) })
	var lines []string
	for _, s := range statementsIn(t.before) {
		stored := slices.ContainsFunc(found, func(f foundMemory) bool { return strings.EqualFold(f.text, s) })
		if isAbout(s, query) && !stored {
			lines = append(lines, "Forgotten: "+s)
		}
	}
	if len(lines) == 0 && len(found) == 0 {
		return []string{"There is nothing to forget: I know nothing about it."}
	}
	return lines
}

// known describes what a search found and what the user has said in the conversation.
func (t *turn) known(query string, r llm.Message) string {
	var texts []string
	for _, f := range foundBy(r.Text()) {
		texts = addStatement(texts, f.text)
	}
	for _, s := range statementsIn(t.before) {
		if query == "" || mentionsAny(s, keywords(query)) {
			texts = addStatement(texts, s)
		}
	}
	switch {
	case len(texts) > 0:
		return "I know this: " + strings.Join(texts, "; ")
	case query == "":
		return "I know nothing about you yet."
	}
	return "I know nothing about it."
}

// failure describes why a call failed, without the words that agents add for models.
func failure(c llm.ToolCall, r llm.Message) string {
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(r.Text()), "Error: "), "\n Please fix your mistakes.")
	text = strings.TrimPrefix(text, "tool "+c.Name+": ")
	if strings.HasPrefix(text, refusal) {
		return "I did not write " + callArgs(c).File + "."
	}
	return "That did not work: " + text
}

// outcome describes the result of a call in a sentence.
func outcome(c llm.ToolCall, r llm.Message) string {
	args, text := callArgs(c), strings.TrimSpace(r.Text())
	switch {
	case c.Name == "calculator":
		return args.Expression + " = " + text
	case c.Name == "read_notes" && args.File != "":
		return args.File + " says: " + text
	case c.Name == "read_notes" && !strings.HasPrefix(text, "There are no"):
		return "Your notes: " + strings.ReplaceAll(text, "\n", ", ")
	}
	return text
}

// arguments combines the arguments of all tools.
type arguments struct{ Expression, File, Content, Query, Action, ID string }

func callArgs(c llm.ToolCall) arguments {
	var a arguments
	_ = json.Unmarshal(c.Args, &a) // written by this model
	return a
}

type foundMemory struct{ key, text string }

// foundBy parses the result of search_memory.
func foundBy(result string) []foundMemory {
	var items []struct {
		Key   string
		Value json.RawMessage
	}
	if json.Unmarshal([]byte(result), &items) != nil {
		return nil // the result of another tool
	}
	var found []foundMemory
	for _, item := range items {
		d := memory.DocumentOf(&store.Item{Value: item.Value})
		var m memory.Memory
		if d.Decode(&m) != nil || m.Content == "" {
			m.Content = string(d.Content)
		}
		found = append(found, foundMemory{item.Key, m.Content})
	}
	return found
}
