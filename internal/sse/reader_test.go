package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/internal/sse"
)

// event is an [sse.Event] whose data are its own.
type event struct{ Type, Data, ID string }

// read returns all events of a stream and the error that ended it.
func read(r *sse.Reader) (events []event, err error) {
	for {
		ev, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{ev.Type, string(ev.Data), ev.ID})
	}
}

func message(data string) event { return event{Type: "message", Data: data} }

func TestReaderFollowsStandard(t *testing.T) {
	for _, test := range []struct {
		name, stream string
		want         []event
	}{
		{"nothing", "", nil},
		{"one event", "data: a\n\n", []event{message("a")}},
		{"several", "data: a\n\ndata: b\n\n", []event{message("a"), message("b")}},
		{"lines that end with CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", []event{message("a"), message("b")}},
		{"lines that end with CR", "data: a\r\rdata: b\r\r", []event{message("a"), message("b")}},
		{"all line endings together", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\n", []event{message("a\nb\nc"), message("d")}},
		{"an LF after a CR is not an empty line", "data: a\r\ndata: b\r\n\n", []event{message("a\nb")}},
		{"only one space goes", "data:a\n\ndata:  a\n\ndata: \ta\n\n", []event{message("a"), message(" a"), message("\ta")}},
		{"lines of data", "data: a\ndata\ndata: b\n\n", []event{message("a\n\nb")}},
		{"the standard's YHOO", "data: YHOO\ndata: +2\ndata: 10\n\n", []event{message("YHOO\n+2\n10")}},
		{"data that are empty", "data\n\ndata:\n\ndata\ndata\n\n", []event{message(""), message(""), message("\n")}},
		{"no data, no event", "event: a\n\nid: 1\n\ndata: b\n\n", []event{{"message", "b", "1"}}},
		{"comments", ": a\n\n:\ndata: b\n:c\ndata: d\n\n", []event{message("b\nd")}},
		{"a byte order mark", "\uFEFFdata: a\n\n", []event{message("a")}},
		{"one byte order mark only", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []event{message("b")}},
		{"a byte order mark later", "data: a\n\n\uFEFFdata: b\n\n", []event{message("a")}},
		{"types", "event: a\ndata: b\n\ndata: c\n\nevent: a\ndata: d\n\nevent:\ndata: e\n\n",
			[]event{{"a", "b", ""}, message("c"), {"a", "d", ""}, message("e")}},
		{"the last type of an event", "event: a\nevent: b\ndata: c\n\n", []event{{"b", "c", ""}}},
		{"IDs persist", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []event{{"message", "a", "1"}, {"message", "b", "1"}, message("c")}},
		{"an ID with a NUL is ignored", "id: 1\nid: a\x00b\ndata: a\n\n", []event{{"message", "a", "1"}}},
		{"names are exact", "Data: a\ndata : b\n data: c\ndatax: d\ndata: e\n\n", []event{message("e")}},
		{"colons in values", "data: {\"a\":\"b: c\"}\n\n", []event{message(`{"a":"b: c"}`)}},
		{"the end in the middle of an event", "data: a\n\ndata: b\n", []event{message("a")}},
		{"the end in the middle of a line", "data: a\n\ndata: b", []event{message("a")}},
		{"bytes that are no text", "data: \xff\n\n", []event{message("\xff")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for way, src := range map[string]io.Reader{
				"at once":              strings.NewReader(test.stream),
				"byte by byte":         iotest.OneByteReader(strings.NewReader(test.stream)),
				"with the last error":  iotest.DataErrReader(strings.NewReader(test.stream)),
				"with reads of no use": &hesitant{src: strings.NewReader(test.stream)},
			} {
				got, err := read(sse.NewReader(src, 1000))
				if d := cmp.Diff(test.want, got); d != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%s: the events end with %v (-want +got):\n%s", way, err, d)
				}
			}
		})
	}
}

// hesitant reads nothing at every other call.
type hesitant struct {
	src   io.Reader
	calls int
}

func (h *hesitant) Read(p []byte) (int, error) {
	if h.calls++; h.calls%2 == 1 {
		return 0, nil
	}
	return h.src.Read(p[:min(len(p), 3)])
}

// An event is available as soon as its last byte arrives: the reader does not read ahead.
func TestReaderDoesNotReadAhead(t *testing.T) {
	for _, stream := range []string{"data: a\n\n", "data: a\r\n\r", "data: a\r\r"} {
		src := io.MultiReader(strings.NewReader(stream), iotest.ErrReader(errors.New("read too far")))
		if ev, err := sse.NewReader(src, 100).Next(); err != nil || string(ev.Data) != "a" {
			t.Errorf("%q: the event is %q, %v", stream, ev.Data, err)
		}
	}
}

