package retrieval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// A Passage is a hit with the number that the model sees and cites.
type Passage struct {
	Hit
	Citation int `json:"citation"`
}

// Passages numbers hits from first.
func Passages(hits []Hit, first int) []Passage {
	out := make([]Passage, len(hits))
	for i, h := range hits {
		out[i] = Passage{h, first + i}
	}
	return out
}

// Prompt returns passages as text for a model, each between tags with its number and place.
func Prompt(passages []Passage) string {
	if len(passages) == 0 {
		return "No passages found."
	}
	var b strings.Builder
	for _, p := range passages {
		place := p.Place()
		if len(p.Headings) > 0 {
			place += " (" + strings.Join(p.Headings, " > ") + ")"
		}
		// The text is untrusted: it must not look like the end of the passage.
		text := strings.ReplaceAll(strings.TrimSpace(p.Text), "</passage", "< /passage")
		fmt.Fprintf(&b, "<passage number=\"%d\" place=%q>\n%s\n</passage>\n", p.Citation, place, text)
	}
	return b.String()
}

// PassagesOf returns the passages that tools returned in a conversation; see [Tool].
func PassagesOf(messages []llm.Message) []Passage {
	var out []Passage
	for _, m := range messages {
		if m.Role != llm.RoleTool || m.Artifact == nil {
			continue
		}
		if a, ok := m.Artifact.(artifact); ok {
			out = append(out, a.Passages...)
			continue
		}
		// A checkpoint decodes it without its type.
		var a artifact
		if raw, err := json.Marshal(m.Artifact); err == nil && json.Unmarshal(raw, &a) == nil {
			out = append(out, a.Passages...)
		}
	}
	return out
}

// artifact is the artifact of the tool's result.
type artifact struct {
	Passages []Passage `json:"passages"`
}

