package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// A Place stores threads: open returns a saver for it, and on the second call a saver
// that has seen only saved data.
type Place func(t *testing.T) (open func() checkpoint.Saver)

// Values is the suite for the values that a field can hold: after a restart, it holds the
// same value as before, as a field, as a list element, and as a node's input. It tests
// one in every n kinds of values. The codecs are the graph's codecs.
func Values(t *testing.T, at Place, n int, codecs ...checkpoint.Codec) {
	for i, c := range []valueCase{
		values("Time", time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.FixedZone("CET", 3600)), time.Now(), time.Time{},
			time.Unix(0, 1).UTC(), time.Date(9999, 12, 31, 0, 0, 0, 0, time.FixedZone("", -8*3600-30*60))),
		values("Duration", 0, time.Nanosecond, -time.Hour, math.MaxInt64*time.Nanosecond),
		values("Number", json.Number("0"), json.Number("12345678901234567890.125"), json.Number("-1e400")),
		values("BigInt", *new(big.Int).Lsh(big.NewInt(3), 200), *big.NewInt(-5), big.Int{}),
		values("BigIntPointer", new(big.Int).Lsh(big.NewInt(3), 200), nil),
		values("StructOfBigInt", valueMoney{Amount: *big.NewInt(12)}, valueMoney{}),
		values("Bytes", []byte("plain"), []byte{0, 255, 128}, []byte{}, nil),
		values("StringEnum", valueColor("red"), valueColor("")),
		values("IntEnum", valueLevel(0), valueLevel(-3)),
		values("TextEnum", valueSuit(0), valueSuit(3)),
		values("Pointer", new(7), new(0), nil),
		values("PointerToPointer", new(new("x")), nil),
		values("Nested", valueNested{"a", []valueNested{{Name: "b", Children: []valueNested{}}, {}}, &valueNested{Name: "c"}, map[string]valueNested{"d": {}}}, valueNested{}),
		values("Embedded", valueEmbedding{valueEmbedded{1, "in"}, &ValueDeeper{"deep"}, "out"}, valueEmbedding{}),
		values("IntKeys", map[int]string{-1: "a", 0: "", 7: "b"}, map[int]string{}, nil),
		values("UintKeys", map[uint8]bool{255: true}),
		values("EnumKeys", map[valueLevel]valueColor{3: "red"}),
		values("TextKeys", map[netip.Addr]int{netip.MustParseAddr("::1"): 1, netip.MustParseAddr("10.0.0.1"): 2}, map[netip.Addr]int{}),
		values("TextMarshaler", netip.MustParsePrefix("10.0.0.0/8"), netip.Prefix{}),
		values("JSONMarshaler", valueSecret{"shh"}, valueSecret{}),
		values("PointerMarshaler", valueShy{"hidden"}, valueShy{}),
		values("Slice", []int{1, 2}, []int{}, nil),
		values("SliceOfSlices", [][]string{nil, {}, {"", "a"}}),
		values("Array", [3]int{1, 0, 3}),
		values("Map", map[string][]int{"": nil, "a": {}, "b": {1}}, map[string][]int{}, nil),
		values("String", "", "é 漢字 👩‍🚀 e\u0301", "\x00", "\u2028<&>\"\\\b\f\n", "\ufffd", strings.Repeat("long ", 10_000)),
		values("Float", 0.1, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1), -1e21),
		values("Integer", int64(math.MaxInt64), int64(math.MinInt64)),
		values("Unsigned", uint64(math.MaxUint64)),
		values("RawMessage", json.RawMessage(`{"a":[1,2.50]}`), json.RawMessage(`null`)),
	} {
		if i%n == 0 {
			t.Run(c.name, func(t *testing.T) { c.run(t, at, codecs) })
		}
	}
}

