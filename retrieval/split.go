package retrieval

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Span is the place of a chunk in a document: the bytes from Start up to End of its
// Text. Headings are the Markdown headings above it, outermost first; those
// longer than 200 bytes are cut.
type Span struct {
	Start, End int
	Headings   []string
}

// A Splitter splits documents into chunks. Its spans are ordered and cover the text, so that
// a document can be put together again from its chunks; only a document of white space has
// none. It is safe for concurrent use.
type Splitter struct {
	name  string
	split func(*Document) []Span
}

// NewSplitter returns a splitter that calls split. The name identifies the function and its
// settings: when it changes, a sync splits all documents again.
func NewSplitter(name string, split func(*Document) []Span) *Splitter { return &Splitter{name, split} }

// Split returns the spans of the document's chunks.
func (s *Splitter) Split(d *Document) []Span {
	if strings.TrimSpace(d.Text) == "" {
		return nil
	}
	return s.split(d)
}

// SplitOptions configures a splitter. A nil *SplitOptions means the defaults.
type SplitOptions struct {
	// Size is the maximum size of a chunk; 0 means 1000 characters, or 250 tokens.
	Size int
	// Overlap is the length of the end of a chunk that the next chunk repeats. It must be less than
	// half of Size.
	Overlap int
	// Count counts the tokens of a text for [Tokens]; nil estimates one per four
	// characters. The count of a text must be at most the sum of the counts of its parts.
	// CountName identifies the function if it is not nil; see [NewSplitter].
	Count     func(text string) int
	CountName string
}

// Split returns a splitter that splits each document by its Format: Markdown by headings,
// code by blocks, and prose by paragraphs.
func Split(opts *SplitOptions) *Splitter {
	o := withDefaults(opts, 1000)
	markdown, code, prose := Markdown(&o), Code(&o), Characters(&o)
	return NewSplitter("auto"+o.name(), func(d *Document) []Span {
		switch d.Format {
		case "markdown":
			return markdown.Split(d)
		case "code":
			return code.Split(d)
		}
		return prose.Split(d)
	})
}

// Characters returns a splitter for prose. It cuts between paragraphs if possible, otherwise
// between lines, sentences, words, and characters, in this order.
func Characters(opts *SplitOptions) *Splitter {
	return cutting("characters", withDefaults(opts, 1000), utf8.RuneCountInString, paragraphs, lines, sentences, spaces)
}

// Tokens is like [Characters], but Size and Overlap are numbers of tokens.
func Tokens(opts *SplitOptions) *Splitter {
	o := withDefaults(opts, 250)
	count := o.Count
	if count == nil {
		count = func(text string) int { return (utf8.RuneCountInString(text) + 3) / 4 }
	}
	return cutting("tokens "+o.CountName, o, count, paragraphs, lines, sentences, spaces)
}

// Sentences returns a splitter that cuts only between sentences, unless a sentence exceeds
// Size.
func Sentences(opts *SplitOptions) *Splitter {
	return cutting("sentences", withDefaults(opts, 1000), utf8.RuneCountInString, sentences, spaces)
}

// Code returns a splitter for source code in any language. It cuts before top-level
// declarations if possible, otherwise between blocks, lines, and words.
func Code(opts *SplitOptions) *Splitter {
	return cutting("code", withDefaults(opts, 1000), utf8.RuneCountInString, declarations, paragraphs, lines, spaces)
}

// Markdown returns a splitter that cuts at each heading (of the form "# Heading") and splits
// long sections like [Characters]. A heading without text belongs to the next
// section.
func Markdown(opts *SplitOptions) *Splitter {
	o := withDefaults(opts, 1000)
	within := cutting("", o, utf8.RuneCountInString, paragraphs, lines, sentences, spaces)
	return NewSplitter("markdown"+o.name(), func(d *Document) []Span {
		var spans []Span
		for _, section := range sectionsOf(d.Text) {
			part := Document{Text: d.Text[section.Start:section.End]}
			for _, s := range within.split(&part) {
				spans = append(spans, Span{section.Start + s.Start, section.Start + s.End, section.Headings})
			}
		}
		return spans
	})
}

func withDefaults(opts *SplitOptions, size int) SplitOptions {
	var o SplitOptions
	if opts != nil {
		o = *opts
	}
	o.Size = max(1, cmp.Or(o.Size, size))
	o.Overlap = min(max(0, o.Overlap), (o.Size-1)/2)
	return o
}

func (o *SplitOptions) name() string { return fmt.Sprintf(" %d %d", o.Size, o.Overlap) }

// cutter splits a text of one piece.
type cutter struct {
	text   string
	count  func(string) int
	size   int
	levels []func(string) []int // places to cut, the best first
}

