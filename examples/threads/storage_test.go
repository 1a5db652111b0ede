package threads_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Gzip is a codec that compresses JSON. It limits the size of unpacked data, because
// stored data may be hostile.
type Gzip struct{}

// Name has a version, which changes with the format.
func (Gzip) Name() string { return "gzip/1" }

// Marshal implements checkpoint.Codec.
func (Gzip) Marshal(v any) ([]byte, error) {
	raw, err := checkpoint.JSON{}.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Unmarshal implements checkpoint.Codec.
func (Gzip) Unmarshal(data []byte, v any) error {
	const limit = 16 << 20
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	return checkpoint.JSON{MaxBytes: limit}.Unmarshal(raw, v)
}

// Book is a state with a long text.
type Book struct{ Text string }

func book(o *treadle.Options) *treadle.Graph[Book, Book] {
	b := treadle.New[Book]("book")
	treadle.AddNode(b, "read", func(context.Context, Book) (treadle.Update, error) { return nil, nil })
	b.Edge(treadle.Start, "read")
	return treadle.Must(b.Compile(o))
}

// A codec encodes saved values. A thread that was started without it continues with it,
// because every value names its codec.
func Example_codec() {
	ctx := context.Background()
	saver := checkpoint.NewMemory()
	text := strings.Repeat("All work and no play. ", 1000)
	stored := func() int {
		cp, err := saver.Get(ctx, checkpoint.Key{Thread: "1"})
		if err != nil {
			fmt.Println(err)
			return 0
		}
		return len(cp.Values["Text"].Data)
	}

	plain := book(&treadle.Options{Saver: saver})
	if _, err := plain.Thread("1").Run(ctx, Book{text}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("as JSON:", stored())

	small := book(&treadle.Options{Saver: saver, Codecs: []checkpoint.Codec{Gzip{}}})
	out, err := small.Thread("1").Continue(ctx)
	fmt.Println("read:", len(out.Text), err)
	if _, err := small.Thread("1").Run(ctx, Book{text}); err != nil {
		fmt.Println(err)
	}
	fmt.Println("compressed:", stored() < 1000)

	_, err = book(&treadle.Options{Saver: saver}).Thread("1").State(ctx)
	unknown, ok := errors.AsType[*checkpoint.CodecError](err)
	fmt.Println(ok, unknown)
	// Output:
	// as JSON: 22002
	// read: 22000 <nil>
	// compressed: true
	// true field Text: value encoded with codec "gzip/1", but the graph lists only json: add the codec to Options.Codecs
}

// The logger is warned when a thread reaches Options.SizeWarning, and each time the size
// has doubled. Nothing is deleted until the thread is pruned.
func Example_sizeWarning() {
	ctx := context.Background()
	saver := checkpoint.NewMemory()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "bytes" {
			return slog.Attr{}
		}
		return a
	}}))
	thread := book(&treadle.Options{Saver: saver, SizeWarning: 10_000, Logger: logger}).Thread("1")
	for i := range 20 {
		if _, err := thread.Run(ctx, Book{strings.Repeat(fmt.Sprint(i), 1000)}); err != nil {
			fmt.Println(err)
		}
	}
	removed, err := saver.Prune(ctx, "1", checkpoint.Retention{KeepLast: 1})
	fmt.Println(removed > 0, err)
	size, err := saver.Size(ctx, "1")
	fmt.Println(size < 10_000, err)
	// Output:
	// level=WARN msg="treadle: large thread: prune it, keep large values elsewhere, or raise Options.SizeWarning" graph=book thread=1 next_warning_at=20000
	// level=WARN msg="treadle: large thread: prune it, keep large values elsewhere, or raise Options.SizeWarning" graph=book thread=1 next_warning_at=40000
	// level=WARN msg="treadle: large thread: prune it, keep large values elsewhere, or raise Options.SizeWarning" graph=book thread=1 next_warning_at=80000
	// true <nil>
	// true <nil>
}
