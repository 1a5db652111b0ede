package threadtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Gzip is a codec for compressed JSON, for the suites.
type Gzip struct{}

// Name implements [checkpoint.Codec].
func (Gzip) Name() string { return "gzip/1" }

// Marshal implements [checkpoint.Codec].
func (Gzip) Marshal(v any) ([]byte, error) {
	raw, err := checkpoint.JSON{}.Marshal(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err = w.Write(raw); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// Unmarshal implements [checkpoint.Codec]. A few bytes can decompress to gigabytes, so it
// limits how much it reads.
func (Gzip) Unmarshal(data []byte, v any) error {
	const limit = 1 << 20
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

// codecBits writes text verbatim, which JSON cannot do, and inverts all bits.
type codecBits struct{}

func (codecBits) Name() string { return "bits/1" }

func (codecBits) Marshal(v any) ([]byte, error) {
	if s, ok := v.(string); ok {
		return codecFlip([]byte("s" + s)), nil
	}
	raw, err := checkpoint.JSON{}.Marshal(v)
	return codecFlip(append([]byte("j"), raw...)), err
}

func (codecBits) Unmarshal(data []byte, v any) error {
	raw := codecFlip(data)
	s, ok := v.(*string)
	switch {
	case len(raw) > 0 && raw[0] == 's' && ok:
		*s = string(raw[1:])
		return nil
	case len(raw) > 0 && raw[0] == 'j':
		return checkpoint.JSON{}.Unmarshal(raw[1:], v)
	}
	return fmt.Errorf("no %T was written here", v)
}

func codecFlip(data []byte) []byte {
	out := make([]byte, len(data))
	for i, b := range data {
		out[i] = ^b
	}
	return out
}

// codecPanics panics in Marshal.
type codecPanics struct{ codecBits }

func (codecPanics) Marshal(any) ([]byte, error) { panic("at the disco") }

// Codecs is the suite for threads whose values are not saved as JSON.
var Codecs = Suite{
	{"EverythingGoesThroughIt", concurrent, codecEverything},
	{"OneAfterTheOther", sequential, codecChanges},
	{"Unknown", sequential, codecUnknown},
	{"BadNames", sequential, func(t *testing.T, _ func(*testing.T) checkpoint.Saver) { codecNames(t) }},
	{"Panic", sequential, codecPanic},
	{"Limits", sequential, codecLimits},
	{"InvalidText", sequential, codecText},
	{"OldListAsSlice", sequential, codecSlice},
}

type (
	codecState struct {
		Text string              `json:"text"`
		Pad  string              `json:"pad"`
		Log  reduce.List[string] `json:"log"`
		Keep string              `json:"keep" treadle:"untracked"`
	}
	codecWritten struct{ Text string }
	codecSent    struct{ Text, Keep string }
)

// codecGraph returns a graph that interrupts while a sibling has finished and an input is
// pending, and that has a subgraph.
func codecGraph(t *testing.T, saver checkpoint.Saver, codecs ...checkpoint.Codec) *treadle.Thread[codecState, codecState] {
	t.Helper()
	w := &kitWorld{}
	inner := treadle.New[codecState]("inner")
	treadle.AddNode(inner, "say", func(context.Context, codecState) (kitLog, error) { return kitSay("secret say"), nil })
	treadle.AddNode(inner, "ask", func(ctx context.Context, _ codecState) (kitLog, error) {
		answer, err := treadle.Interrupt[string](ctx, "inner?")
		return kitSay("secret " + answer), err
	})
	inner.Sequence(treadle.Start, "say", "ask")
	nested, err := inner.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := treadle.New[codecState]("codecs")
	treadle.AddNode(b, "begin", func(context.Context, codecState) (treadle.Goto, error) {
		return treadle.Send("take", codecSent{"secret sent", "not kept"}), nil
	}, treadle.Additive())
	treadle.AddNode(b, "take", func(_ context.Context, in codecSent) (kitLog, error) {
		return kitSay(in.Text + "|" + in.Keep), nil
	})
	treadle.AddNode(b, "write", func(ctx context.Context, _ codecState) (codecWritten, error) {
		return codecWritten{"secret written"}, w.enter(ctx, "write")
	})
	treadle.AddGraph(b, "inner", nested)
	b.Sequence(treadle.Start, "begin", "inner")
	b.Edge("begin", "write")
	g, err := b.Compile(&treadle.Options{Saver: saver, Codecs: codecs})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

func codecEverything(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	want := codecState{Text: "secret written", Pad: "secret pad", Log: reduce.List[string]{"secret given", "secret say", "secret answer", "secret sent|not kept"}}
	for _, codec := range []checkpoint.Codec{Gzip{}, codecBits{}} {
		t.Run(codec.Name(), func(t *testing.T) {
			tape := &goldenTape{Memory: checkpoint.NewMemory()}
			saver := open(t)
			for _, s := range []checkpoint.Saver{tape, saver} {
				th := codecGraph(t, s, codec)
				_, err := th.Run(t.Context(), codecState{Pad: "secret pad", Log: reduce.List[string]{"secret given"}, Keep: "not kept"})
				kitAsked(t, err, "inner?")
				th = codecGraph(t, s, codec)
				out, err := th.Resume(t.Context(), "answer")
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want, out); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
			if text := goldenText(tape.ops); strings.Contains(text, "secret") {
				t.Errorf("there is something in it that the codec did not write:\n%s", text)
			}
		})
	}
}

// codecChanges starts a thread with one codec, continues it with a second, and finishes
// it with a third; its list then has elements written by all of them.
func codecChanges(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	versions := [][]checkpoint.Codec{nil, {Gzip{}}, {codecBits{}, Gzip{}}, {checkpoint.JSON{}, Gzip{}, codecBits{}}}
	var want []string
	for i, codecs := range versions {
		th := codecChain(t, saver, codecs...)
		want = append(want, fmt.Sprint("turn ", i), "ran")
		out, err := th.Run(t.Context(), kitState{N: i, Log: kitSay(fmt.Sprint("turn ", i)).Log})
		if err != nil || !slices.Equal(out.Log, want) {
			t.Fatalf("turn %d: %q, %v; want %q", i, out.Log, err, want)
		}
	}
	cp, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t"})
	if err != nil {
		t.Fatal(err)
	}
	var marks []string
	for _, item := range cp.Values["log"].Items {
		marks = append(marks, string(item[:min(8, len(item))]))
	}
	if want := []string{`"turn 0"`, `"ran"`, "\x00\x06gzip/1", "\x00\x06gzip/1", "\x00\x06bits/1", "\x00\x06bits/1", `"turn 3"`, `"ran"`}; !slices.EqualFunc(marks, want, strings.HasPrefix) {
		t.Errorf("elements begin with %q, want %q", marks, want)
	}
}

// codecChain returns a graph with one node that logs "ran".
func codecChain(t *testing.T, saver checkpoint.Saver, codecs ...checkpoint.Codec) *kitThread {
	t.Helper()
	b := treadle.New[kitState]("chain")
	treadle.AddNode(b, "a", func(context.Context, kitState) (kitLog, error) { return kitSay("ran"), nil })
	b.Edge(treadle.Start, "a")
	g, err := b.Compile(&treadle.Options{Saver: saver, Codecs: codecs})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("t")
}

func codecUnknown(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := codecChain(t, saver, Gzip{}).Run(t.Context(), kitState{N: 7}); err != nil {
		t.Fatal(err)
	}
	before := kitHistory(t, codecChain(t, saver, Gzip{}))
	for _, codecs := range [][]checkpoint.Codec{nil, {codecBits{}}} {
		th := codecChain(t, saver, codecs...)
		_, runErr := th.Run(t.Context(), kitState{})
		_, stateErr := th.State(t.Context())
		for _, err := range []error{runErr, stateErr} {
			e, ok := errors.AsType[*checkpoint.CodecError](err)
			if !ok {
				t.Fatalf("%v, want a CodecError", err)
			}
			known := []string{"json"}
			if codecs != nil {
				known = []string{"bits/1", "json"}
			}
			if d := cmp.Diff(checkpoint.CodecError{Field: "n", Codec: "gzip/1", Known: known}, *e); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if !strings.Contains(err.Error(), `thread "t"`) {
				t.Errorf("%v does not name the thread", err)
			}
		}
	}
	kitAppended(t, codecChain(t, saver, Gzip{}), before)
}

type codecNamed struct {
	codecBits
	name string
}

func (c codecNamed) Name() string { return c.name }

func codecNames(t *testing.T) {
	for name, codecs := range map[string][]checkpoint.Codec{
		"nil":      {nil},
		"no name":  {codecNamed{}},
		"too long": {codecNamed{name: strings.Repeat("x", 65)}},
		"twice":    {Gzip{}, codecNamed{name: "gzip/1"}},
	} {
		b := treadle.New[kitState]("names")
		treadle.AddNode(b, "a", func(context.Context, kitState) (kitLog, error) { return kitLog{}, nil })
		b.Edge(treadle.Start, "a")
		_, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory(), Codecs: codecs})
		if _, ok := errors.AsType[*treadle.BuildError](err); !ok {
			t.Errorf("%s: %v, want a BuildError", name, err)
		}
	}
}

func codecPanic(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	_, err := codecChain(t, open(t), codecPanics{}).Run(t.Context(), kitState{N: 1})
	if err == nil || !strings.Contains(err.Error(), "field n") || !strings.Contains(err.Error(), "at the disco") {
		t.Errorf("%v, want the panic and the field", err)
	}
}

// codecNest is a value that can nest to any depth.
type codecNest []codecNest

func codecLimits(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type state struct {
		Tree codecNest              `json:"tree"`
		List reduce.List[codecNest] `json:"list"`
		Text string                 `json:"text"`
	}
	deep := func(n int) codecNest {
		out := codecNest{}
		for range n - 1 {
			out = codecNest{out}
		}
		return out
	}
	small := []checkpoint.Codec{checkpoint.JSON{MaxDepth: 5, MaxBytes: 50}}
	for _, test := range []struct {
		name   string
		codecs []checkpoint.Codec
		in     state
		want   *checkpoint.LimitError
	}{
		{"the deepest", nil, state{Tree: deep(9900)}, nil},
		{"too deep to be read again", nil, state{Tree: deep(9901)}, &checkpoint.LimitError{Field: "tree", Depth: true, Limit: 9900, Got: 9901}},
		{"too deep in a list", nil, state{List: reduce.List[codecNest]{deep(9901)}}, &checkpoint.LimitError{Field: "list", Depth: true, Limit: 9900, Got: 9901}},
		{"deep", small, state{Tree: deep(5)}, nil},
		{"too deep", small, state{Tree: deep(6)}, &checkpoint.LimitError{Field: "tree", Depth: true, Limit: 5, Got: 6}},
		{"brackets in a text", small, state{Text: `[[[[[[\"[[[[`}, nil},
		{"long", small, state{Text: strings.Repeat("x", 48)}, nil},
		{"too long", small, state{Text: strings.Repeat("x", 49)}, &checkpoint.LimitError{Field: "text", Limit: 50, Got: 51}},
		{"a long list", small, state{List: slices.Repeat(reduce.List[codecNest]{deep(5)}, 100)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			saver := open(t)
			graph := func(codecs ...checkpoint.Codec) *treadle.Thread[state, state] {
				b := treadle.New[state]("limits")
				treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
				b.Edge(treadle.Start, "a")
				g, err := b.Compile(&treadle.Options{Saver: saver, Codecs: codecs})
				if err != nil {
					t.Fatal(err)
				}
				return g.Thread("t")
			}
			_, err := graph(test.codecs...).Run(t.Context(), test.in)
			if test.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := graph(test.codecs...).State(t.Context()); err != nil {
					t.Errorf("it is not read again: %v", err)
				}
				return
			}
			if e, ok := errors.AsType[*checkpoint.LimitError](err); !ok || *e != *test.want {
				t.Errorf("%v, want %v", err, test.want)
			}
			if _, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t"}); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("%v, want nothing to be stored", err)
			}
			if test.codecs == nil {
				return
			}
			// Data saved with another codec is rejected too.
			if _, err := graph().Run(t.Context(), test.in); err != nil {
				t.Fatal(err)
			}
			_, err = graph(test.codecs...).State(t.Context())
			if e, ok := errors.AsType[*checkpoint.LimitError](err); !ok || *e != *test.want {
				t.Errorf("read: %v, want %v", err, test.want)
			}
		})
	}
}