// What a server sends cannot fill the memory.
func TestReaderLimit(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, test := range map[string]struct {
		stream io.Reader
		limit  int
		want   error
	}{
		"a line at the limit":                    {strings.NewReader("data: " + long + "\n\n"), 6 + len(long), io.EOF},
		"a line beyond":                          {strings.NewReader("data: " + long + "\n\n"), 5 + len(long), sse.ErrTooLong},
		"the first line, with a byte order mark": {strings.NewReader("\uFEFFdata: " + long + "\n\n"), 6 + len(long), io.EOF},
		"a line without an end":                  {endless("x"), 1000, sse.ErrTooLong},
		"an event without an end":                {endless("data: x\n"), 1000, sse.ErrTooLong},
		"data at the limit":                      {strings.NewReader("data: abcde\ndata: abcde\n\n"), 11, io.EOF},
		"data beyond":                            {strings.NewReader("data: abcde\ndata: abcd\ndata\ndata\n\n"), 11, sse.ErrTooLong},
		"comments are no data":                   {io.LimitReader(endless(": still here\n"), 100_000), 20, io.EOF},
	} {
		r := sse.NewReader(test.stream, test.limit)
		_, err := read(r)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: the stream ends with %v, want %v", name, err, test.want)
		}
		if _, again := r.Next(); !errors.Is(again, test.want) {
			t.Errorf("%s: after %v comes %v", name, err, again)
		}
	}
}

type repeated struct {
	text string
	at   int
}

func endless(text string) io.Reader { return &repeated{text: text} }

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

func TestReaderReturnsStreamError(t *testing.T) {
	cut := errors.New("cut")
	for name, src := range map[string]io.Reader{
		"apart":         io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(cut)),
		"with the data": iotest.DataErrReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(cut))),
	} {
		r := sse.NewReader(src, 100)
		got, err := read(r)
		if d := cmp.Diff([]event{message("a")}, got); d != "" || !errors.Is(err, cut) {
			t.Errorf("%s: the events end with %v (-want +got):\n%s", name, err, d)
		}
		if _, err := r.Next(); !errors.Is(err, cut) {
			t.Errorf("%s: after the error comes %v", name, err)
		}
	}
	if _, err := sse.NewReader(idle{}, 100).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a stream that reads nothing ends with %v, want io.ErrNoProgress", err)
	}
	if _, err := sse.NewReader(liar{}, 100).Next(); err == nil {
		t.Error("a stream that reports reading more than the buffer holds was accepted")
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

type liar struct{}

func (liar) Read(p []byte) (int, error) { return len(p) + 1, nil }

// plainly implements the algorithm of the standard literally: on the whole text, line by
// line.
func plainly(stream string) (events []event) {
	stream = strings.TrimPrefix(stream, "\uFEFF")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var typ, id, data string
	for _, line := range lines[:len(lines)-1] { // the last one has no end
		if line == "" {
			if data != "" {
				if typ == "" {
					typ = "message"
				}
				events = append(events, event{typ, strings.TrimSuffix(data, "\n"), id})
			}
			typ, data = "", ""
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			typ = value
		case "data":
			data += value + "\n"
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

// pieces reads a text in pieces of given sizes, in turn.
type pieces struct {
	text  string
	sizes []byte
	n     int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	size := len(p.text)
	if len(p.sizes) > 0 {
		size = int(p.sizes[p.n%len(p.sizes)]) + 1
		p.n++
	}
	n := copy(b[:min(size, len(b))], p.text)
	p.text = p.text[n:]
	return n, nil
}

// For every stream, however it is split, the events match the standard.
func FuzzReader(f *testing.F) {
	f.Add("data: a\ndata: b\r\n\r\nevent: x\rid: 1\rdata: c\r\r", []byte{0, 2})
	f.Add("\uFEFF: hi\n\ndata\n\nretry: 5\n\nid: \x00\ndata: d\n\n", []byte{1})
	f.Add("data: "+strings.Repeat("long ", 2000)+"\n\ndata: a\n\n", []byte{255})
	f.Add("data: "+strings.Repeat("long ", 800)+"\n: c\ndata: a\n\n", []byte{})
	f.Fuzz(func(t *testing.T, stream string, sizes []byte) {
		want := plainly(stream)
		r := sse.NewReader(&pieces{text: stream, sizes: sizes}, 1<<20)
		got, err := read(r)
		if d := cmp.Diff(want, got); d != "" || !errors.Is(err, io.EOF) {
			t.Errorf("the events end with %v (-want +got):\n%s", err, d)
		}
	})
}

// tokens returns a stream as models send it.
func tokens(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-abc\",\"object\":\"chat.completion.chunk\",\"created\":1741570283,\"model\":\"gpt-5-mini\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"token %d\"},\"finish_reason\":null}]}\n\n", i)
	}
	return b.Bytes()
}

func TestReaderAllocatesNothingPerEvent(t *testing.T) {
	stream := append(tokens(500), bytes.Repeat([]byte("event: update\nid: 7\ndata: a\n\n"), 500)...)
	allocs := testing.AllocsPerRun(10, func() {
		r := sse.NewReader(bytes.NewReader(stream), 1<<20)
		n := 0
		for {
			if _, err := r.Next(); err != nil {
				break
			}
			n++
		}
		if n != 1000 {
			t.Fatalf("there are %d events", n)
		}
	})
	if allocs > 8 { // the two readers, the buffer, a type, and an ID
		t.Errorf("1000 events take %v allocations, want at most 8", allocs)
	}
}

func BenchmarkReader(b *testing.B) {
	stream := tokens(1000)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		r := sse.NewReader(bytes.NewReader(stream), 1<<20)
		for {
			if _, err := r.Next(); err != nil {
				break
			}
		}
	}
}
