package loaders_test

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/retrieval/loaders"
)

// pdf returns a PDF file with the given objects, numbered from 1.
func pdf(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	b.WriteString("trailer << /Root 1 0 R >>\n%%EOF")
	return b.Bytes()
}

const (
	catalog = "<< /Type /Catalog /Pages 2 0 R >>"
	pages   = "<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /F << /Type /Font /Subtype /Type1 " +
		"/Encoding << /Differences [1 /fi /eacute /uni20AC] >> >> >> /XObject << /X 5 0 R >> >> >>"
	onePage = "<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"
)

func stream(dict, data string) string {
	return fmt.Sprintf("<< %s /Length %d >>\nstream\n%s\nendstream", dict, len(data), data)
}

func deflate(data io.Reader) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = io.Copy(z, data) // a bytes.Buffer does not fail
	_ = z.Close()
	return b.String()
}

func parse(t *testing.T, p retrieval.Parser, content []byte) retrieval.Document {
	t.Helper()
	docs, err := p(t.Context(), "file", content)
	if err != nil || len(docs) != 1 {
		t.Fatal(docs, err)
	}
	return docs[0]
}

func TestPDFTextIsExtracted(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"strings":            {`BT /F 10 Tf (a\(b\)\n\101) Tj <4142 43> Tj ET`, "a(b)AABC"},
		"encoding":           {"BT /F 10 Tf (\x01\x02\x03 \x93x\x94) Tj ET", "fié€ “x”"},
		"kerning":            {"BT /F 10 Tf [(wo) -20 (rd) -600 (next)] TJ ET", "word next"},
		"lines":              {"BT /F 10 Tf 12 TL (one) Tj T* (two) Tj 0 -30 Td (three) Tj ET", "one\ntwo\n\nthree"},
		"columns":            {"BT /F 10 Tf (a) Tj 100 0 Td (b) Tj ET", "a b"},
		"glyph by glyph":     {"BT /F 10 Tf (a) Tj 5 0 Td (b) Tj 5 0 Td (c) Tj ET", "abc"},
		"form":               {"BT /F 10 Tf (a) Tj ET /X Do", "a\n\nform"},
		"image":              {"BT /F 10 Tf (a) Tj ET BI /W 1 ID (((\xff EI BT /F 10 Tf (b) Tj ET", "a b"},
		"scaled by the page": {"q 0.1 0 0 0.1 0 0 cm BT /F 100 Tf (a) Tj 60 0 Td (b) Tj ET Q", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			form := stream("/Type /XObject /Subtype /Form", "BT /F 10 Tf 0 -50 Td (form) Tj ET")
			for _, contents := range []string{stream("", c.content), stream("/Filter /FlateDecode", deflate(strings.NewReader(c.content)))} {
				d := parse(t, loaders.PDF, pdf(catalog, pages, onePage, contents, form))
				got := strings.TrimSpace(d.Text)
				if name == "image" {
					got = strings.ReplaceAll(got, "ab", "a b") // both are at the same place
				}
				if got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestPDFOfBrowserIsExtracted reads a file with two pages, compressed streams, and embedded
// fonts.
func TestPDFOfBrowserIsExtracted(t *testing.T) {
	content, err := os.ReadFile("testdata/chrome.pdf")
	if err != nil {
		t.Fatal(err)
	}
	d := parse(t, loaders.PDF, content)
	flat := strings.Join(strings.Fields(d.Text), " ")
	for _, want := range []string{"Owls Owls fly silently, because the edges of their feathers break up the air. Žluťoučký kůň; efficient office", "Food Mice", "Owls nest in trees."} {
		if !strings.Contains(flat, want) {
			t.Errorf("%q lacks %q", flat, want)
		}
	}
	if len(d.Pages) != 2 || !strings.HasPrefix(d.Text[d.Pages[1]:], "Nests") {
		t.Errorf("pages start at %v of %q", d.Pages, d.Text)
	}
}

func TestHTMLBecomesMarkdown(t *testing.T) {
	d := parse(t, loaders.HTML, []byte(`<!doctype html><title>Owls &amp; more</title><style>p{}</style><script>if (a<b) {}</script>
<nav>Home</nav><h1>Owls</h1>
<p>They   fly<br>at <b>night</b>&nbsp;&mdash; <i>silently</i>.</p><ul><li>mice<li>voles</ul>
<pre>a
  b</pre><table><tr><th>x<td>1</td></tr><tr><td>y</td></tr></table>`))
	const want = "# Owls\n\nThey fly\nat night\u00a0— silently.\n\n- mice\n- voles\n\n```\na\n  b\n```\n\nx 1 |\ny |\n"
	if d.Text != want || d.Meta["title"] != "Owls & more" || d.Format != "markdown" {
		t.Errorf("%q\n%q\n%v", d.Text, want, d.Meta)
	}
}

func docx(t *testing.T, document io.Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("word/document.xml")
	if err == nil {
		_, err = io.Copy(w, document)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const openXML = `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>`

func TestDOCXBecomesMarkdown(t *testing.T) {
	d := parse(t, loaders.DOCX, docx(t, strings.NewReader(openXML+
		`<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Owls</w:t></w:r></w:p>`+
		`<w:p><w:r><w:t xml:space="preserve">They </w:t></w:r><w:r><w:t>fly &amp; eat.</w:t><w:tab/><w:t>Žluť</w:t></w:r></w:p>`+
		`<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>`+
		`</w:body></w:document>`)))
	if want := "## Owls\n\nThey fly & eat.\tŽluť\n\na | b | \n\n"; d.Text != want || d.Format != "markdown" {
		t.Errorf("%q, want %q", d.Text, want)
	}
}

// repeat reads the same text n times.
func repeat(text string, n int) io.Reader {
	readers := make([]io.Reader, n)
	for i := range readers {
		readers[i] = strings.NewReader(text)
	}
	return io.MultiReader(readers...)
}

// bombs returns files that would take too much time or memory, or that are broken.
func bombs(t *testing.T) map[string][]byte {
	zeros := deflate(repeat(strings.Repeat("\x00", 1<<20), 80)) // 80 MiB
	nested := strings.Repeat("[", 1<<20)
	loop := func(kids string) []byte { return pdf(catalog, "<< /Type /Pages /Kids ["+kids+"] >>") }
	return map[string][]byte{
		"stream.pdf":      pdf(catalog, pages, onePage, stream("/Filter /FlateDecode", zeros)),
		"filters.pdf":     pdf(catalog, pages, onePage, stream("/Filter [/FlateDecode /FlateDecode]", deflate(strings.NewReader(zeros)))),
		"objstm.pdf":      pdf(catalog, stream("/Type /ObjStm /N 1000000000 /First 10 /Filter /FlateDecode", zeros)),
		"nested.pdf":      pdf(nested),
		"content.pdf":     pdf(catalog, pages, onePage, stream("", nested)),
		"loop.pdf":        loop("2 0 R"),
		"many.pdf":        loop(strings.Repeat("<< >> ", 30_000)),
		"form.pdf":        pdf(catalog, pages, onePage, stream("", strings.Repeat("/X Do ", 10)), stream("/Subtype /Form", strings.Repeat("/X Do ", 10))),
		"shared.pdf":      pdf(catalog, pages, "<< /Type /Page /Contents ["+strings.Repeat("4 0 R ", 100_000)+"] >>", stream("", strings.Repeat(" ", 1<<20))),
		"refs.pdf":        pdf("2 0 R", "1 0 R", catalog, "4 0 R"),
		"encrypted.pdf":   append(pdf(catalog, pages, onePage), "\ntrailer << /Encrypt 9 0 R >>"...),
		"scan.pdf":        pdf(catalog, pages, onePage, stream("", "/Im Do")),
		"ranges.pdf":      mapped(strings.Repeat("<0000> <ffff> <0041> ", 100_000)+"endbfrange", "<0001>"),
		"trailers.pdf":    []byte("%PDF-1.7\n" + strings.Repeat("trailer(", 1<<20)),
		"widths.pdf":      fonts("/Subtype /Type0 /DescendantFonts [<< /W 5 0 R >>]", "[0 ["+strings.Repeat("1 ", 200_000)+"]]"),
		"intervals.pdf":   fonts("/Subtype /Type0 /DescendantFonts [<< /W 5 0 R >>]", "["+strings.Repeat("9 1 1 ", 60_000)+"]"),
		"differences.pdf": fonts("/Encoding << /Differences 5 0 R >>", "["+strings.Repeat("1 ", 200_000)+"]"),
		"overlap.pdf":     pdf(catalog, pages, overlapping("("+strings.Repeat("x", 1<<20)+")")),
		"names.pdf":       pdf(catalog, pages, overlapping("/"+strings.Repeat("x", 1<<20))),
		"comments.pdf":    pdf(catalog, pages, overlapping("%"+strings.Repeat("x", 1<<20))),
		"kids.pdf":        pdf(catalog, "<< /Kids ["+strings.Repeat("<< /Kids 3 0 R >> ", 1000)+"] >>", "["+strings.Repeat("null ", 10_000)+"]"),
		"contents.pdf":    pdf(catalog, "<< /Kids ["+strings.Repeat("<< /Contents 3 0 R >> ", 1000)+"] >>", "["+strings.Repeat("4 0 R ", 10_000)+"]", stream("", "")),
		"long range.pdf":  mapped("<0000> <ffff> <"+strings.Repeat("0041", 10_000)+"> endbfrange", "<0001>"),
		"long text.pdf":   mapped("<0001> <"+strings.Repeat("0041", 10_000)+"> endbfchar", "<"+strings.Repeat("0001", 10_000)+">"),
		"hex.pdf": pdf(catalog, pages, "<< /Type /Page /Contents ["+strings.Repeat("4 0 R ", 100)+"] >>",
			stream("/Filter /ASCIIHexDecode", strings.Repeat(" ", 1<<20))),
		"empty.pdf":  {},
		"text.pdf":   []byte("hello"),
		"header.pdf": []byte("%PDF-1.7\n"),

		"nested.html":  []byte(strings.Repeat("<div>", 1<<18) + "</b></i>"),
		"entity.html":  []byte("<p title=\"" + strings.Repeat("&", 1<<18) + "\">"),
		"token.html":   []byte("<a x=" + strings.Repeat("y", 5<<20)),
		"binary.html":  {0, 1, 2},
		"comment.html": []byte("<!--" + strings.Repeat("-", 5<<20)),

		"bomb.docx":   docx(t, io.MultiReader(strings.NewReader(openXML+"<w:p>"), repeat("<w:t>"+strings.Repeat("a", 1<<20)+"</w:t>", 48))),
		"nested.docx": docx(t, io.MultiReader(strings.NewReader(openXML), repeat(strings.Repeat("<w:p>", 1<<16), 1<<4))),
		"entity.docx": docx(t, strings.NewReader(`<!DOCTYPE d [<!ENTITY a "&b;&b;"><!ENTITY b "&a;">]>`+openXML+"<w:t>&a;</w:t>")),
		"empty.docx":  docx(t, strings.NewReader("")),
		"text.docx":   []byte("hello"),
		"short.docx":  []byte("PK\x05\x06"),
	}
}

// fonts returns a PDF file that uses 20 fonts with the given entries, which can refer to the
// array as object 5.
func fonts(entries, array string) []byte {
	var dicts, uses strings.Builder
	for i := range 20 {
		fmt.Fprintf(&dicts, "/F%d << %s >> ", i, entries)
		fmt.Fprintf(&uses, "/F%d 1 Tf ", i)
	}
	return pdf(catalog, "<< /Kids [3 0 R] /Resources << /Font << "+dicts.String()+" >> >> >>", onePage, stream("", uses.String()), array)
}

// overlapping returns an object stream with 1,000 objects at the same place.
func overlapping(object string) string {
	var header strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&header, "%d 0 ", i+10)
	}
	return stream(fmt.Sprintf("/Type /ObjStm /N 1000 /First %d", header.Len()), header.String()+object)
}

// mapped returns a PDF file that shows a string in a font with a table of characters.
func mapped(table, shown string) []byte {
	return pdf(catalog, "<< /Kids [3 0 R] /Resources << /Font << /F << /Subtype /Type0 /ToUnicode 5 0 R >> >> >> >>", onePage,
		stream("", "BT /F 1 Tf "+shown+" Tj ET"), stream("", table))
}

// reasons contains parts of the errors for bombs.
var reasons = map[string]string{
	"stream.pdf": "streams exceed", "filters.pdf": "streams exceed", "objstm.pdf": "streams exceed", "shared.pdf": "streams exceed",
	"nested.pdf": "nested too deeply", "content.pdf": "nested too deeply", "loop.pdf": "contains itself", "many.pdf": "more than 20000 pages",
	"refs.pdf": "no text", "encrypted.pdf": "encrypted PDF", "scan.pdf": "no text", "text.pdf": "not a PDF file",
	"trailers.pdf": "no catalog", "widths.pdf": "too many objects", "intervals.pdf": "too many objects", "differences.pdf": "too many objects",
	"overlap.pdf": "objects overlap", "names.pdf": "objects overlap", "comments.pdf": "objects overlap", "kids.pdf": "too many objects",
	"contents.pdf": "too many objects", "long range.pdf": "streams exceed", "long text.pdf": "text exceeds", "hex.pdf": "streams exceed", "ranges.pdf": "too many objects", "token.html": "max",
	"binary.html": "binary file", "bomb.docx": "exceeds", "nested.docx": "nested too deeply", "text.docx": "broken DOCX file",
}

func TestBombsAreSkippedWithReason(t *testing.T) {
	for name, content := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			parser := loaders.Parsers()[name[strings.LastIndex(name, "."):]]
			docs, err := parser(t.Context(), name, content)
			text := ""
			for _, d := range docs {
				text += d.Text
			}
			// Some contain no text, which a sync reports.
			if err == nil && len(strings.TrimSpace(text)) > 1 {
				t.Errorf("%d bytes of text", len(text))
			}
			if want := reasons[name]; want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("reason %v does not contain %q", err, want)
			}
		})
	}
}

