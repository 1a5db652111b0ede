package loaders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/treadle-go/treadle/retrieval"
)

// PDF extracts the text of a PDF file as one document, with the offsets of its pages. It
// reads lines in file order. It rejects encrypted files, and
// files without text, such as scans.
func PDF(ctx context.Context, _ string, content []byte) ([]retrieval.Document, error) {
	f, err := newFile(ctx, content)
	if err != nil {
		return nil, err
	}
	pages, err := f.pages()
	if err != nil {
		return nil, err
	}
	fonts := map[uintptr]*font{}
	var text strings.Builder
	var offsets []int
	var unreadable error
	for i, p := range pages {
		offsets = append(offsets, text.Len())
		s := &show{f: f, fonts: fonts, ctm: identity, out: &text}
		if err := s.page(p); err != nil {
			if f.spent(err) {
				return nil, err
			}
			unreadable = fmt.Errorf("page %d: %w", i+1, err)
		}
		if text.Len() > offsets[i] {
			text.WriteString("\n\n")
		}
	}
	if strings.TrimSpace(text.String()) == "" {
		if unreadable != nil {
			return nil, unreadable
		}
		return nil, errors.New("no text: the pages may be images")
	}
	return []retrieval.Document{{Text: strings.ToValidUTF8(text.String(), "\ufffd"), Pages: offsets}}, nil
}