// codecText checks text that is not valid UTF-8: JSON cannot represent it, but other
// codecs can.
func codecText(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	const text = "a\xffb\x00"
	for _, test := range []struct {
		codecs []checkpoint.Codec
		want   string
	}{{nil, "a\ufffdb\x00"}, {[]checkpoint.Codec{codecBits{}}, text}} {
		saver := open(t)
		if _, err := codecChain(t, saver, test.codecs...).Run(t.Context(), kitState{Log: kitSay(text).Log}); err != nil {
			t.Fatal(err)
		}
		out, err := codecChain(t, saver, test.codecs...).Run(t.Context(), kitState{})
		if err != nil || out.Log[0] != test.want {
			t.Errorf("%q, %v; want %q", out.Log[0], err, test.want)
		}
	}
}

// codecSlice checks a list that becomes a plain slice in a later version, and then a Set,
// which only JSON can decode from a list.
func codecSlice(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	if _, err := codecChain(t, saver, Gzip{}).Run(t.Context(), kitState{}); err != nil {
		t.Fatal(err)
	}
	type state struct {
		N   int      `json:"n"`
		Log []string `json:"log"`
	}
	b := treadle.New[state]("chain")
	treadle.AddNode(b, "a", func(_ context.Context, s state) (struct{ N int }, error) { return struct{ N int }{len(s.Log)}, nil })
	b.Edge(treadle.Start, "a")
	g, err := b.Compile(&treadle.Options{Saver: saver, Codecs: []checkpoint.Codec{Gzip{}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread("t").Run(t.Context(), state{})
	if err != nil || out.N != 1 || !slices.Equal(out.Log, []string{"ran"}) {
		t.Errorf("%+v, %v", out, err)
	}
}
