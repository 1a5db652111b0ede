package demo

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
)

// The offline model extracts memories by the rules below. A memory manager shows it a
// conversation and the existing memories, and offers tools to change them.

var (
	// statement matches what people say about themselves.
	statement = regexp.MustCompile(`(?i)^(?:i am|i'm|call me|my [\pL ]+? (?:is|are)|i (?:like|love|hate|prefer|live|work|have|drink|eat|play|own))\b.*\pL`)
	// topic matches the start of a statement whose newest version alone is true.
	topic = regexp.MustCompile(`(?i)^(?:call me|my [\pL ]+? (?:is|are)|i live|i work)\b`)
	// aboutMe matches a question that statements can answer.
	aboutMe = regexp.MustCompile(`(?i)^(?:who am i|(?:what|when|where|who)(?:'s| is| are) my|(?:what|where|when|whom?) do i|do i)\b`)

	speaker  = regexp.MustCompile(`(?m)^=+ (\pL+) Message =+$`)
	document = regexp.MustCompile(`<document id="(m\d+)" kind="Memory">\n(.*)\n</document>`)
	reminder = regexp.MustCompile(`(?m)^- \d{4}-\d\d-\d\d: (.*)$`)
	sentence = regexp.MustCompile(`[^.!?;\n]+`)

	forget     = regexp.MustCompile(`(?i)^forget\b(?: about)?(?: that)?[\s:,]*`)
	everything = regexp.MustCompile(`(?i)^(?:me|(?:everything|all)(?: (?:that )?you (?:know|remember))?(?: (?:about|of) me)?)$`)
)

// isLearning reports whether a request asks what to remember.
func isLearning(req *llm.Request) bool {
	return slices.ContainsFunc(req.Tools, func(t *llm.Tool) bool { return t.Name == "Memory" })
}

// learn decides what to remember from a conversation: new statements, and statements that
// correct a memory.
func learn(history llm.Messages) []llm.ToolCallChunk {
	var known []struct{ id, text string }
	var said []string
	for _, m := range history {
		for _, d := range document.FindAllStringSubmatch(m.Text(), -1) {
			var note memory.Memory
			if json.Unmarshal([]byte(d[2]), &note) == nil {
				known = append(known, struct{ id, text string }{d[1], note.Content})
			}
		}
		if m.Role == llm.RoleHuman {
			said = append(said, statements(m.Text())...)
		}
	}
	var calls []llm.ToolCallChunk
	call := func(name string, args any) {
		i := len(calls)
		calls = append(calls, llm.ToolCallChunk{Index: &i, ID: fmt.Sprintf("learn_%d", i), Name: name, Args: toJSON(args)})
	}
	for _, text := range said {
		about := strings.ToLower(topic.FindString(text))
		at := slices.IndexFunc(known, func(k struct{ id, text string }) bool {
			return strings.EqualFold(k.text, text) || about != "" && strings.HasPrefix(strings.ToLower(k.text), about)
		})
		switch {
		case at < 0:
			call("Memory", memory.Memory{Content: text})
		case !strings.EqualFold(known[at].text, text):
			call("PatchDoc", map[string]any{"json_doc_id": known[at].id, "planned_edits": "it has changed",
				"patches": []any{map[string]any{"op": "replace", "path": "/content", "value": text}}})
		}
	}
	if len(calls) == 0 {
		call("Done", struct{}{})
	}
	return calls
}

// statements returns what users say about themselves in a conversation: the newest statement on
// each topic, except those that they ask to forget.
func statements(conversation string) []string {
	var out []string
	titles := speaker.FindAllStringSubmatchIndex(conversation, -1)
	for i, at := range titles {
		end := len(conversation)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		if conversation[at[2]:at[3]] != "Human" {
			continue
		}
		out = addStatements(out, conversation[at[1]:end])
	}
	return out
}

// addStatements adds the statements in a user message to the known ones, and removes those that
// the message asks to forget.
func addStatements(known []string, message string) []string {
	for _, s := range sentence.FindAllString(message, -1) {
		s = strings.TrimSpace(s)
		if about, ok := forgetRequest(s); ok {
			known = slices.DeleteFunc(known, func(text string) bool { return isAbout(text, about) })
		} else if statement.MatchString(s) {
			known = addStatement(known, s)
		}
	}
	return known
}

// statementsIn returns the user's statements in a conversation so far.
func statementsIn(history llm.Messages) []string {
	var known []string
	for _, m := range history {
		if m.Role == llm.RoleHuman {
			known = addStatements(known, m.Text())
		}
	}
	return known
}

// recollect answers a question about the user from the memories in the prompt and from earlier
// messages of the conversation, which are newer.
func recollect(asked string, history llm.Messages) string {
	var known []string
	for _, m := range history {
		switch m.Role {
		case llm.RoleSystem:
			for _, r := range reminder.FindAllStringSubmatch(m.Text(), -1) {
				known = addStatement(known, r[1])
			}
		case llm.RoleHuman:
			known = addStatements(known, m.Text())
		}
	}
	about := keywords(asked)
	known = slices.DeleteFunc(known, func(text string) bool { return !mentionsAny(text, about) })
	if len(known) == 0 {
		return "I do not know that yet. Tell me, and I will remember."
	}
	return "You told me: " + strings.Join(known, "; ") + "."
}

// forgetRequest returns what a sentence asks to forget; "" means everything.
func forgetRequest(sentence string) (about string, ok bool) {
	sentence = polite.ReplaceAllString(strings.TrimSpace(sentence), "")
	at := forget.FindStringIndex(sentence)
	if at == nil {
		return "", false
	}
	about = strings.TrimRight(sentence[at[1]:], " .?!")
	if everything.MatchString(about) {
		return "", true
	}
	return about, len(keywords(about)) > 0
}

// isAbout reports whether a statement mentions all keywords of about.
func isAbout(statement, about string) bool {
	has := keywords(statement)
	return !slices.ContainsFunc(keywords(about), func(w string) bool { return !slices.Contains(has, w) })
}

// mentionsAny reports whether a statement contains one of the keywords.
func mentionsAny(statement string, about []string) bool {
	return slices.ContainsFunc(keywords(statement), func(w string) bool { return slices.Contains(about, w) })
}

// addStatement adds a statement and removes those that it repeats or corrects.
func addStatement(known []string, text string) []string {
	about := strings.ToLower(topic.FindString(text))
	known = slices.DeleteFunc(known, func(before string) bool {
		return strings.EqualFold(before, text) || about != "" && strings.HasPrefix(strings.ToLower(before), about)
	})
	return append(known, text)
}

// stopWords lists words that do not indicate what a question or statement is about.
var stopWords = strings.Fields("what when where who whom is are my me do i the a an in at of to and s that about")

// keywords returns the words that indicate what a question or statement is about.
func keywords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.Equal(words, []string{"who", "am", "i"}) {
		return []string{"name", "am", "m", "call"}
	}
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(stopWords, w) })
}
