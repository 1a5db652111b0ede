package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Event is an event of a stream.
type Event struct {
	// Type is the type of the event; "message" if the stream gives none.
	Type string
	// Data has the event's lines of data, joined by newlines. It may be invalid UTF-8.
	// It is valid until the next call of [Reader.Next].
	Data []byte
	// ID is the last id in the stream, of this event or an earlier one.
	ID string
}

// ErrTooLong says that a line or an event of a stream is longer than the limit.
var ErrTooLong = errors.New("sse: a line or an event is longer than the limit")

// Reader reads events. It does not read beyond the next event, and does not allocate for
// an event with the type and id of the one before.
type Reader struct {
	src   io.Reader
	limit int
	err   error // of src: what was read before it comes first

	buf     []byte
	next    int  // where the next line begins
	scanned int  // no line ends in buf[next:scanned]
	skipLF  bool // the last line ended with CR: an LF that follows is part of that end
	begun   bool // a line was read: only the first one can begin with a byte order mark

	// The event that is being read. The data of one line stay in buf, at
	// held..heldEnd; further lines are joined in data.
	lines         int
	held, heldEnd int
	data          []byte
	typ, id       string

	lastType string // so that the same word need not be allocated again
	lastID   string
	retry    time.Duration
	retries  bool
}

const (
	firstBuffer = 4 << 10
	noProgress  = 100 // so many reads of nothing are an error, as in bufio
)

// NewReader returns a reader of a stream. If a line or the data of an event has more
// than limit bytes, [Reader.Next] fails with [ErrTooLong].
func NewReader(src io.Reader, limit int) *Reader {
	return &Reader{src: src, limit: limit}
}

// Next returns the next event. At the end of the stream the error is io.EOF. An event
// that is incomplete there is dropped, as the standard requires. After an error there
// are no more events.
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
		r.lastID = r.id
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

// LastID returns the id with which a client continues the stream: that of the last
// complete event, even if it had no data.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns how long the stream asks clients to wait before they connect again, and
// whether it asks.
func (r *Reader) Retry() (time.Duration, bool) { return r.retry, r.retries }

// line is the next line without its end. It stays in the buffer until the next
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
		// Three bytes more may be the byte order mark.
		if len(r.buf)-r.next > r.limit+3 {
			return nil, r.stop(ErrTooLong)
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// stop makes err the end of the stream.
func (r *Reader) stop(err error) error {
	r.err, r.buf, r.next, r.scanned = err, nil, 0, 0
	return err
}

// fill reads more into the buffer.
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
			return r.stop(fmt.Errorf("sse: the stream says that it has read %d bytes into %d", n, cap(r.buf)-len(r.buf)))
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

// makeRoom moves what is still needed to the front of the buffer, or into a
// larger one where that is more than half of it.
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

// field takes a line that is not empty.
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
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 63); err == nil {
			r.retry, r.retries = time.Duration(min(ms, maxRetry))*time.Millisecond, true
		}
	}
	// An empty name is a comment, and unknown ones are ignored.
	return nil
}

const maxRetry = uint64(1<<63-1) / uint64(time.Millisecond)

// addData adds a line to the event's data.
func (r *Reader) addData(value []byte) error {
	if r.lines++; r.lines == 1 {
		// The value ends where the line did: before the end of the line, which
		// is one byte as far as it has been read.
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
