package reduce

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A version is a list as held by a checkpoint, with its expected contents.
type version struct {
	val  []int
	acc  any
	want []int
}

// model contains every version of a list ever created. Versions are never
// dropped, because the test checks that later ones do not change them.
type model struct {
	versions []version
	next     int // elements are numbered, so that a misplaced one shows
}

func (m *model) pick(t *rapid.T) version {
	return m.versions[rapid.IntRange(0, len(m.versions)-1).Draw(t, "version")]
}

// newest returns the newest version. It is picked often, because a run
// continues from its last version.
func (m *model) newest() version { return m.versions[len(m.versions)-1] }

func (m *model) items(t *rapid.T) []int {
	// Leave spare capacity, as a node's own slice may have.
	items := make([]int, rapid.IntRange(0, 5).Draw(t, "items"), 8)
	for i := range items {
		m.next++
		items[i] = m.next
	}
	return items
}

// add appends to v, and then modifies the update as a caller may.
func (m *model) add(v version, items []int) {
	want := slices.Concat(v.want, items)
	val, acc := Append(v.val, v.acc, items, true)
	for i := range items {
		items[i] = -1
	}
	_ = append(items, -1)
	m.versions = append(m.versions, version{val, acc, want})
}

func (m *model) check(t *rapid.T) {
	for i, v := range m.versions {
		if !slices.Equal(v.val, v.want) {
			t.Fatalf("version %d: got %v, want %v", i, v.val, v.want)
		}
		if cap(v.val) != len(v.val) {
			t.Fatalf("version %d: spare capacity for %d elements after its %d", i, cap(v.val)-len(v.val), len(v.val))
		}
	}
}

func TestAppendKeepsOtherVersions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{versions: []version{{}}}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) { m.add(m.newest(), m.items(t)) },
			"fork":   func(t *rapid.T) { m.add(m.pick(t), m.items(t)) },
			"append to itself": func(t *rapid.T) {
				if v := m.pick(t); len(v.val) < 200 {
					want := slices.Concat(v.want, v.want)
					val, acc := Append(v.val, v.acc, v.val, true)
					m.versions = append(m.versions, version{val, acc, want})
				}
			},
			"speculative append": func(t *rapid.T) {
				v, items := m.pick(t), m.items(t)
				want := slices.Concat(v.want, items)
				val, acc := Append(v.val, v.acc, items, false)
				// A speculative value can be continued like any version: a task
				// may write a list twice.
				m.versions = append(m.versions, version{val, acc, want})
			},
			"overwrite": func(t *rapid.T) {
				// The stale acc must not count.
				items := slices.Clip(m.items(t))
				m.versions = append(m.versions, version{items, m.pick(t).acc, slices.Clone(items)})
			},
			"overwrite with a prefix": func(t *rapid.T) {
				v := m.pick(t)
				n := rapid.IntRange(0, len(v.val)).Draw(t, "length")
				m.versions = append(m.versions, version{v.val[:n:n], v.acc, v.want[:n:n]})
			},
			"append by reader": func(t *rapid.T) { _ = append(m.pick(t).val, -1) },
			"":                 m.check,
		})
	})
}

// Forks race for one tail while readers read the existing elements. The race
// detector checks that no fork writes to memory that another goroutine reads.
func TestOneRacingForkKeepsTail(t *testing.T) {
	const forks, rounds = 8, 200
	for round := range rounds {
		base := make([]int, 1+round%7)
		for i := range base {
			base[i] = i
		}
		val, acc := Append(nil, nil, base, true)
		if room := len(acc.(*tail[int]).arr) - len(val); room < 1 {
			t.Fatalf("round %d: tail without spare room", round)
		}
		results := make([]version, forks)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for i := range forks {
			wg.Go(func() {
				<-start
				v := &results[i]
				v.want = slices.Concat(base, []int{1000 + i})
				v.val, v.acc = Append(val, acc, []int{1000 + i}, true)
				for range 3 { // the winner continues in place, the losers in their copies
					v.want = append(v.want, 2000+i)
					v.val, v.acc = Append(v.val, v.acc, []int{2000 + i}, true)
				}
			})
			wg.Go(func() {
				<-start
				if !slices.Equal(val, base) {
					t.Errorf("round %d: reader got %v, want %v", round, val, base)
				}
			})
		}
		close(start)
		wg.Wait()
		kept := 0
		for i, v := range results {
			if !slices.Equal(v.val, v.want) {
				t.Errorf("round %d: fork %d: got %v, want %v", round, i, v.val, v.want)
			}
			if &v.val[0] == &val[0] {
				kept++
			}
		}
		if !slices.Equal(val, base) {
			t.Errorf("round %d: base version changed to %v, want %v", round, val, base)
		}
		// The winner may have moved to a larger tail since.
		if kept > 1 {
			t.Errorf("round %d: %d forks share the tail", round, kept)
		}
		if acc.(*tail[int]).used.Load() <= int64(len(base)) {
			t.Errorf("round %d: no fork used the spare room", round)
		}
	}
}

