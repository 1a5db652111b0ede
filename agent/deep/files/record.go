package files

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// Records are the files of a thread by path: the value of its field files. In an update,
// nil deletes a file.
type Records map[string]*Record

// Record is a file in the state of a thread or in a store. Its JSON is that of
// deepagents.
type Record struct {
	Content  []byte
	Created  time.Time // zero if unknown
	Modified time.Time
}

type recordJSON struct {
	Content  json.RawMessage `json:"content"`
	Encoding string          `json:"encoding,omitempty"`
	Created  string          `json:"created_at,omitempty"`
	Modified string          `json:"modified_at,omitempty"`
}

const (
	encodingText   = "utf-8"
	encodingBase64 = "base64"
)

// Reduce returns r with the files of u written or, if they are nil, deleted.
func (r Records) Reduce(u Records) Records {
	out := make(Records, len(r)+len(u))
	maps.Copy(out, r)
	for p, f := range u {
		if f == nil {
			delete(out, p)
		} else {
			out[p] = f
		}
	}
	return out
}

// MarshalJSON encodes an empty map as {}, never as null.
func (r Records) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, p := range slices.Sorted(maps.Keys(r)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(plainjson.AppendString(b, p), ':')
		if f := r[p]; f == nil {
			b = append(b, "null"...)
		} else {
			b = f.appendJSON(b)
		}
	}
	return append(b, '}'), nil
}

// Changes returns the update that turns r into now.
func (r Records) Changes(now Records) Records {
	out := Records{}
	for p, f := range now {
		if was := r[p]; was == nil || was != f && !bytes.Equal(was.Content, f.Content) {
			out[p] = f
		}
	}
	for p := range r {
		if now[p] == nil {
			out[p] = nil
		}
	}
	return out
}

// MarshalJSON writes text as UTF-8, and other content as base64.
func (r Record) MarshalJSON() ([]byte, error) {
	return r.appendJSON(nil), nil
}

// appendJSON appends the record in the form of recordJSON. A thread's files are encoded at each
// step that changes one.
func (r *Record) appendJSON(b []byte) []byte {
	encoding, text := encodingText, string(r.Content)
	if !utf8.ValidString(text) {
		encoding, text = encodingBase64, base64.StdEncoding.EncodeToString(r.Content)
	}
	b = plainjson.AppendString(append(slices.Grow(b, len(text)+150), `{"content":`...), text)
	b = append(append(append(b, `,"encoding":"`...), encoding...), '"')
	b = appendStamp(b, `,"created_at":"`, r.Created)
	b = appendStamp(b, `,"modified_at":"`, r.Modified)
	return append(b, '}')
}

// UnmarshalJSON also reads the list of lines that old versions of deepagents wrote, and a
// plain string, which is a file with this text.
func (r *Record) UnmarshalJSON(raw []byte) error {
	var in recordJSON
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '"' {
		in.Content = trimmed
	} else if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	var text string
	if err := json.Unmarshal(in.Content, &text); err != nil {
		var lines []string
		if json.Unmarshal(in.Content, &lines) != nil {
			return errors.New("files: content of a file is neither a string nor a list of lines")
		}
		text = strings.Join(lines, "\n")
	}
	out := Record{Content: []byte(text)}
	var err error
	switch in.Encoding {
	case "", encodingText:
	case encodingBase64:
		if out.Content, err = base64.StdEncoding.DecodeString(text); err != nil {
			return fmt.Errorf("files: content of a file: %w", err)
		}
	default:
		return fmt.Errorf("files: unknown encoding %q of a file: want %s or %s", in.Encoding, encodingText, encodingBase64)
	}
	out.Created, out.Modified = when(in.Created), when(in.Modified)
	*r = out
	return nil
}

// Text returns a record of a text file.
func Text(content string) *Record { return &Record{Content: []byte(content)} }

// appendStamp appends a field with a time that is known.
func appendStamp(b []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return b
	}
	return append(t.UTC().AppendFormat(append(b, name...), time.RFC3339Nano), '"')
}

// when parses a time written by deepagents or by appendStamp; an unknown format yields the zero time.
func when(text string) time.Time {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999"} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

// after returns the record of a file whose content changes to content.
func (r *Record) after(content []byte, now time.Time) *Record {
	next := &Record{Content: content, Created: now, Modified: now}
	if r != nil && !r.Created.IsZero() {
		next.Created = r.Created
	}
	return next
}
