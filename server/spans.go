package server

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/spans"
)

// SpanOptions configures which model and tool calls a server stores. The zero value stores all
// calls of runs with a thread, with everything that was sent and received.
type SpanOptions struct {
	// Redact, if not nil, returns the text to store instead of a text in the input, the output,
	// or the error of a call. It is called for each string. It must be safe for concurrent use.
	Redact func(text string) string
	// NoContent stores neither inputs, outputs, nor error messages: only times, parameters, and
	// usage. It is always set if the checkpoints are encrypted (see [Options.NoTextIndex]), or
	// the items of the store, because prompts contain recalled items.
	NoContent bool
	// Age is the retention time of spans; 0 means a week. A span is deleted earlier with its thread
	// or its run.
	Age time.Duration
	// MaxSpan limits the input and the output of a span, in bytes each; 0 means 256 KiB. Longer
	// texts are cut, and the span lists what is missing.
	MaxSpan int
	// MaxRun limits the inputs and outputs of all spans of a run, in bytes; 0 means 8 MiB. The
	// list of spans states how much is missing.
	MaxRun int64
	// MaxSpans limits the number of spans per run; 0 means 1,000.
	MaxSpans int
}

// spanOptions returns the runner's options, or nil if spans are off.
func (s *Server) spanOptions() *spans.Options {
	o := s.o.Spans
	if o == nil {
		return nil
	}
	return &spans.Options{
		Redact:    o.Redact,
		NoContent: o.NoContent || s.noContent,
		Age:       o.Age,
		MaxSpan:   o.MaxSpan,
		MaxRun:    o.MaxRun,
		MaxSpans:  o.MaxSpans,
	}
}

// encrypter is implemented by savers that may encrypt.
var encrypter = reflect.TypeFor[checkpoint.Encrypter]()

// encrypts reports whether a saver encrypts checkpoints. A saver that implements
// [checkpoint.Encrypter] decides. A program's own struct around the saver that
// checkpoint.Encrypted returns may not have that method, so its fields are examined, too.
func encrypts(saver any) bool {
	if e, ok := saver.(checkpoint.Encrypter); ok {
		return e.Encrypts()
	}
	return holdsEncrypter(reflect.ValueOf(saver), 4)
}

// holdsEncrypter looks for an encrypter in a value and in its fields, including those that
// reflection cannot call, which it assumes to encrypt.
func holdsEncrypter(v reflect.Value, depth int) bool {
	for v.IsValid() {
		if v.Type().Implements(encrypter) {
			if v.CanInterface() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
				return v.Interface().(checkpoint.Encrypter).Encrypts()
			}
			return true
		}
		if v.Kind() != reflect.Interface && v.Kind() != reflect.Pointer {
			break
		}
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || depth == 0 {
		return false
	}
	for _, field := range v.Fields() {
		switch field.Kind() {
		case reflect.Interface, reflect.Pointer, reflect.Struct:
			if holdsEncrypter(field, depth-1) {
				return true
			}
		default:
		}
	}
	return false
}

// spanPage is a page of the spans of a run.
type spanPage struct {
	Spans     []*ledger.Span      `json:"spans"`
	Next      *string             `json:"next_cursor"`
	Recording bool                `json:"recording"` // this process stores spans
	Redacted  bool                `json:"redacted"`  // this process redacts texts before it stores them
	Omitted   ledger.SpansOmitted `json:"omitted"`
}

// maxSpanBytes is the size at which a page with contents ends.
const maxSpanBytes = 4 << 20

func (s spanAPI) list(c *call) error {
	q := c.query()
	limit, err := q.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	content, err := q.bool("content")
	if err != nil {
		return err
	}
	after, err := parseCursor(q.Get("cursor"))
	if err != nil {
		return err
	}
	run, _, err := s.runs().named(c)
	if err != nil {
		return err
	}
	page, err := s.ledger.RunSpans(c.r.Context(), run, ledger.SpanQuery{After: after, Limit: limit, Content: content, Bytes: maxSpanBytes})
	if err != nil {
		return err
	}
	if page.Spans == nil {
		page.Spans = []*ledger.Span{}
	}
	return c.json(http.StatusOK, spanPage{page.Spans, cursorOf(page.Next), s.o.Spans != nil, s.o.Spans != nil && s.o.Spans.Redact != nil, page.Omitted})
}

func (s spanAPI) get(c *call) error {
	run, _, err := s.runs().named(c)
	if err != nil {
		return err
	}
	id := c.r.PathValue("span_id")
	span, err := s.ledger.RunSpan(c.r.Context(), run, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return fail(http.StatusNotFound, "Span %s not found", id)
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, span)
}

// cursorOf encodes a position, or returns nil for nil.
func cursorOf(p *ledger.Position) *string {
	if p == nil {
		return nil
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(p.At.UnixMicro()))
	text := base64.RawURLEncoding.EncodeToString(append(b, p.ID[:]...))
	return &text
}

// parseCursor decodes a position. It returns nil for "".
func parseCursor(text string) (*ledger.Position, error) {
	if text == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+len(uuid.UUID{}) {
		return nil, invalid("cursor", "%q is not the next_cursor of a response", text)
	}
	return &ledger.Position{At: time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC(), ID: uuid.UUID(b[8:])}, nil
}