// cutting returns a splitter that cuts at the places of the first level if possible. Where
// the pieces between them are too long, it cuts at those of the next.
func cutting(name string, o SplitOptions, count func(string) int, levels ...func(string) []int) *Splitter {
	return NewSplitter(name+o.name(), func(d *Document) []Span {
		c := cutter{d.Text, count, o.Size - o.Overlap, levels}
		spans := joinBlank(d.Text, c.pieces(0, len(d.Text), 0))
		if o.Overlap > 0 {
			c.size = o.Overlap
			for i := len(spans) - 1; i > 0; i-- {
				_, n := utf8.DecodeRuneInString(d.Text[spans[i-1].Start:])
				spans[i].Start = c.back(spans[i-1].Start+n, spans[i].Start) // not all of it
			}
		}
		return spans
	})
}

// pieces returns consecutive spans that cover the text from lo up to hi. None exceeds size,
// except a single character.
func (c *cutter) pieces(lo, hi, level int) []Span {
	if c.count(c.text[lo:hi]) <= c.size {
		return []Span{{Start: lo, End: hi}}
	}
	if level == len(c.levels) {
		return c.hard(lo, hi)
	}
	var spans []Span
	total := 0 // the size of the last span, if more can be added to it
	add := func(from, to int) {
		n := c.count(c.text[from:to])
		switch {
		case n > c.size:
			spans = append(spans, c.pieces(from, to, level+1)...)
			total = c.size // closed: its parts are smaller than this level's
		case len(spans) > 0 && total+n <= c.size:
			spans[len(spans)-1].End = to
			total += n
		default:
			spans = append(spans, Span{Start: from, End: to})
			total = n
		}
	}
	from := lo
	for _, at := range c.levels[level](c.text[lo:hi]) {
		at += lo
		if at > from && at < hi {
			add(from, at)
			from = at
		}
	}
	add(from, hi)
	return spans
}

// hard cuts text without spaces. It keeps combining characters and joined emoji together if
// they fit.
func (c *cutter) hard(lo, hi int) []Span {
	var spans []Span
	for lo < hi {
		end := c.longest(lo, hi)
		good := end
		for good > lo && good < hi && !separable(c.text, good) {
			_, n := utf8.DecodeLastRuneInString(c.text[lo:good])
			good -= n
		}
		if good == lo {
			good = end
		}
		spans = append(spans, Span{Start: lo, End: good})
		lo = good
	}
	return spans
}

// longest returns the end of the longest text from lo that has at most size, and at least one
// rune. It needs few counts, because counting may be slow.
func (c *cutter) longest(lo, hi int) int {
	_, first := utf8.DecodeRuneInString(c.text[lo:hi])
	fits, step := lo+first, c.size // fits is known to fit, or to be the minimum
	for fits < hi {
		end := c.runeStart(min(fits+step, hi))
		if end <= fits || c.count(c.text[lo:end]) > c.size {
			break
		}
		fits = end
		step *= 2
	}
	for step > 0 {
		if end := c.runeStart(min(fits+step, hi)); end > fits && c.count(c.text[lo:end]) <= c.size {
			fits = end
		} else {
			step /= 2
		}
	}
	return fits
}

// runeStart returns the first rune boundary at or after i.
func (c *cutter) runeStart(i int) int {
	for i < len(c.text) && !utf8.RuneStart(c.text[i]) {
		i++
	}
	return i
}

// separable reports whether text may be cut at a rune boundary without separating parts of
// a character.
func separable(text string, at int) bool {
	next, _ := utf8.DecodeRuneInString(text[at:])
	last, _ := utf8.DecodeLastRuneInString(text[:at])
	const joiner = '\u200d'
	skinTone := next >= 0x1f3fb && next <= 0x1f3ff
	newline := last == '\r' && next == '\n'
	return !unicode.Is(unicode.M, next) && next != joiner && last != joiner && !skinTone && !newline
}

// back returns the start of a chunk that repeats the text before at, but nothing before
// least. It is at a word boundary if possible.
func (c *cutter) back(least, at int) int {
	start, good := at, at
	for start > least {
		_, n := utf8.DecodeLastRuneInString(c.text[least:start])
		if c.count(c.text[start-n:at]) > c.size {
			break
		}
		start -= n
		if last, _ := utf8.DecodeLastRuneInString(c.text[:start]); unicode.IsSpace(last) {
			good = start
		}
	}
	if good == at && start < at { // one long word
		good = start
		for good < at && !separable(c.text, good) {
			_, n := utf8.DecodeRuneInString(c.text[good:])
			good += n
		}
	}
	return good
}

// joinBlank adds spans of white space to the span before them, or after them at the start.
func joinBlank(text string, spans []Span) []Span {
	out := spans[:0]
	blank := -1 // start of blank spans before the first other one
	for _, s := range spans {
		switch {
		case strings.TrimSpace(text[s.Start:s.End]) != "":
			if blank >= 0 {
				s.Start, blank = blank, -1
			}
			out = append(out, s)
		case len(out) > 0:
			out[len(out)-1].End = s.End
		case blank < 0:
			blank = s.Start
		}
	}
	return out
}