func TestAppendIsAmortized(t *testing.T) {
	const n = 100_000
	var val []int
	var acc any
	copied, tails := 0, 0
	for i := range n {
		before := acc
		val, acc = Append(val, acc, []int{i}, true)
		if acc != before {
			tails++
			copied += len(val) - 1
		}
		if tails > 20 {
			t.Fatalf("%d appends needed %d arrays: spare room does not grow with the list", i+1, tails)
		}
	}
	if len(val) != n {
		t.Fatalf("got %d elements, want %d", len(val), n)
	}
	if copied > 2*n {
		t.Errorf("%d appends copied %d elements, want at most %d", n, copied, 2*n)
	}
}

// With spare room, an append allocates nothing, and a speculative append
// allocates only its copy. If the speculative append claimed the room, the next
// append would have to copy the list as well.
func TestSpeculativeAppendKeepsTail(t *testing.T) {
	val, acc := Append(nil, nil, make([]int, 10_000), true)
	tail := acc
	item := []int{1}
	commit := testing.AllocsPerRun(100, func() { val, acc = Append(val, acc, item, true) })
	if commit != 0 {
		t.Errorf("append with spare room: %v allocations, want 0", commit)
	}
	both := testing.AllocsPerRun(100, func() {
		Append(val, acc, item, false)
		val, acc = Append(val, acc, item, true)
	})
	if both != 1 {
		t.Errorf("speculative append and append: %v allocations, want 1 for the copy", both)
	}
	if acc != tail {
		t.Error("list moved despite spare room")
	}
}

func TestListReducerKeepsType(t *testing.T) {
	type names []string
	var r Appender = Appending[names, string]{}
	start, ok := r.Start()
	if val, isNames := start.(names); !ok || !isNames || val != nil {
		t.Fatalf("got start %#v, %v; want an empty list", start, ok)
	}
	var val, acc any
	for _, u := range []names{{"a"}, nil, {"b", "c"}} {
		var err error
		if val, acc, err = r.Reduce(val, acc, u, true); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(names{"a", "b", "c"}, val); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if r.Len(val) != 3 || r.At(val, 1) != "b" {
		t.Errorf("length %d, element 1 %v; want 3 and b", r.Len(val), r.At(val, 1))
	}
}

func TestListBuild(t *testing.T) {
	r := Appending[[]int, int]{}
	val, err := r.Build(3, func(i int, elem any) error {
		*elem.(*int) = i * i
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 4}, val); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	bad := errors.New("bad element")
	if val, err := r.Build(2, func(int, any) error { return bad }); !errors.Is(err, bad) || val != nil {
		t.Errorf("with an invalid element: %v, %v; want no list and %v", val, err, bad)
	}
}

func TestFuncReducer(t *testing.T) {
	bad := errors.New("odd")
	add := Func[int, int]{Fn: func(a, b int) (int, error) {
		if b%2 != 0 {
			return 0, bad
		}
		return a + b, nil
	}}
	if val, ok := add.Start(); val != 0 || !ok {
		t.Errorf("got start %v, %v; want 0", val, ok)
	}
	if val, _, err := add.Reduce(nil, nil, 2, true); val != 2 || err != nil {
		t.Errorf("nil + 2 = %v, %v; want 2", val, err)
	}
	if val, _, err := add.Reduce(4, nil, 2, true); val != 6 || err != nil {
		t.Errorf("4 + 2 = %v, %v; want 6", val, err)
	}
	if val, _, err := add.Reduce(4, nil, 3, true); val != nil || !errors.Is(err, bad) {
		t.Errorf("4 + 3 = %v, %v; want the function's error", val, err)
	}
	first := Func[int, int]{Fn: add.Fn, FirstWins: true}
	if val, ok := first.Start(); val != nil || ok {
		t.Errorf("with FirstWins: got start %v, %v; want none", val, ok)
	}
	if val, _, err := first.Reduce(nil, nil, 3, true); val != 3 || err != nil {
		t.Errorf("first update: got %v, %v; want it unchanged", val, err)
	}
	// A nil update of an interface type arrives as an untyped nil.
	anyFn := Func[int, any]{Fn: func(a int, u any) (int, error) {
		if u == nil {
			return a + 1, nil
		}
		return a, nil
	}}
	if val, _, err := anyFn.Reduce(1, nil, nil, true); val != 2 || err != nil {
		t.Errorf("nil update: got %v, %v; want 2", val, err)
	}
}