type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) mul(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// show runs the operators of a page and writes its text.
type show struct {
	f     *file
	fonts map[uintptr]*font // by the addresses of their dictionaries
	out   *strings.Builder

	ctm            matrix
	saved          []matrix
	text, line     matrix
	font           *font
	size, leading  float64
	charSp, wordSp float64
	scale          float64
	depth          int

	shown      bool    // whether there is text before
	endX, endY float64 // where it ends on the page
}

const maxForms = 8

func (s *show) page(p page) error {
	s.scale = 1
	var data []byte
	contents := s.f.array(p.dict["Contents"])
	if contents == nil {
		contents = []any{p.dict["Contents"]}
	}
	for _, c := range contents {
		if err := s.f.use(1); err != nil {
			return err
		}
		if st, ok := s.f.resolve(c).(*stream); ok {
			part, err := s.f.decode(st)
			if err != nil {
				return err
			}
			data = append(append(data, part...), '\n')
		}
	}
	return s.run(data, p.resources)
}

// run runs operators.
func (s *show) run(data []byte, resources dict) error {
	p := parser{data, 0, s.f.budget}
	var args []any
	for {
		if s.f.text < 0 {
			return errText
		}
		v, err := p.object(0)
		if err != nil {
			return err
		}
		w, ok := v.(word)
		switch {
		case !ok:
			if len(args) < 100 {
				args = append(args, v)
			}
			continue
		case w == "":
			return nil
		case w == "BI": // an image in the content
			p.skipImage()
		case w == "Do":
			if err := s.form(last(args), resources); err != nil {
				return err
			}
		case w == "Tf":
			if err := s.setFont(args, resources); err != nil {
				return err
			}
		default:
			s.operator(string(w), args)
		}
		args = args[:0]
	}
}

// skipImage skips the data of an image.
func (p *parser) skipImage() {
	for i := p.at; i+3 < len(p.data); i++ {
		if isSpace(p.data[i]) && p.data[i+1] == 'E' && p.data[i+2] == 'I' && isSpace(p.data[i+3]) {
			p.at = i + 3
			return
		}
	}
	p.at = len(p.data)
}

// form shows a form, which has separate operators and resources.
func (s *show) form(v any, resources dict) error {
	n, _ := v.(name)
	st, ok := s.f.resolve(s.f.dict(resources["XObject"])[n]).(*stream)
	if !ok || st.dict["Subtype"] != name("Form") || s.depth >= maxForms {
		return nil
	}
	data, err := s.f.decode(st)
	if err != nil {
		return err
	}
	inner := *s
	inner.depth++
	inner.saved = nil
	if m, ok := matrixOf(s.f.array(st.dict["Matrix"])); ok {
		inner.ctm = m.mul(inner.ctm)
	}
	if own := s.f.dict(st.dict["Resources"]); own != nil {
		resources = own
	}
	err = inner.run(data, resources)
	s.shown, s.endX, s.endY = inner.shown, inner.endX, inner.endY
	return err
}

func (s *show) setFont(args []any, resources dict) error {
	if len(args) < 2 {
		return nil
	}
	n, _ := args[0].(name)
	s.size = number64(args[1])
	d := s.f.dict(s.f.dict(resources["Font"])[n])
	key := reflect.ValueOf(d).Pointer() // the file keeps all dictionaries, so the address stays
	if s.font = s.fonts[key]; s.font != nil || d == nil {
		return nil
	}
	var err error
	if s.font, err = s.f.font(d); err == nil {
		s.fonts[key] = s.font
	}
	return err
}

func matrixOf(args []any) (m matrix, ok bool) {
	if len(args) != 6 {
		return m, false
	}
	for i, a := range args {
		m[i] = number64(a)
	}
	return m, true
}

// operator runs an operator that shows text or changes its place.
func (s *show) operator(op string, args []any) {
	n := func(i int) float64 {
		if i < len(args) {
			return number64(args[i])
		}
		return 0
	}
	switch op {
	case "q":
		if len(s.saved) < maxNesting {
			s.saved = append(s.saved, s.ctm)
		}
	case "Q":
		if k := len(s.saved); k > 0 {
			s.ctm, s.saved = s.saved[k-1], s.saved[:k-1]
		}
	case "cm":
		if m, ok := matrixOf(args); ok {
			s.ctm = m.mul(s.ctm)
		}
	case "BT":
		s.text, s.line = identity, identity
	case "Tm":
		if m, ok := matrixOf(args); ok {
			s.text, s.line = m, m
		}
	case "Td", "TD":
		if op == "TD" {
			s.leading = -n(1)
		}
		s.move(n(0), n(1))
	case "T*":
		s.move(0, -s.leading)
	case "TL":
		s.leading = n(0)
	case "Tc":
		s.charSp = n(0)
	case "Tw":
		s.wordSp = n(0)
	case "Tz":
		s.scale = n(0) / 100
	case "Tj":
		s.show(last(args))
	case "TJ":
		s.showAll(last(args))
	case "'", `"`:
		if op == `"` {
			s.wordSp, s.charSp = n(0), n(1)
		}
		s.move(0, -s.leading)
		s.show(last(args))
	}
}

func (s *show) move(x, y float64) {
	s.line = matrix{1, 0, 0, 1, x, y}.mul(s.line)
	s.text = s.line
}

// showAll shows strings with changes of the place between them.
func (s *show) showAll(v any) {
	list, _ := v.([]any)
	for _, x := range list {
		if shift, ok := x.(float64); ok {
			s.text = matrix{1, 0, 0, 1, -shift / 1000 * s.size * s.scale, 0}.mul(s.text)
			continue
		}
		s.show(x)
	}
}

// show shows a string, after a space or a new line if it is away from the text before.
func (s *show) show(v any) {
	text, ok := v.(str)
	if !ok || s.font == nil {
		return
	}
	s.font.decode(text, func(t string, width float64, code byte) {
		at := s.text.mul(s.ctm)
		em := math.Abs(s.size) * math.Max(math.Hypot(at[0], at[1]), math.Hypot(at[2], at[3]))
		if em == 0 || math.IsNaN(em) || math.IsInf(em, 0) {
			em = 1
		}
		if t != "" {
			s.f.text -= len(t)
			if s.f.text < 0 {
				return
			}
			s.separate(at[4], at[5], em)
			s.out.WriteString(ligatures.Replace(strings.Map(printable, t)))
			s.shown = true
		}
		advance := width/1000*s.size + s.charSp
		if code == ' ' && !s.font.wide {
			advance += s.wordSp
		}
		s.text = matrix{1, 0, 0, 1, advance * s.scale, 0}.mul(s.text)
		end := s.text.mul(s.ctm)
		s.endX, s.endY = end[4], end[5]
	})
}

// separate writes the white space between the text before and text at a place on the page.
func (s *show) separate(x, y, em float64) {
	if !s.shown {
		return
	}
	switch dx, dy := x-s.endX, math.Abs(y-s.endY); {
	case dy > 2*em:
		s.out.WriteString("\n\n")
	case dy > 0.5*em || dx < -2*em && dy > 0.1*em:
		s.out.WriteString("\n")
	case (dx > 0.15*em || dx < -em) && !strings.HasSuffix(s.out.String()[max(0, s.out.Len()-1):], " "):
		s.out.WriteString(" ")
	}
}

// ligatures replaces ligatures by their letters, which queries contain.
var ligatures = strings.NewReplacer("ﬀ", "ff", "ﬁ", "fi", "ﬂ", "fl", "ﬃ", "ffi", "ﬄ", "ffl", "ﬅ", "st", "ﬆ", "st")

// printable removes control characters, which fonts use for private glyphs.
func printable(r rune) rune {
	switch {
	case r == '\t' || r == '\n' || r == '\u00a0':
		return ' '
	case r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u00ad':
		return -1
	}
	return r
}
