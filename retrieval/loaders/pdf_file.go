package loaders

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/ascii85"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
)

// Limits for untrusted files.
const (
	maxObjects = 2_000_000 // read from a file and its streams
	maxDecoded = 64 << 20  // bytes of decoded streams
	maxText    = 64 << 20  // bytes of text
	maxPages   = 20_000
)

var errDecoded = fmt.Errorf("streams exceed %d bytes", maxDecoded)
var errText = fmt.Errorf("text exceeds %d bytes", maxText)

// file is a PDF file. It finds objects by searching for them rather than by the
// cross-reference table, so that neither a broken nor a malicious table matters.
type file struct {
	*budget
	objects map[ref]any
	order   []ref
}

var objectStart = regexp.MustCompile(`(\d{1,9})[ \t\r\n\x00\f]+\d{1,5}[ \t\r\n\x00\f]+obj`)

func newFile(ctx context.Context, data []byte) (*file, error) {
	if !bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")) {
		return nil, errors.New("not a PDF file")
	}
	// Without overlaps, every byte of the file and of its streams is read as an object at most
	// once, apart from trailers.
	limits := &budget{ctx: ctx, objects: maxObjects, scanned: 2*len(data) + maxDecoded, decoded: maxDecoded, text: maxText}
	f := &file{budget: limits, objects: map[ref]any{}}
	if err := f.checkEncryption(data); err != nil {
		return nil, err
	}
	for at := 0; ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found := objectStart.FindSubmatchIndex(data[at:])
		if found == nil {
			break
		}
		number, err := strconv.Atoi(string(data[at+found[2] : at+found[3]]))
		if err != nil {
			return nil, err
		}
		p := parser{data, at + found[1], f.budget}
		v, err := p.object(0)
		if err != nil {
			return nil, err
		}
		if d, ok := v.(dict); ok {
			v = p.stream(d)
		}
		if err := f.add(ref(number), v); err != nil {
			return nil, err
		}
		at = p.at
	}
	return f, nil
}

var errEncrypted = errors.New("encrypted PDF")

// checkEncryption looks for a trailer with an encryption dictionary.
func (f *file) checkEncryption(data []byte) error {
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("trailer"))
		if i < 0 {
			return nil
		}
		p := parser{data, at + i + len("trailer"), f.budget}
		v, err := p.object(0)
		if err != nil {
			return err
		}
		at = p.at
		if d, ok := v.(dict); ok && d["Encrypt"] != nil {
			return errEncrypted
		}
	}
}

// add adds an object, and the objects in it if it is an object stream.
func (f *file) add(number ref, v any) error {
	if _, ok := f.objects[number]; !ok {
		f.order = append(f.order, number)
	}
	f.objects[number] = v
	s, ok := v.(*stream)
	if !ok {
		return nil
	}
	if s.dict["Type"] == name("XRef") && s.dict["Encrypt"] != nil {
		return errEncrypted
	}
	if s.dict["Type"] != name("ObjStm") {
		return nil
	}
	data, err := f.decode(s)
	if err != nil {
		return err
	}
	n, first := int(number64(s.dict["N"])), int(number64(s.dict["First"]))
	header := parser{data, 0, f.budget}
	for range n {
		id, err := header.object(0)
		if err != nil {
			return err
		}
		offset, err := header.object(0)
		if err != nil {
			return err
		}
		at := first + int(number64(offset))
		if _, ok := id.(float64); !ok || at < 0 || at > len(data) {
			break
		}
		p := parser{data, at, f.budget}
		v, err := p.object(0)
		if err != nil {
			return err
		}
		inner := ref(number64(id))
		if _, ok := f.objects[inner]; !ok {
			f.order = append(f.order, inner)
		}
		f.objects[inner] = v
	}
	return nil
}