type (
	valueCase struct {
		name string
		run  func(t *testing.T, at Place, codecs []checkpoint.Codec)
	}
	valueColor  string
	valueLevel  int
	valueSuit   int
	valueNested struct {
		Name     string
		Children []valueNested
		Next     *valueNested           `json:"next,omitempty"`
		By       map[string]valueNested `json:"by"`
	}
	// ValueDeeper is exported, as encoding/json requires of an embedded pointer.
	ValueDeeper   struct{ Deep string }
	valueEmbedded struct {
		N    int
		Name string `json:"inner"`
	}
	valueEmbedding struct {
		valueEmbedded
		*ValueDeeper
		Name string
	}
	valueMoney  struct{ Amount big.Int }
	valueSecret struct{ text string }
	valueShy    struct{ text string }
)

func (s valueSuit) MarshalText() ([]byte, error) { return []byte("suit-" + fmt.Sprint(int(s))), nil }
func (s *valueSuit) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "suit-%d", (*int)(s))
	return err
}

func (s valueSecret) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"secret": s.text})
}

func (s *valueSecret) UnmarshalJSON(raw []byte) error {
	var m map[string]string
	err := json.Unmarshal(raw, &m)
	s.text = m["secret"]
	return err
}

// MarshalJSON, like UnmarshalJSON, has a pointer receiver, so encoding/json calls it only
// for addressable values.
func (s *valueShy) MarshalJSON() ([]byte, error)   { return json.Marshal(s.text) }
func (s *valueShy) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &s.text) }

type (
	valueState[T any] struct {
		V    T              `json:"v"`
		List reduce.List[T] `json:"list"`
		Took reduce.List[T] `json:"took"`
	}
	valueWritten[T any] struct {
		V    T
		List reduce.List[T]
		To   treadle.Goto
	}
	valueSent[T any] struct{ In T }
	valueTook[T any] struct{ Took reduce.List[T] }
)

// valueGraph returns a graph that writes a value and sends it to a node, and stops before
// that node.
func valueGraph[T any](t *testing.T, saver checkpoint.Saver, codecs []checkpoint.Codec, v T, all []T) *treadle.Graph[valueState[T], valueState[T]] {
	t.Helper()
	b := treadle.New[valueState[T]]("values")
	treadle.AddNode(b, "write", func(context.Context, struct{}) (valueWritten[T], error) {
		return valueWritten[T]{v, all, treadle.Send("take", valueSent[T]{v})}, nil
	})
	treadle.AddNode(b, "take", func(_ context.Context, in valueSent[T]) (valueTook[T], error) {
		return valueTook[T]{reduce.List[T]{in.In}}, nil
	})
	b.Edge(treadle.Start, "write")
	g, err := b.Compile(&treadle.Options{Saver: saver, Codecs: codecs, Before: []any{"take"}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func values[T any](name string, all ...T) valueCase {
	return valueCase{name, func(t *testing.T, at Place, codecs []checkpoint.Codec) {
		open := at(t)
		saver := open()
		var before []valueState[T]
		for i, v := range all {
			out, err := valueGraph(t, saver, codecs, v, all).Thread(fmt.Sprint(t.Name(), i)).Run(t.Context(), valueState[T]{})
			if _, stopped := errors.AsType[*treadle.InterruptError](err); !stopped {
				t.Fatal(err)
			}
			before = append(before, out)
		}
		saver = open()
		for i, v := range all {
			th := valueGraph(t, saver, codecs, v, all).Thread(fmt.Sprint(t.Name(), i))
			var after valueState[T]
			if err := kitStateOf(t, th).State.Read(&after); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(before[i], after, valueLikeness); d != "" {
				t.Errorf("value %d (-before +after):\n%s", i, d)
			}
			out, err := th.Continue(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(reduce.List[T]{v}, out.Took, valueLikeness); d != "" {
				t.Errorf("value %d as an input (-sent +taken):\n%s", i, d)
			}
		}
	}}
}

// valueLikeness compares values. Times are equal if they are the same instant at the same
// offset; the monotonic clock reading is specific to the process.
var valueLikeness = cmp.Options{
	cmp.Comparer(func(a, b time.Time) bool { return a.Format(time.RFC3339Nano) == b.Format(time.RFC3339Nano) }),
	cmp.Comparer(func(a, b big.Int) bool { return a.Cmp(&b) == 0 }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.AllowUnexported(valueSecret{}, valueShy{}, valueEmbedding{}),
}
