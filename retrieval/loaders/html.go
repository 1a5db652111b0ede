package loaders

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadle-go/treadle/retrieval"
)

// maxToken is the maximum size of a tag or a text in HTML.
const maxToken = 4 << 20

// HTML extracts the text of a web page as Markdown: headings, paragraphs, list items, and
// code. It omits scripts, styles, forms, and navigation. The title of the page is in Meta,
// as "title". The page must be in UTF-8, or in UTF-16 with a byte order mark.
func HTML(ctx context.Context, _ string, content []byte) ([]retrieval.Document, error) {
	text, err := retrieval.Decode(content)
	if err != nil {
		return nil, err
	}
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(maxToken)
	var p webPage
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("broken HTML: %w", err)
			}
			d := retrieval.Document{Text: p.text(), Format: "markdown"}
			if title := strings.TrimSpace(p.title.String()); title != "" {
				d.Meta = map[string]any{"title": title}
			}
			return []retrieval.Document{d}, nil
		case html.StartTagToken:
			tag, _ := z.TagName()
			p.start(atom.Lookup(tag))
		case html.SelfClosingTagToken:
			tag, _ := z.TagName()
			if a := atom.Lookup(tag); a == atom.Br || a == atom.Hr {
				p.start(a)
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			p.end(atom.Lookup(tag))
		case html.TextToken:
			p.write(z.Text())
		}
	}
}

// webPage collects the text of a page. It keeps no tree, so deep nesting takes no memory.
type webPage struct {
	out   strings.Builder
	title strings.Builder

	omit    atom.Atom // the element whose content is omitted; 0 for none
	omitted int       // nesting of elements of this kind
	inTitle bool
	pre     int
	lines   int  // line breaks to write before the next text
	space   bool // a space to write before the next text
	prefix  string
}

func (p *webPage) start(a atom.Atom) {
	if p.omit != 0 {
		if a == p.omit {
			p.omitted++
		}
		return
	}
	switch a {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Form, atom.Nav, atom.Select, atom.Iframe, atom.Object:
		p.omit, p.omitted = a, 1
	case atom.Title:
		p.inTitle = true
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.breakLines(2)
		p.prefix = strings.Repeat("#", int(a.String()[1]-'0')) + " "
	case atom.Li:
		p.breakLines(1)
		p.prefix = "- "
	case atom.Br:
		p.breakLines(1)
	case atom.Pre:
		p.breakLines(2)
		p.pre++
		p.prefix = "```\n"
	case atom.Td, atom.Th:
		p.space = true
	default:
		p.block(a)
	}
}

func (p *webPage) end(a atom.Atom) {
	if p.omit != 0 {
		if a == p.omit {
			p.omitted--
			if p.omitted == 0 {
				p.omit = 0
			}
		}
		return
	}
	switch a {
	case atom.Title:
		p.inTitle = false
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.prefix = ""
		p.breakLines(2)
	case atom.Pre:
		if p.pre > 0 {
			p.pre--
			if p.pre == 0 && p.prefix == "" {
				p.out.WriteString("\n```")
			}
			p.prefix = ""
			p.breakLines(2)
		}
	case atom.Td, atom.Th:
		p.out.WriteString(" |")
		p.space = true
	default:
		p.block(a)
	}
}

// block ends a paragraph before and after a block.
func (p *webPage) block(a atom.Atom) {
	switch a {
	case atom.P, atom.Ul, atom.Ol, atom.Table, atom.Blockquote, atom.Section, atom.Article, atom.Header, atom.Footer, atom.Main, atom.Aside, atom.Hr, atom.Dl:
		p.breakLines(2)
	case atom.Div, atom.Tr, atom.Dt, atom.Dd, atom.Li, atom.Figure, atom.Figcaption, atom.Option:
		p.breakLines(1)
	}
}

func (p *webPage) breakLines(n int) { p.lines = max(p.lines, n) }

func (p *webPage) write(escaped []byte) {
	switch {
	case p.inTitle:
		p.title.WriteString(html.UnescapeString(string(escaped)))
	case p.omit != 0:
	case p.pre > 0:
		p.before()
		p.out.WriteString(html.UnescapeString(string(escaped)))
	default:
		// Characters such as no-break spaces are part of the text.
		for i, w := range bytes.FieldsFunc(escaped, isHTMLSpace) {
			if i > 0 || isHTMLSpace(rune(escaped[0])) {
				p.space = true
			}
			p.before()
			p.out.WriteString(html.UnescapeString(string(w)))
		}
		if len(escaped) > 0 && isHTMLSpace(rune(escaped[len(escaped)-1])) {
			p.space = true
		}
	}
}

func isHTMLSpace(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f' }

// before writes the white space and the prefix before a text.
func (p *webPage) before() {
	switch {
	case p.out.Len() == 0:
	case p.lines > 0:
		p.out.WriteString(strings.Repeat("\n", p.lines))
	case p.space:
		p.out.WriteString(" ")
	}
	p.out.WriteString(p.prefix)
	p.lines, p.space, p.prefix = 0, false, ""
}

func (p *webPage) text() string {
	if p.out.Len() == 0 {
		return ""
	}
	return p.out.String() + "\n"
}