// stream returns the stream that follows its dictionary, or the dictionary if there is none.
func (p *parser) stream(d dict) any {
	p.space()
	if !bytes.HasPrefix(p.data[p.at:], []byte("stream")) {
		return d
	}
	p.at += len("stream")
	if p.peek(0) == '\r' {
		p.at++
	}
	if p.peek(0) == '\n' {
		p.at++
	}
	rest := p.data[p.at:]
	// The length may be wrong, or a reference.
	if n, ok := d["Length"].(float64); ok && n >= 0 && n <= float64(len(rest)) {
		after := bytes.TrimLeft(rest[int(n):min(len(rest), int(n)+20)], "\r\n \t")
		if bytes.HasPrefix(after, []byte("endstream")) {
			p.at += int(n)
			return &stream{d, rest[:int(n)]}
		}
	}
	end := bytes.Index(rest, []byte("endstream"))
	if end < 0 {
		end = len(rest)
	}
	p.at += end
	return &stream{d, rest[:end]}
}

// resolve follows references. A chain of references ends, because objects are not
// references in valid files.
func (f *file) resolve(v any) any {
	for range 10 {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = f.objects[r]
	}
	return nil
}

func (f *file) dict(v any) dict {
	switch v := f.resolve(v).(type) {
	case dict:
		return v
	case *stream:
		return v.dict
	}
	return nil
}

func (f *file) array(v any) []any {
	list, _ := f.resolve(v).([]any)
	return list
}

func number64(v any) float64 {
	n, _ := v.(float64)
	if n != n || n < -1e9 || n > 1e9 {
		return 0
	}
	return n
}

func (f *file) number(v any) float64 { return number64(f.resolve(v)) }

// decode returns the data of a stream.
func (f *file) decode(s *stream) ([]byte, error) {
	filters := f.array(s.dict["Filter"])
	if one, ok := f.resolve(s.dict["Filter"]).(name); ok {
		filters = []any{one}
	}
	if len(filters) > 4 {
		return nil, errors.New("too many filters")
	}
	data := s.raw
	f.decoded -= len(data)
	if f.decoded < 0 {
		return nil, errDecoded
	}
	for _, filter := range filters {
		if err := f.ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		switch n, _ := f.resolve(filter).(name); n {
		case "FlateDecode", "Fl":
			data, err = f.inflate(data)
		case "ASCIIHexDecode", "AHx":
			data = unhex(bytes.TrimRight(data, "> \r\n"))
		case "ASCII85Decode", "A85":
			data, err = f.read(ascii85.NewDecoder(bytes.NewReader(bytes.TrimSuffix(bytes.TrimSpace(data), []byte("~>")))))
		default:
			return nil, fmt.Errorf("unsupported filter %.40q", string(n))
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (f *file) inflate(data []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("broken stream: %w", err)
	}
	return f.read(r)
}

// read reads decoded data. Like other readers, it keeps what precedes broken data.
func (f *file) read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(f.decoded)+1))
	f.decoded -= len(data)
	if f.decoded < 0 {
		return nil, errDecoded
	}
	if err != nil && len(data) == 0 {
		return nil, fmt.Errorf("broken stream: %w", err)
	}
	return data, nil
}

// page is a page with the resources that it inherits.
type page struct{ dict, resources dict }

// pages returns the pages in order.
func (f *file) pages() ([]page, error) {
	var catalog dict
	for _, r := range f.order {
		if d, ok := f.objects[r].(dict); ok && d["Type"] == name("Catalog") && d["Pages"] != nil {
			catalog = d
		}
	}
	if catalog == nil {
		return nil, errors.New("broken PDF: no catalog of pages")
	}
	var out []page
	seen := map[ref]bool{}
	var walk func(v any, resources dict, depth int) error
	walk = func(v any, resources dict, depth int) error {
		if r, ok := v.(ref); ok {
			if seen[r] {
				return errors.New("broken PDF: a page contains itself")
			}
			seen[r] = true
		}
		d := f.dict(v)
		switch {
		case depth > maxNesting:
			return errNested
		case d == nil:
			return nil
		case len(out) >= maxPages:
			return fmt.Errorf("more than %d pages", maxPages)
		}
		if own := f.dict(d["Resources"]); own != nil {
			resources = own
		}
		kids := f.array(d["Kids"])
		if kids == nil {
			out = append(out, page{d, resources})
		}
		for _, kid := range kids {
			if err := f.use(1); err != nil {
				return err
			}
			if err := walk(kid, resources, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return out, walk(catalog["Pages"], nil, 0)
}
