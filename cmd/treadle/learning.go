package main

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

// These are the rules by which the offline model learns. A manager of memories
// shows it a conversation and what is known, and offers the tools to change it.

var (
	// statement is what people say about themselves.
	statement = regexp.MustCompile(`(?i)^(?:i am|i'm|call me|my [\pL ]+? (?:is|are)|i (?:like|love|hate|prefer|live|work|have|drink|eat|play|own))\b.*\pL`)
	// topic is the part of a statement that says what it is about: there is one
	// truth about it.
	topic = regexp.MustCompile(`(?i)^(?:call me|my [\pL ]+? (?:is|are)|i live|i work)\b`)
	// aboutMe is a question that memories answer.
	aboutMe = regexp.MustCompile(`(?i)^(?:who am i|(?:what|when|where|who)(?:'s| is| are) my|(?:what|where|when|whom?) do i|do i)\b`)

	speaker  = regexp.MustCompile(`(?m)^=+ (\pL+) Message =+$`)
	document = regexp.MustCompile(`<document id="(m\d+)" kind="Memory">\n(.*)\n</document>`)
	reminder = regexp.MustCompile(`(?m)^- \d{4}-\d\d-\d\d: (.*)$`)
	sentence = regexp.MustCompile(`[^.!?;\n]+`)
)

// isLearning reports whether a request asks what to remember.
func isLearning(req *llm.Request) bool {
	return slices.ContainsFunc(req.Tools, func(t *llm.Tool) bool { return t.Name == "Memory" })
}

// learn decides what to remember of a conversation: new statements, and those that
// put right what was known.
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
		calls = append(calls, llm.ToolCallChunk{Index: &i, ID: fmt.Sprintf("learn_%d", i), Name: name, Args: arguments(args)})
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

// statements are what the user says about themselves in a conversation, the last
// word on each topic.
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
		for _, s := range sentence.FindAllString(conversation[at[1]:end], -1) {
			s = strings.TrimSpace(s)
			if !statement.MatchString(s) {
				continue
			}
			out = newer(out, s)
		}
	}
	return out
}

// recollect answers a question about the user from what the model was reminded of
// and from what was said before in the conversation, which is newer.
func recollect(asked string, history llm.Messages) string {
	var known []string
	for _, m := range history {
		switch m.Role {
		case llm.RoleSystem:
			for _, r := range reminder.FindAllStringSubmatch(m.Text(), -1) {
				known = newer(known, r[1])
			}
		case llm.RoleHuman:
			for _, s := range sentence.FindAllString(m.Text(), -1) {
				if s = strings.TrimSpace(s); statement.MatchString(s) {
					known = newer(known, s)
				}
			}
		}
	}
	about := keywords(asked)
	known = slices.DeleteFunc(known, func(text string) bool {
		return !slices.ContainsFunc(keywords(text), func(w string) bool { return slices.Contains(about, w) })
	})
	if len(known) == 0 {
		return "I do not know that yet. Tell me, and I will remember."
	}
	return "You told me: " + strings.Join(known, "; ") + "."
}

// newer adds a statement, in place of what it repeats or puts right.
func newer(known []string, text string) []string {
	about := strings.ToLower(topic.FindString(text))
	known = slices.DeleteFunc(known, func(before string) bool {
		return strings.EqualFold(before, text) || about != "" && strings.HasPrefix(strings.ToLower(before), about)
	})
	return append(known, text)
}

// common are words that say nothing about what a question is about.
var common = strings.Fields("what when where who whom is are my do i the a an in at of to and s")

// keywords are the words that a question or statement is about.
func keywords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if slices.Equal(words, []string{"who", "am", "i"}) {
		return []string{"name", "am", "m", "call"}
	}
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(common, w) })
}