// TestDamagedFilesDoNotPanic cuts files and changes their bytes.
func TestDamagedFilesDoNotPanic(t *testing.T) {
	browser, err := os.ReadFile("testdata/chrome.pdf")
	if err != nil {
		t.Fatal(err)
	}
	plain := pdf(catalog, pages, onePage, stream("", "BT /F 10 Tf [(a) 3 <4142>] TJ ET q 1 0 0 1 2 3 cm /X Do Q"), stream("/Subtype /Form", "BT (x) ' ET"))
	random := rand.New(rand.NewPCG(1, 2))
	for _, file := range [][]byte{browser, plain} {
		for range 400 {
			content := slices.Clone(file)
			for range 1 + random.IntN(20) {
				content[random.IntN(len(content))] = byte(random.Uint32())
			}
			content = content[:random.IntN(len(content)+1)]
			if random.IntN(2) == 0 {
				content = append(content, file[random.IntN(len(file)):]...)
			}
			_, _ = loaders.PDF(t.Context(), "", content) // any result is fine
		}
	}
}

// TestFontsAreReadOnce shows texts in fonts that are not separate objects, as often as a long
// document does.
func TestFontsAreReadOnce(t *testing.T) {
	table := strings.Repeat("<0001> <0041> ", 2000) + "endbfchar"
	d := parse(t, loaders.PDF, mapped(table, strings.Repeat("<0001> Tj /F 1 Tf ", 1000)+"<0001>"))
	if want := strings.Repeat("A", 1001); strings.TrimSpace(d.Text) != want {
		t.Errorf("%d bytes of text, want %d", len(d.Text), len(want))
	}
}

