package retrieval

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// code lists the extensions of source code.
var code = strings.Fields(".bash .c .cc .clj .cpp .cs .css .cxx .dart .erl .ex .exs .go .groovy .h .hpp .hs .java .jl .js .jsx " +
	".kt .kts .less .lua .m .ml .mjs .nim .php .pl .proto .ps1 .py .r .rb .rs .scala .scss .sh .sql .swift .tf .ts .tsx .vb .vue .zig")

// unparsed lists the extensions of formats whose files are text, or look like it, but need
// a parser.
var unparsed = strings.Fields(".pdf .docx .html .htm .xhtml .doc .rtf .odt .xls .xlsx .ppt .pptx .epub")

// parserOf returns the parser for an extension, or nil.
func parserOf(extension string) Parser {
	switch {
	case extension == ".md" || extension == ".markdown" || extension == ".mdx":
		return textIn("markdown")
	case extension == ".csv":
		return parseCSV
	case extension == ".json":
		return parseJSON
	case extension == ".jsonl" || extension == ".ndjson":
		return parseLines
	case slices.Contains(code, extension):
		return textIn("code")
	case slices.Contains(unparsed, extension):
		return nil
	}
	return textIn("")
}

// textIn returns a parser for text in a format.
func textIn(format string) Parser {
	return func(_ context.Context, _ string, content []byte) ([]Document, error) {
		text, err := Decode(content)
		return []Document{{Text: text, Format: format, Line: 1}}, err
	}
}

// Decode returns content as text. It must be in UTF-8, or in UTF-16 with a byte order mark.
func Decode(content []byte) (string, error) {
	switch {
	case bytes.HasPrefix(content, []byte{0xff, 0xfe}):
		return decodeUTF16(content[2:], binary.LittleEndian)
	case bytes.HasPrefix(content, []byte{0xfe, 0xff}):
		return decodeUTF16(content[2:], binary.BigEndian)
	case bytes.IndexByte(content, 0) >= 0:
		return "", skip("binary file: it contains NUL bytes")
	case !utf8.Valid(content):
		return "", skip(fmt.Sprintf("invalid UTF-8 at byte %d: convert it to UTF-8", invalidAt(content)))
	}
	return string(content), nil
}

func invalidAt(content []byte) int {
	at := 0
	for at < len(content) {
		r, n := utf8.DecodeRune(content[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

func decodeUTF16(content []byte, order binary.ByteOrder) (string, error) {
	if len(content)%2 != 0 {
		return "", skip("invalid UTF-16: it has an odd number of bytes")
	}
	units := make([]uint16, len(content)/2)
	for i := range units {
		units[i] = order.Uint16(content[2*i:])
	}
	text := string(utf16.Decode(units))
	if strings.ContainsRune(text, 0) || strings.ContainsRune(text, utf8.RuneError) {
		return "", skip("invalid UTF-16")
	}
	return text, nil
}

// Limits for untrusted content, whose documents may take much more memory than the content.
const (
	maxDocuments = 250_000
	maxGrowth    = 8       // of the texts, relative to the content
	maxGrown     = 1 << 20 // bytes that the texts may have regardless of that
)

// maxCell is the maximum size of a value in the Meta of a row, which each chunk repeats.
const maxCell = 1000

// parseCSV returns a document per row, with a line "column: value" for each column. The row
// is also in its Meta, without long values.
func parseCSV(ctx context.Context, _ string, content []byte) ([]Document, error) {
	text, err := Decode(content)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	columns, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var docs []Document
	left := maxGrowth*len(content) + maxGrown
	for {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return docs, nil
		case err != nil:
			return nil, err
		case len(docs) == maxDocuments:
			return nil, fmt.Errorf("more than %d rows", maxDocuments)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		var b strings.Builder
		meta := map[string]any{}
		for i, value := range row {
			fmt.Fprintf(&b, "%s: %s\n", columns[i], value)
			if len(value) <= maxCell {
				meta[columns[i]] = value
			}
		}
		left -= b.Len()
		if left < 0 {
			return nil, errors.New("column names make the text too long")
		}
		line, _ := r.FieldPos(0)
		docs = append(docs, Document{ID: fmt.Sprintf("line %d", line), Text: b.String(), Meta: meta})
	}
}

// parseJSON returns a document per element of an array, or one for any other value. Texts
// are copied from the file verbatim.
func parseJSON(ctx context.Context, _ string, content []byte) ([]Document, error) {
	text, err := Decode(content)
	if err != nil {
		return nil, err
	}
	text = strings.TrimPrefix(text, "\ufeff")
	if !json.Valid([]byte(text)) {
		var v json.RawMessage
		return nil, json.Unmarshal([]byte(text), &v)
	}
	if !strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "[") {
		return []Document{{Text: text, Format: "code", Line: 1}}, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var docs []Document
	line, counted := 1, 0
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, err
		}
		if len(docs) == maxDocuments {
			return nil, fmt.Errorf("more than %d elements", maxDocuments)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start := int(d.InputOffset()) - len(raw)
		line += strings.Count(text[counted:start], "\n")
		counted = start
		docs = append(docs, Document{ID: fmt.Sprint(len(docs)), Text: string(raw), Format: "code", Line: line})
	}
	return docs, nil
}

// parseLines returns a document per line of JSON.
func parseLines(ctx context.Context, _ string, content []byte) ([]Document, error) {
	text, err := Decode(content)
	if err != nil {
		return nil, err
	}
	var docs []Document
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			continue
		case !json.Valid([]byte(line)):
			return nil, fmt.Errorf("line %d is not JSON", number)
		case len(docs) == maxDocuments:
			return nil, fmt.Errorf("more than %d lines", maxDocuments)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		docs = append(docs, Document{ID: fmt.Sprintf("line %d", number), Text: line, Format: "code", Line: number})
	}
	return docs, nil
}
