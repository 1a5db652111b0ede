package reduce

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A version is a list as a checkpoint holds it, with what it must stay.
type version struct {
	val  []int
	acc  any
	want []int
}

// model is every version of a list that was ever made. Versions are never
// dropped: the point is that later ones leave them alone.
type model struct {
	versions []version
	next     int // elements are numbered, so that one in the wrong place shows
}

func (m *model) pick(t *rapid.T) version {
	return m.versions[rapid.IntRange(0, len(m.versions)-1).Draw(t, "version")]
}

// newest is picked often: a run goes on from its last version.
func (m *model) newest() version { return m.versions[len(m.versions)-1] }

func (m *model) items(t *rapid.T) []int {
	// Spare capacity, as a node's own slice may have.
	items := make([]int, rapid.IntRange(0, 5).Draw(t, "items"), 8)
	for i := range items {
		m.next++
		items[i] = m.next
	}
	return items
}

// add appends to v and then does to its update what a caller may do.
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
			t.Fatalf("version %d is %v, want %v", i, v.val, v.want)
		}
		if cap(v.val) != len(v.val) {
			t.Fatalf("version %d has room for %d elements behind its %d", i, cap(v.val)-len(v.val), len(v.val))
		}
	}
}

func TestAppendNeverChangesAnotherVersion(t *testing.T) {
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
			"look": func(t *rapid.T) {
				v, items := m.pick(t), m.items(t)
				want := slices.Concat(v.want, items)
				val, acc := Append(v.val, v.acc, items, false)
				// A look goes on as any version does: a task may write a list twice.
				m.versions = append(m.versions, version{val, acc, want})
			},
			"overwrite": func(t *rapid.T) {
				// The stale private part must not count.
				items := slices.Clip(m.items(t))
				m.versions = append(m.versions, version{items, m.pick(t).acc, slices.Clone(items)})
			},
			"overwrite with a prefix": func(t *rapid.T) {
				v := m.pick(t)
				n := rapid.IntRange(0, len(v.val)).Draw(t, "length")
				m.versions = append(m.versions, version{v.val[:n:n], v.acc, v.want[:n:n]})
			},
			"a reader appends": func(t *rapid.T) { _ = append(m.pick(t).val, -1) },
			"":                 m.check,
		})
	})
}

// Forks race for one tail while others read what is there already. The race
// detector sees to it that nobody writes what another one reads.
func TestOneOfRacingForksKeepsTheTail(t *testing.T) {
	const forks, rounds = 8, 200
	for round := range rounds {
		base := make([]int, 1+round%7)
		for i := range base {
			base[i] = i
		}
		val, acc := Append(nil, nil, base, true)
		if room := len(acc.(*tail[int]).arr) - len(val); room < 1 {
			t.Fatalf("round %d: the tail has no room to race for", round)
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
				for range 3 { // the winner goes on in place, the losers in their copies
					v.want = append(v.want, 2000+i)
					v.val, v.acc = Append(v.val, v.acc, []int{2000 + i}, true)
				}
			})
			wg.Go(func() {
				<-start
				if !slices.Equal(val, base) {
					t.Errorf("round %d: a reader saw %v, want %v", round, val, base)
				}
			})
		}
		close(start)
		wg.Wait()
		kept := 0
		for i, v := range results {
			if !slices.Equal(v.val, v.want) {
				t.Errorf("round %d: fork %d has %v, want %v", round, i, v.val, v.want)
			}
			if &v.val[0] == &val[0] {
				kept++
			}
		}
		if !slices.Equal(val, base) {
			t.Errorf("round %d: the version they forked from is now %v, want %v", round, val, base)
		}
		// The winner may have moved on to a larger tail afterwards.
		if kept > 1 {
			t.Errorf("round %d: %d forks share the tail", round, kept)
		}
		if acc.(*tail[int]).used.Load() <= int64(len(base)) {
			t.Errorf("round %d: nobody took the room that was there", round)
		}
	}
}

