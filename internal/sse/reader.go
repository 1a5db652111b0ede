package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Event is an event in a stream.
type Event struct {
	// Type is the event type; "message" if the stream does not set it.
	Type string
	// Data contains the event's data lines, joined by newlines. It may contain invalid
	// UTF-8. It is valid until the next call of [Reader.Next].
	Data []byte
	// ID is the last ID in the stream, from this event or an earlier one.
	ID string
}

// ErrTooLong is returned when a line or an event exceeds the limit.
var ErrTooLong = errors.New("sse: line or event exceeds the limit")

// Reader reads events. It does not read beyond the next event, and it does not allocate
// for an event whose type and ID equal those of the previous event.
type Reader struct {
	src   io.Reader
	limit int
	err   error // from src; data read before it is returned first

	buf     []byte
	next    int  // start of the next line
	scanned int  // no line ends in buf[next:scanned]
	skipLF  bool // the last line ended with CR; a following LF is part of its end
	begun   bool // a line was read; only the first line can start with a byte order mark

	// The event being read. A single data line stays in buf, at held..heldEnd; further
	// lines are joined in data.
	lines         int
	held, heldEnd int
	data          []byte
	typ, id       string

	lastType string // reused to avoid allocating equal strings
}

const (
	firstBuffer = 4 << 10
	noProgress  = 100 // number of empty reads that cause an error, as in bufio
)

// NewReader returns a reader for a stream. [Reader.Next] returns [ErrTooLong] if a line
// or the data of an event exceeds limit bytes.
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, limit: limit}
}

// Next returns the next event. At the end of the stream, it returns io.EOF and drops an
// incomplete event, as the standard requires. After an error, it returns no more events.
func (r *Reader) Next() (Event, error) {
	r.lines, r.typ = 0, ""
	for {
		line, err := r.line()
		if err != nil {
			r.lines = 0
			return Event{}, err
		}
		if len(line) > 0 {
			if err := r.field(line); err != nil {
				return Event{}, r.stop(err)
			}
			continue
		}
		if r.lines == 0 {
			r.typ = ""
			continue
		}
		ev := Event{Type: r.typ, Data: r.buf[r.held:r.heldEnd:r.heldEnd], ID: r.id}
		if r.lines > 1 {
			ev.Data = r.data
		}
		if ev.Type == "" {
			ev.Type = "message"
		}
		return ev, nil
	}
}

// line returns the next line without its line ending. The result is valid until the next
// line is read.
func (r *Reader) line() ([]byte, error) {
	for {
		if r.skipLF && r.next < len(r.buf) {
			r.skipLF = false
			if r.buf[r.next] == '\n' {
				r.next++
			}
			r.scanned = max(r.scanned, r.next)
		}
		fresh := r.buf[r.scanned:]
		end := bytes.IndexByte(fresh, '\n')
		if end >= 0 {
			fresh = fresh[:end]
		}
		if cr := bytes.IndexByte(fresh, '\r'); cr >= 0 {
			end = cr
			r.skipLF = true
		}
		if end >= 0 {
			line := r.buf[r.next : r.scanned+end]
			r.next = r.scanned + end + 1
			r.scanned = r.next
			if !r.begun {
				r.begun = true
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			if len(line) > r.limit {
				return nil, r.stop(ErrTooLong)
			}
			return line, nil
		}
		r.scanned = len(r.buf)
		// Three more bytes may be the byte order mark.
		if len(r.buf)-r.next > r.limit+3 {
			return nil, r.stop(ErrTooLong)
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// stop ends the stream with err.
func (r *Reader) stop(err error) error {
	r.err = err
	r.buf = nil
	r.next = 0
	r.scanned = 0
	return err
}

// fill reads more data into the buffer.
func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if len(r.buf) == cap(r.buf) {
		r.makeRoom()
	}
	for range noProgress {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		if n < 0 || n > cap(r.buf)-len(r.buf) {
			return r.stop(fmt.Errorf("sse: stream reported reading %d bytes into a buffer of %d", n, cap(r.buf)-len(r.buf)))
		}
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// makeRoom moves the data that is still needed to the front of the buffer, or to a larger
// buffer if it fills more than half of this one.
func (r *Reader) makeRoom() {
	first := r.next
	if r.lines == 1 {
		first = r.held
	}
	kept := r.buf[first:]
	to := r.buf[:0]
	if len(kept) > cap(r.buf)/2 || cap(r.buf) == 0 {
		to = make([]byte, 0, max(firstBuffer, 2*cap(r.buf)))
	}
	r.buf = append(to, kept...)
	r.next -= first
	r.scanned -= first
	r.held -= first
	r.heldEnd -= first
}

// field processes a non-empty line.
func (r *Reader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		return r.addData(value)
	case "event":
		if string(value) != r.lastType {
			r.lastType = string(value)
		}
		r.typ = r.lastType
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != r.id {
			r.id = string(value)
		}
	}
	// An empty name marks a comment; other names, such as retry, are ignored.
	return nil
}

// addData adds a line to the event's data.
func (r *Reader) addData(value []byte) error {
	r.lines++
	if r.lines == 1 {
		// The value ends where the line did: before the line ending, of which one byte
		// has been read so far.
		r.heldEnd = r.next - 1
		r.held = r.heldEnd - len(value)
		return nil
	}
	if r.lines == 2 {
		r.data = append(r.data[:0], r.buf[r.held:r.heldEnd]...)
	}
	if len(r.data)+1+len(value) > r.limit {
		return ErrTooLong
	}
	r.data = append(append(r.data, '\n'), value...)
	return nil
}
