package retrieval_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/retrieval"
)

// anyText draws texts with the characters that splitters treat specially, of all widths, and
// with invalid bytes.
func anyText() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{" ", "\n", "\n\n", "\r\n", "\t", ". ", "? ", "。", "# A\n", "## B\n", "```\n", "~~~~\n", "}\n",
			"e.g. ", "Dr. X", "word ", "é", "e\u0301", "👩‍👩‍👧", "🏽", "\u2028", "\u0085", "한국어 ", "\xff", "\xe2\x82", strings.Repeat("x", 30)}),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 40).Draw(t, "pieces"), "")
	})
}

func TestChunksCoverText(t *testing.T) {
	words := func(text string) int { return len(strings.Fields(text)) }
	makers := map[string]func(*retrieval.SplitOptions) *retrieval.Splitter{
		"auto": retrieval.Split, "characters": retrieval.Characters, "tokens": retrieval.Tokens,
		"sentences": retrieval.Sentences, "code": retrieval.Code, "markdown": retrieval.Markdown,
	}
	for name, splitter := range makers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := retrieval.Document{Text: anyText().Draw(t, "text"), Format: rapid.SampledFrom([]string{"", "markdown", "code"}).Draw(t, "format")}
				o := retrieval.SplitOptions{Size: rapid.IntRange(1, 60).Draw(t, "size")}
				o.Overlap = rapid.IntRange(0, o.Size).Draw(t, "overlap")
				size := utf8.RuneCountInString
				if name == "tokens" {
					if rapid.Bool().Draw(t, "count") {
						o.Count, o.CountName, size = words, "words", words
					} else {
						size = func(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }
					}
				}
				check(t, &d, splitter(&o).Split(&d), o.Size, size)
			})
		})
	}
}

// check checks that spans are ordered, cover the text, contain more than white space, cut no
// character, and do not exceed a size except by white space.
func check(t *rapid.T, d *retrieval.Document, spans []retrieval.Span, size int, count func(string) int) {
	t.Helper()
	if strings.TrimSpace(d.Text) == "" {
		if len(spans) > 0 {
			t.Fatalf("blank text has chunks: %v", spans)
		}
		return
	}
	end, start := 0, -1
	for i, s := range spans {
		switch {
		case s.Start <= start || s.Start > end || s.End <= end || s.End > len(d.Text):
			t.Fatalf("chunk %d of %v leaves a gap, is out of order, or adds nothing", i, spans)
		case strings.TrimSpace(d.Text[s.Start:s.End]) == "":
			t.Fatalf("chunk %d of %v is blank", i, spans)
		case utf8.ValidString(d.Text) && !utf8.ValidString(d.Text[s.Start:s.End]):
			t.Fatalf("chunk %d of %v cuts a character", i, spans)
		case count(strings.TrimSpace(d.Text[s.Start:s.End])) > size:
			t.Fatalf("chunk %d of %v exceeds %d: %q", i, spans, size, d.Text[s.Start:s.End])
		}
		start, end = s.Start, s.End
	}
	if spans[0].Start != 0 || end != len(d.Text) {
		t.Fatalf("chunks %v do not cover %d bytes", spans, len(d.Text))
	}
}

func texts(d *retrieval.Document, spans []retrieval.Span) (out []string) {
	for _, s := range spans {
		out = append(out, fmt.Sprint(strings.Join(s.Headings, " > "), "|", strings.TrimSpace(d.Text[s.Start:s.End])))
	}
	return out
}

func TestSplittersCutAtStructure(t *testing.T) {
	for name, c := range map[string]struct {
		splitter *retrieval.Splitter
		text     string
		want     []string
	}{
		"markdown sections have the headings above them": {
			retrieval.Markdown(nil), "intro\n\n# A\n\n## B\ntext b\n```\n# comment\n```\n### C\ntext c\n# D\ntext d\n",
			[]string{"|intro", "A > B|# A\n\n## B\ntext b\n```\n# comment\n```", "A > B > C|### C\ntext c", "D|# D\ntext d"},
		},
		"sentences stay whole": {
			retrieval.Sentences(&retrieval.SplitOptions{Size: 40}), "Dr. Lee met J. Doe, e.g. Monday. It rained! Why? 雨が降った。もう。",
			[]string{"|Dr. Lee met J. Doe, e.g. Monday.", "|It rained! Why? 雨が降った。もう。"},
		},
		"several marks end one sentence": {
			retrieval.Sentences(&retrieval.SplitOptions{Size: 14}), "Wait... no.) Dr.?! Bxxxx?」C 」。Dxxxxxxxx.。E etc..\" Mr.) f ok.",
			[]string{"|Wait... no.)", "|Dr.?!", "|Bxxxx?」C 」。", "|Dxxxxxxxx.。", "|E etc..\"", "|Mr.) f ok."},
		},
		"code is cut between declarations": {
			retrieval.Code(&retrieval.SplitOptions{Size: 30}), "func a() {\n\n\tx()\n}\n\nfunc b() {\n\ty()\n}\n",
			[]string{"|func a() {\n\n\tx()\n}", "|func b() {\n\ty()\n}"},
		},
		"an emoji of several characters stays whole": {
			retrieval.Characters(&retrieval.SplitOptions{Size: 7}), "👩‍👩‍👧👩‍👩‍👧", []string{"|👩‍👩‍👧", "|👩‍👩‍👧"},
		},
		"an overlap starts at a word": {
			retrieval.Characters(&retrieval.SplitOptions{Size: 20, Overlap: 8}), "one two three four five six seven",
			[]string{"|one two", "|two three four", "|four five six", "|six seven"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := retrieval.Document{Text: c.text}
			if got := texts(&d, c.splitter.Split(&d)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestMarksWithoutSpaceSplitQuickly splits texts whose marks may each end a sentence. If the rest
// of the text were read for each mark, a text would take hours.
func TestMarksWithoutSpaceSplitQuickly(t *testing.T) {
	const n = 1 << 20
	for name, text := range map[string]string{
		"periods": strings.Repeat(".", n) + "a", "questions": strings.Repeat("?", n) + "a", "brackets": strings.Repeat(".)", n/2) + "a",
		"initials": strings.Repeat("A.", n/2) + "a", "words": strings.Repeat("x", n) + ". a", "spaces": strings.Repeat(".", n/2) + strings.Repeat(" ", n/2) + "a",
		"lines": strings.Repeat(".\n", n/2) + "a", "blank lines": strings.Repeat("\n\n", n/2) + "a", "marks": strings.Repeat("a\u0301", n/4),
		"joined": strings.Repeat("\u0301", n/2), "headings": strings.Repeat("# ", n/2), "fences": strings.Repeat("```\n", n/4),
	} {
		t.Run(name, func(t *testing.T) {
			d := retrieval.Document{Text: text, Format: "markdown"}
			for _, s := range []*retrieval.Splitter{retrieval.Split(nil), retrieval.Sentences(nil), retrieval.Code(nil)} {
				spans := s.Split(&d)
				if len(spans) > 0 && spans[len(spans)-1].End != len(text) {
					t.Errorf("%d chunks end at %d of %d", len(spans), spans[len(spans)-1].End, len(text))
				}
			}
		})
	}
}