// A Citation connects a claim with the text that it cites.
type Citation struct {
	Number int `json:"number"`
	// Claim is the sentence of the answer.
	Claim string `json:"claim"`
	// Text is the cited text: bytes Start to End of the document. It is the passage or, if
	// the model quotes words from it, these words.
	Source   string `json:"source"`
	Document string `json:"document,omitempty"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Line     int    `json:"line,omitempty"`
	Page     int    `json:"page,omitempty"`
	Text     string `json:"text"`
}

// Place is like [Chunk.Place].
func (c *Citation) Place() string {
	return (&Chunk{Source: c.Source, Document: c.Document, Line: c.Line, Page: c.Page}).Place()
}

// CitationError reports the parts of an answer that are not supported by citations.
type CitationError struct {
	// Uncited lists sentences without a citation.
	Uncited []string
	// Invalid lists the invalid citations and the reasons.
	Invalid []string
}

// Error returns a message that lists the parts.
func (e *CitationError) Error() string {
	var parts []string
	if len(e.Uncited) > 0 {
		parts = append(parts, fmt.Sprintf("%d claims without a citation: %q", len(e.Uncited), e.Uncited))
	}
	if len(e.Invalid) > 0 {
		parts = append(parts, "invalid citations: "+strings.Join(e.Invalid, "; "))
	}
	return "retrieval: check citations: " + strings.Join(parts, "; ")
}

// Cite checks that each sentence of an answer cites passages, as [1], [1, 2], or
// [1: "words of the passage"], and that the passages contain the quoted words. It returns
// the answer with its citations as annotations of its text blocks, in LangChain's format;
// [CitationsOf] returns them. Otherwise, it returns a [*CitationError].
//
// Headings, questions, code blocks, and lines that end with a colon need no citation. Cite
// does not check whether a passage supports the claim.
func Cite(answer llm.Message, passages []Passage) (llm.Message, error) {
	known := make(map[int]*Passage, len(passages))
	for i := range passages {
		known[passages[i].Citation] = &passages[i]
	}
	var problems CitationError
	var blocks []llm.Block
	if answer.Content != "" {
		blocks = append(blocks, llm.Text(answer.Content))
	}
	blocks = append(blocks, answer.Blocks...)
	for i, b := range blocks {
		if b.Type != llm.BlockText {
			continue
		}
		var notes []any
		counted, runes := 0, 0 // runes is the number of characters before byte counted
		for _, c := range claimsOf(b.Text) {
			runes += utf8.RuneCountInString(b.Text[counted:c.start])
			counted = c.start
			notes = append(notes, c.cite(b.Text, runes, known, &problems)...)
		}
		if notes != nil {
			blocks[i].Extra = withNotes(b.Extra, notes)
		}
	}
	if problems.Uncited != nil || problems.Invalid != nil {
		return answer, &problems
	}
	answer.Content, answer.Blocks = "", blocks
	return answer, nil
}

func withNotes(extra map[string]any, notes []any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, extra)
	out["annotations"] = notes
	return out
}

// CitationsOf returns the citations of a message that [Cite] or [Middleware] has checked.
func CitationsOf(m llm.Message) []Citation {
	var out []Citation
	for _, b := range m.Blocks {
		notes, _ := b.Extra["annotations"].([]any)
		for _, note := range notes {
			var n struct {
				Extras struct {
					Retrieval *Citation `json:"retrieval"`
				} `json:"extras"`
			}
			if raw, err := json.Marshal(note); err == nil && json.Unmarshal(raw, &n) == nil && n.Extras.Retrieval != nil {
				out = append(out, *n.Extras.Retrieval)
			}
		}
	}
	return out
}

// Verify checks that the index contains the cited texts at their places. It returns a
// [*CitationError] that lists those that have changed since, or were never there.
func (x *Index) Verify(ctx context.Context, citations ...Citation) error {
	var problems CitationError
	for _, c := range citations {
		text, err := x.Text(ctx, c.Source, c.Document, c.Start, c.End)
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && text != c.Text:
			problems.Invalid = append(problems.Invalid, fmt.Sprintf("%s no longer contains the text of [%d]", c.Place(), c.Number))
		case err != nil:
			return err
		}
	}
	if problems.Invalid != nil {
		return &problems
	}
	return nil
}

// marker matches citations: [1], [1, 2], and [1: "words"].
var marker = regexp.MustCompile(`\[(\d{1,6}(?:\s*,\s*\d{1,6})*)(?:\s*[:,]\s*["“”]([^"“”\n]{1,1000})["“”])?\]`)

// claim is a sentence of an answer: bytes start to end.
type claim struct{ start, end int }

// claimsOf returns the sentences of a text that need citations, and others with citations.
func claimsOf(text string) []claim {
	var out []claim
	fence := ""
	eachLine(text, func(start int, line, _ string) {
		trimmed := strings.TrimSpace(line)
		mark := fenceOf(trimmed)
		switch {
		case fence == "" && mark != "":
			fence = mark
			return
		case fence != "":
			if strings.HasPrefix(mark, fence) {
				fence = ""
			}
			return
		}
		first := len(out)
		at := 0
		for _, end := range append(sentences(masked(line)), len(line)) {
			c := claim{start + at, start + end}
			at = end
			// A citation after the end of a sentence belongs to it.
			if lead := leading(text[c.start:c.end]); lead > 0 && len(out) > first {
				out[len(out)-1].end += lead
				c.start += lead
			}
			if strings.TrimSpace(text[c.start:c.end]) != "" {
				out = append(out, c)
			}
		}
	})
	return out
}

// masked replaces the quotes in citations, so that no sentence ends in them.
func masked(line string) string {
	return marker.ReplaceAllStringFunc(line, func(m string) string { return "[" + strings.Repeat("0", len(m)-2) + "]" })
}

// leading returns the length of the citations at the start of text.
func leading(text string) (n int) {
	for {
		rest := text[n:]
		at := marker.FindStringIndex(rest)
		if at == nil || strings.Trim(rest[:at[0]], " \t.") != "" {
			return n
		}
		n += at[1]
	}
}

// bullet matches the start of a list item, whose number is not a claim.
var bullet = regexp.MustCompile(`^\s*(?:[-*+•]|\d+[.)])(?:\s+|$)`)

// needsCitation reports whether a sentence makes a claim.
func needsCitation(sentence string) bool {
	s := strings.TrimRight(strings.TrimSpace(sentence), "*_ ")
	if level, _ := headingOf(s); level > 0 || strings.HasSuffix(s, "?") || strings.HasSuffix(s, ":") {
		return false
	}
	s = strings.TrimPrefix(s, bullet.FindString(s))
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// cite returns the annotations of a claim, which starts at the given number of characters.
func (c claim) cite(text string, start int, known map[int]*Passage, problems *CitationError) (notes []any) {
	sentence := text[c.start:c.end]
	found := marker.FindAllStringSubmatch(sentence, -1)
	if len(found) == 0 {
		if needsCitation(sentence) {
			problems.Uncited = append(problems.Uncited, strings.TrimSpace(sentence))
		}
		return nil
	}
	end := start + utf8.RuneCountInString(sentence)
	for _, f := range found {
		for digits := range strings.SplitSeq(f[1], ",") {
			number, _ := strconv.Atoi(strings.TrimSpace(digits)) // digits, by the pattern
			p, ok := known[number]
			if !ok {
				problems.Invalid = append(problems.Invalid, fmt.Sprintf("unknown passage [%d]", number))
				continue
			}
			citation, ok := p.cite(strings.TrimSpace(sentence), f[2])
			if !ok {
				problems.Invalid = append(problems.Invalid, fmt.Sprintf("passage [%d] does not contain %q", number, f[2]))
				continue
			}
			notes = append(notes, map[string]any{
				"type": "citation", "title": citation.Place(), "cited_text": citation.Text,
				"start_index": start, "end_index": end,
				"extras": map[string]any{"retrieval": citation},
			})
		}
	}
	return notes
}

// cite returns a citation of the passage, or of the quoted words in it.
func (p *Passage) cite(sentence, quote string) (Citation, bool) {
	c := Citation{Number: p.Citation, Claim: sentence, Source: p.Source, Document: p.Document, Start: p.Start, End: p.End,
		Line: p.Line, Page: p.Page, Text: p.Text}
	if quote == "" {
		return c, true
	}
	at, size, ok := findWords(p.Text, quote)
	if !ok {
		return c, false
	}
	c.Start, c.End, c.Text = p.Start+at, p.Start+at+size, p.Text[at:at+size]
	if p.Line > 0 {
		c.Line += strings.Count(p.Text[leadingSpace(p.Text):max(at, leadingSpace(p.Text))], "\n")
	}
	return c, true
}

// findWords returns the place of a quote in text. White space may differ.
func findWords(text, quote string) (at, size int, ok bool) {
	words := strings.Fields(quote)
	if len(words) == 0 {
		return 0, 0, false
	}
	for i, w := range words {
		words[i] = regexp.QuoteMeta(w)
	}
	pattern, err := regexp.Compile(strings.Join(words, `\s+`))
	if err != nil {
		return 0, 0, false // too long
	}
	found := pattern.FindStringIndex(text)
	if found == nil {
		return 0, 0, false
	}
	return found[0], found[1] - found[0], true
}
