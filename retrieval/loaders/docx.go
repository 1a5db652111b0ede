package loaders

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/treadle-go/treadle/retrieval"
)

// maxXML is the maximum size of the text of a DOCX file with its markup.
const maxXML = 32 << 20

// DOCX extracts the text of a Word document as Markdown: headings, paragraphs, and a line per
// row of a table.
func DOCX(ctx context.Context, _ string, content []byte) ([]retrieval.Document, error) {
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, fmt.Errorf("broken DOCX file: %w", err)
	}
	f, err := z.Open("word/document.xml")
	if err != nil {
		return nil, fmt.Errorf("broken DOCX file: %w", err)
	}
	defer func() { _ = f.Close() }() // opened only for reading
	text, err := readDOCX(ctx, io.LimitReader(f, maxXML+1))
	if err != nil {
		return nil, err
	}
	return []retrieval.Document{{Text: text, Format: "markdown"}}, nil
}

const wordML = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

// docx collects the text of the elements of a document.
type docx struct {
	out, paragraph strings.Builder
	level          int // of the heading; 0 for a paragraph
	cells          int // nesting of table cells
	nesting        int // of elements
	inText         bool
}

func readDOCX(ctx context.Context, r io.Reader) (string, error) {
	d := xml.NewDecoder(r)
	var w docx
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return w.out.String(), nil
		}
		if d.InputOffset() > maxXML {
			return "", fmt.Errorf("text with markup exceeds %d bytes", maxXML)
		}
		if err != nil {
			return "", fmt.Errorf("broken DOCX file: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			w.nesting++
			if w.nesting > 1000 {
				return "", errors.New("elements are nested too deeply")
			}
			if t.Name.Space == wordML {
				w.start(t)
			}
		case xml.EndElement:
			w.nesting--
			if t.Name.Space == wordML {
				w.end(t.Name.Local)
			}
		case xml.CharData:
			if w.inText {
				w.paragraph.Write(t)
			}
		}
	}
}

func (w *docx) start(t xml.StartElement) {
	switch t.Name.Local {
	case "t":
		w.inText = true
	case "tab":
		w.paragraph.WriteString("\t")
	case "br", "cr":
		w.paragraph.WriteString("\n")
	case "pStyle":
		w.level = 0
		for _, a := range t.Attr {
			style := strings.ToLower(a.Value)
			if rest, ok := strings.CutPrefix(style, "heading"); ok && len(rest) == 1 && rest[0] >= '1' && rest[0] <= '6' {
				w.level = int(rest[0] - '0')
			} else if style == "title" {
				w.level = 1
			}
		}
	case "tc":
		w.cells++
	}
}

func (w *docx) end(local string) {
	switch local {
	case "t":
		w.inText = false
	case "p":
		text := strings.TrimSpace(w.paragraph.String())
		w.paragraph.Reset()
		switch {
		case w.cells > 0:
			w.out.WriteString(text + " ")
		case text != "" && w.level > 0:
			w.out.WriteString(strings.Repeat("#", w.level) + " " + strings.ReplaceAll(text, "\n", " ") + "\n\n")
		case text != "":
			w.out.WriteString(text + "\n\n")
		}
		w.level = 0
	case "tc":
		w.cells--
		w.out.WriteString("| ")
	case "tr":
		w.out.WriteString("\n")
	case "tbl":
		w.out.WriteString("\n")
	}
}