func TestAppendingIsAmortised(t *testing.T) {
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
			t.Fatalf("%d appends needed %d arrays: the room does not grow with the list", i+1, tails)
		}
	}
	if len(val) != n {
		t.Fatalf("%d elements, want %d", len(val), n)
	}
	if copied > 2*n {
		t.Errorf("%d appends copied %d elements, want at most %d", n, copied, 2*n)
	}
}

// With room behind it an append to a list costs nothing, and a look costs its
// own copy and nothing more. If the look claimed the room, the append after it
// would have to copy the list as well.
func TestALookDoesNotCostTheCommitItsTail(t *testing.T) {
	val, acc := Append(nil, nil, make([]int, 10_000), true)
	tail := acc
	item := []int{1}
	commit := testing.AllocsPerRun(100, func() { val, acc = Append(val, acc, item, true) })
	if commit != 0 {
		t.Errorf("an append with room costs %v allocations, want 0", commit)
	}
	both := testing.AllocsPerRun(100, func() {
		Append(val, acc, item, false)
		val, acc = Append(val, acc, item, true)
	})
	if both != 1 {
		t.Errorf("a look and an append cost %v allocations, want 1: the look's copy", both)
	}
	if acc != tail {
		t.Error("the list left its array though there was room")
	}
}

func TestListReducerKeepsTheListType(t *testing.T) {
	type names []string
	var r Appender = Appending[names, string]{}
	start, ok := r.Start()
	if val, isNames := start.(names); !ok || !isNames || val != nil {
		t.Fatalf("the start is %#v, %v; want an empty list", start, ok)
	}
	var val, acc any
	for _, u := range []names{{"a"}, nil, {"b", "c"}} {
		var err error
		if val, acc, err = r.Reduce(val, acc, u, true); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(names{"a", "b", "c"}, val); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	if r.Len(val) != 3 || r.At(val, 1) != "b" {
		t.Errorf("length %d, element 1 %v; want 3 and b", r.Len(val), r.At(val, 1))
	}
}

func TestListIsBuiltElementByElement(t *testing.T) {
	r := Appending[[]int, int]{}
	val, err := r.Build(3, func(i int, elem any) error {
		*elem.(*int) = i * i
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 1, 4}, val); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	bad := errors.New("bad element")
	if val, err := r.Build(2, func(int, any) error { return bad }); !errors.Is(err, bad) || val != nil {
		t.Errorf("with a bad element: %v, %v; want no list and %v", val, err, bad)
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
		t.Errorf("the start is %v, %v; want 0", val, ok)
	}
	if val, _, err := add.Reduce(nil, nil, 2, true); val != 2 || err != nil {
		t.Errorf("nothing + 2 = %v, %v; want 2", val, err)
	}
	if val, _, err := add.Reduce(4, nil, 2, true); val != 6 || err != nil {
		t.Errorf("4 + 2 = %v, %v; want 6", val, err)
	}
	if val, _, err := add.Reduce(4, nil, 3, true); val != nil || !errors.Is(err, bad) {
		t.Errorf("4 + 3 = %v, %v; want the function's error", val, err)
	}
	first := Func[int, int]{Fn: add.Fn, FirstWins: true}
	if val, ok := first.Start(); val != nil || ok {
		t.Errorf("where the first update is the value, the start is %v, %v; want none", val, ok)
	}
	if val, _, err := first.Reduce(nil, nil, 3, true); val != 3 || err != nil {
		t.Errorf("the first update gives %v, %v; want it as it is", val, err)
	}
	// A nil update of an interface type arrives as an untyped nil.
	anyFn := Func[int, any]{Fn: func(a int, u any) (int, error) {
		if u == nil {
			return a + 1, nil
		}
		return a, nil
	}}
	if val, _, err := anyFn.Reduce(1, nil, nil, true); val != 2 || err != nil {
		t.Errorf("a nil update gives %v, %v; want 2", val, err)
	}
}