func TestFontCodesAreBounded(t *testing.T) {
	for _, entries := range []string{
		"/Subtype /Type0 /Encoding /UCS2 /DescendantFonts [<< /W [-5 [1 2] 65535 [500 1 2 3] 1e9 [7] -3 70000 600] >>]",
		"/FirstChar -1 /Widths [1 2 3] /Encoding << /Differences [-1 /a /b /c 255 /d /e] >>",
	} {
		d := parse(t, loaders.PDF, pdf(catalog, "<< /Kids [3 0 R] /Resources << /Font << /F << "+entries+" >> >> >> >>", onePage, stream("", "/F 1 Tf <0041> Tj")))
		if !strings.Contains(d.Text, "A") {
			t.Errorf("%s: %q", entries, d.Text)
		}
	}
}

// expiring is a context that is canceled while a parser runs: after a number of calls of Err.
type expiring struct {
	context.Context
	calls int
}

func (e *expiring) Err() error {
	if e.calls--; e.calls < 0 {
		return context.Canceled
	}
	return nil
}

func TestParserStopsWhenCanceled(t *testing.T) {
	all := bombs(t)
	for _, name := range []string{"trailers.pdf", "widths.pdf", "intervals.pdf", "differences.pdf", "overlap.pdf", "kids.pdf", "contents.pdf", "nested.html"} {
		parser := loaders.Parsers()[name[strings.LastIndex(name, "."):]]
		for calls := range 2 {
			if _, err := parser(&expiring{t.Context(), calls}, name, all[name]); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, call %d: %v", name, calls, err)
			}
		}
	}
}

func TestCanceledParserStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, content := range map[string][]byte{".pdf": pdf(catalog), ".html": []byte("<p>x"), ".docx": docx(t, strings.NewReader(openXML))} {
		if _, err := loaders.Parsers()[name](ctx, "", content); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
