// Package checkpointtest defines the behavior of [checkpoint.Saver] and
// [checkpoint.Cache] as tests. A saver that passes [Run] and [Differential], or a cache
// that passes [RunCache], works with every graph. [Footprint] and [Benchmark] measure
// the cost of a saver.
package checkpointtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
)

// Run tests a Saver. open returns an empty saver and cleans up with t.Cleanup; it is
// called once per test. Optional interfaces are tested if the saver implements them.
func Run(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	t.Helper()
	for _, group := range [][]test{puts, changes, writes, lists, threads, races, abilities} {
		for _, test := range group {
			t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
		}
	}
}

type test struct {
	name string
	run  func(*testing.T, checkpoint.Saver)
}

// line is a namespace of a thread, as seen by its only writer.
type line struct {
	saver checkpoint.Saver
	key   checkpoint.Key // the head
	step  int            // step of the next put
}

func newLine(s checkpoint.Saver, thread, namespace string) *line {
	return &line{saver: s, key: checkpoint.Key{Thread: thread, Namespace: namespace}, step: -1}
}

// next returns a put that follows the head.
func (l *line) next(changes ...checkpoint.Change) *checkpoint.Put {
	p := &checkpoint.Put{
		Key:     l.key,
		Parent:  l.key.ID,
		Head:    l.key.ID,
		Step:    l.step,
		Source:  checkpoint.Loop,
		Changes: changes,
		Control: []byte("{}"),
	}
	if l.step < 0 {
		p.Source = checkpoint.Input
	}
	p.ID = checkpoint.NewID(l.step, l.key.ID)
	return p
}

// put saves p, fails the test on error, and returns the key of p.
func (l *line) put(t *testing.T, p *checkpoint.Put) checkpoint.Key {
	t.Helper()
	if err := l.saver.Put(t.Context(), p); err != nil {
		t.Fatalf("put %s in %q: %v", p.ID, short(p.Thread), err)
	}
	l.key = p.Key
	l.step++
	return p.Key
}

// add puts a checkpoint with the given changes.
func (l *line) add(t *testing.T, changes ...checkpoint.Change) checkpoint.Key {
	t.Helper()
	return l.put(t, l.next(changes...))
}

func (l *line) write(t *testing.T, at checkpoint.Key, writes ...checkpoint.Write) {
	t.Helper()
	if err := l.saver.PutWrites(t.Context(), at, 0, writes); err != nil {
		t.Fatalf("put writes at %s: %v", at.ID, err)
	}
}

func get(t *testing.T, s checkpoint.Saver, key checkpoint.Key) *checkpoint.Checkpoint {
	t.Helper()
	cp, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %s of %q: %v", key.ID, short(key.Thread), err)
	}
	return cp
}

func list(t *testing.T, s checkpoint.Saver, q checkpoint.Query) []*checkpoint.Checkpoint {
	t.Helper()
	var all []*checkpoint.Checkpoint
	for cp, err := range s.List(t.Context(), q) {
		if err != nil {
			t.Fatalf("list %q: %v", short(q.Thread), err)
		}
		all = append(all, cp)
	}
	return all
}

func ids(cps []*checkpoint.Checkpoint) []checkpoint.ID {
	out := make([]checkpoint.ID, len(cps))
	for i, cp := range cps {
		out[i] = cp.ID
	}
	return out
}

func short(name string) string {
	if len(name) > 40 {
		return fmt.Sprintf("%s… (%d bytes)", name[:40], len(name))
	}
	return name
}

// The three kinds of changes:

func set(channel string, version uint64, value string) checkpoint.Change {
	return checkpoint.Change{Channel: channel, Version: version, Data: []byte(value)}
}

func grow(channel string, version uint64, drop int, items ...string) checkpoint.Change {
	return checkpoint.Change{Channel: channel, Version: version, List: true, Drop: drop, Items: bytesOf(items)}
}

func clearing(channel string, version uint64) checkpoint.Change {
	return checkpoint.Change{Channel: channel, Version: version, Clear: true}
}

func bytesOf(items []string) [][]byte {
	out := make([][]byte, len(items))
	for i, item := range items {
		out[i] = []byte(item)
	}
	return out
}

// Expected values:

func value(version uint64, data string) checkpoint.Value {
	return checkpoint.Value{Version: version, Data: []byte(data)}
}

func items(version uint64, items ...string) checkpoint.Value {
	return checkpoint.Value{Version: version, List: true, Items: bytesOf(items)}
}

type values = map[string]checkpoint.Value

// likeness compares stored data: empty equals nil, and metadata is compared as JSON,
// because a database may reformat it.
var likeness = cmp.Options{
	ofType[[]byte](cmp.Comparer(bytes.Equal)),
	ofType[json.RawMessage](cmp.Comparer(func(a, b json.RawMessage) bool {
		if bytes.Equal(a, b) {
			return true
		}
		var x, y any
		if len(a) > 0 && json.Unmarshal(a, &x) != nil || len(b) > 0 && json.Unmarshal(b, &y) != nil {
			return false
		}
		return cmp.Equal(x, y)
	})),
	ofType[[][]byte](cmpopts.EquateEmpty()),
	ofType[[]checkpoint.Write](cmpopts.EquateEmpty()),
	ofType[[]checkpoint.ID](cmpopts.EquateEmpty()),
	ofType[values](cmpopts.EquateEmpty()),
}

func ofType[T any](o cmp.Option) cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[T]() }, o)
}

func diff(want, got any) string { return cmp.Diff(want, got, likeness) }

func wantValues(t *testing.T, s checkpoint.Saver, key checkpoint.Key, want values) {
	t.Helper()
	if d := diff(want, get(t, s, key).Values); d != "" {
		t.Errorf("values of %s (-want +got):\n%s", key.ID, d)
	}
}

func wantPending(t *testing.T, s checkpoint.Saver, key checkpoint.Key, want ...checkpoint.Write) {
	t.Helper()
	if d := diff(want, get(t, s, key).Pending); d != "" {
		t.Errorf("pending writes of %s (-want +got):\n%s", key.ID, d)
	}
}

func wantIDs(t *testing.T, what string, got []*checkpoint.Checkpoint, want ...checkpoint.Key) {
	t.Helper()
	names := make([]checkpoint.ID, len(want))
	for i, k := range want {
		names[i] = k.ID
	}
	if slices.Equal(names, ids(got)) {
		return
	}
	if d := diff(names, ids(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func newestFirst(keys []checkpoint.Key) []checkpoint.Key {
	out := slices.Clone(keys)
	slices.Reverse(out)
	return out
}

var puts = []test{
	{"PutRoundTrip", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		first := l.next(set("topic", 1, `"owls"`), grow("jokes", 1, 0, `"a"`, `"b"`))
		first.RunID, first.Metadata, first.Control = "run-1", json.RawMessage(`{"user":"ada","n":1,"deep":{"x":[1,null,true]}}`), []byte("\x00\xffcontrol")
		l.put(t, first)
		second := l.next()
		second.Step, second.Source = 7, checkpoint.Fork
		l.put(t, second)
		want := &checkpoint.Checkpoint{Key: first.Key, Step: -1, Source: checkpoint.Input, RunID: "run-1", Metadata: first.Metadata,
			Values: values{"topic": value(1, `"owls"`), "jokes": items(1, `"a"`, `"b"`)}, Control: first.Control}
		got := get(t, s, first.Key)
		if d := diff(want, got); d != "" {
			t.Errorf("first checkpoint (-want +got):\n%s", d)
		}
		if !got.Time().Equal(first.ID.Time()) {
			t.Errorf("checkpoint time %v, ID time %v", got.Time(), first.ID.Time())
		}
		want = &checkpoint.Checkpoint{
			Key:     second.Key,
			Parent:  first.ID,
			Step:    7,
			Source:  checkpoint.Fork,
			Values:  want.Values,
			Control: []byte("{}"),
		}
		if d := diff(want, get(t, s, second.Key)); d != "" {
			t.Errorf("second checkpoint (-want +got):\n%s", d)
		}
	}},
	{"MissingCheckpointsAreNotFound", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "ns")
		_, err := s.Get(t.Context(), l.key)
		wantErr(t, "get of an unknown thread", err, checkpoint.ErrNotFound)
		key := l.add(t)
		for name, key := range map[string]checkpoint.Key{
			"thread":    {Thread: "other", Namespace: key.Namespace, ID: key.ID},
			"namespace": {Thread: key.Thread, ID: key.ID},
			"id":        {Thread: key.Thread, Namespace: key.Namespace, ID: checkpoint.NewID(0, key.ID)},
			"head":      {Thread: key.Thread},
		} {
			cp, err := s.Get(t.Context(), key)
			wantErr(t, "get with another "+name, err, checkpoint.ErrNotFound)
			if cp != nil {
				t.Errorf("get with another %s returned a checkpoint with the error", name)
			}
		}
	}},
	{"HeadIsLastPut", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		for range 5 {
			key := l.add(t)
			if head := get(t, s, checkpoint.Key{Thread: "thread"}); head.ID != key.ID {
				t.Errorf("got head %s, want %s", head.ID, key.ID)
			}
		}
	}},
	{"StaleHeadConflicts", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		ghost := l.next(set("a", 1, "0"))
		ghost.Head = checkpoint.NewID(0, checkpoint.ID{})
		ghost.ID = checkpoint.NewID(0, ghost.Head)
		wantErr(t, "put that expects a head on a new thread", s.Put(t.Context(), ghost), checkpoint.ErrConflict)
		_, err := s.Get(t.Context(), checkpoint.Key{Thread: "thread"})
		wantErr(t, "get after the rejected put", err, checkpoint.ErrNotFound)

		first := l.add(t, set("a", 1, "1"))
		l.write(t, first, checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("x")})
		late, fresh := l.next(set("a", 2, "late")), l.next(set("a", 2, "fresh"))
		fresh.Head, fresh.Parent = checkpoint.ID{}, checkpoint.ID{}
		wantErr(t, "put that expects a new thread", s.Put(t.Context(), fresh), checkpoint.ErrConflict)
		wantPending(t, s, first, checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("x")})
		second := l.add(t, set("a", 2, "2"))
		late.ID = checkpoint.NewID(0, second.ID)
		wantErr(t, "put that expects the previous head", s.Put(t.Context(), late), checkpoint.ErrConflict)

		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread"}), second, first)
		wantValues(t, s, checkpoint.Key{Thread: "thread"}, values{"a": value(2, "2")})
	}},
	{"NonIncreasingIDConflicts", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		none := l.next()
		none.ID = checkpoint.ID{}
		wantErr(t, "put without an ID", s.Put(t.Context(), none), checkpoint.ErrConflict)
		early := checkpoint.NewID(0, checkpoint.ID{})
		first := l.add(t)
		for name, id := range map[string]checkpoint.ID{"same ID again": first.ID, "older ID": early, "no ID": {}} {
			p := l.next()
			p.ID = id
			wantErr(t, name, s.Put(t.Context(), p), checkpoint.ErrConflict)
		}
		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread"}), first)
	}},
	{"UnknownParentIsNotFound", func(t *testing.T, s checkpoint.Saver) {
		l, other := newLine(s, "thread", ""), newLine(s, "thread", "other")
		first, elsewhere := l.add(t), other.add(t)
		for name, parent := range map[string]checkpoint.ID{"that does not exist": checkpoint.NewID(0, first.ID), "in another namespace": elsewhere.ID} {
			p := l.next()
			p.Parent = parent
			p.ID = checkpoint.NewID(0, parent)
			wantErr(t, "parent "+name, s.Put(t.Context(), p), checkpoint.ErrNotFound)
		}
		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread"}), first)
	}},
	{"ForkKeepsOtherBranch", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		root := l.add(t, set("a", 1, "1"), set("b", 1, "1"), grow("l", 1, 0, "1", "2"))
		left := l.add(t, set("a", 2, "left"), grow("l", 2, 0, "left"))
		left2 := l.add(t, grow("l", 3, 1, "left2"))
		fork := l.next(set("b", 4, "right"), grow("l", 4, 1, "right"))
		fork.Parent, fork.Source = root.ID, checkpoint.Fork
		right := l.put(t, fork)
		right2 := l.add(t, grow("l", 5, 0, "right2"))

		want := map[checkpoint.Key]values{
			root:   {"a": value(1, "1"), "b": value(1, "1"), "l": items(1, "1", "2")},
			left:   {"a": value(2, "left"), "b": value(1, "1"), "l": items(2, "1", "2", "left")},
			left2:  {"a": value(2, "left"), "b": value(1, "1"), "l": items(3, "1", "2", "left2")},
			right:  {"a": value(1, "1"), "b": value(4, "right"), "l": items(4, "1", "right")},
			right2: {"a": value(1, "1"), "b": value(4, "right"), "l": items(5, "1", "right", "right2")},
		}
		for key, v := range want {
			wantValues(t, s, key, v)
		}
		all := list(t, s, checkpoint.Query{Thread: "thread"})
		wantIDs(t, "thread", all, right2, right, left2, left, root)
		for i, parent := range []checkpoint.ID{right.ID, root.ID, left.ID, root.ID, {}} {
			if all[i].Parent != parent {
				t.Errorf("parent of %s: got %s, want %s", all[i].ID, all[i].Parent, parent)
			}
			if d := diff(want[all[i].Key], all[i].Values); d != "" {
				t.Errorf("values of %s from List (-want +got):\n%s", all[i].ID, d)
			}
		}
		// An abandoned fork can be continued.
		again := l.next(grow("l", 6, 0, "again"))
		again.Parent = left2.ID
		wantValues(t, s, l.put(t, again), values{"a": value(2, "left"), "b": value(1, "1"), "l": items(6, "1", "2", "left2", "again")})
	}},
	{"ThreadWithSeveralRoots", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		l.add(t, set("a", 1, "1"))
		p := l.next(set("b", 1, "1"))
		p.Parent = checkpoint.ID{} // a fork from before the first checkpoint
		wantValues(t, s, l.put(t, p), values{"b": value(1, "1")})
	}},
	{"ReturnedDataIsCopied", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		p := l.next(set("a", 1, "value"), grow("l", 1, 0, "one", "two"))
		p.Metadata, p.Control = json.RawMessage(`{"k":"v"}`), []byte("control")
		key := l.put(t, p)
		l.write(t, key, checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("done")})
		w := checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("done")}
		want := &checkpoint.Checkpoint{
			Key:      key,
			Step:     -1,
			Source:   checkpoint.Input,
			Metadata: json.RawMessage(`{"k":"v"}`),
			Control:  []byte("control"),
			Values:   values{"a": value(1, "value"), "l": items(1, "one", "two")},
			Pending:  []checkpoint.Write{w},
		}
		spoil := func(cp *checkpoint.Checkpoint) {
			scribble := func(b []byte) {
				for i := range b {
					b[i] = '#'
				}
				_ = append(b, '#')
			}
			for name, v := range cp.Values {
				scribble(v.Data)
				for _, item := range v.Items {
					scribble(item)
				}
				clear(v.Items)
				delete(cp.Values, name)
			}
			scribble(cp.Metadata)
			scribble(cp.Control)
			for i := range cp.Pending {
				scribble(cp.Pending[i].Data)
			}
			clear(cp.Pending)
		}
		spoil(get(t, s, key))
		for _, cp := range list(t, s, checkpoint.Query{Thread: "thread"}) {
			spoil(cp)
		}
		if d := diff(want, get(t, s, key)); d != "" {
			t.Errorf("after readers modified their copies (-want +got):\n%s", d)
		}
		wantValues(t, s, l.add(t, grow("l", 2, 0, "three")), values{"a": value(1, "value"), "l": items(2, "one", "two", "three")})
	}},
}

var changes = []test{
	{"UnchangedChannelsAreInherited", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		one := l.add(t, set("a", 1, "1"), set("b", 1, "1"))
		two := l.add(t, set("a", 2, "2"))
		three := l.add(t)
		four := l.add(t, set("c", 3, "3"))
		wantValues(t, s, one, values{"a": value(1, "1"), "b": value(1, "1")})
		wantValues(t, s, two, values{"a": value(2, "2"), "b": value(1, "1")})
		wantValues(t, s, three, values{"a": value(2, "2"), "b": value(1, "1")})
		wantValues(t, s, four, values{"a": value(2, "2"), "b": value(1, "1"), "c": value(3, "3")})
	}},
	{"ListsDropAndGrow", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		for i, step := range []struct {
			drop int
			add  []string
			want []string
		}{
			{0, []string{"a", "b"}, []string{"a", "b"}},
			{0, nil, []string{"a", "b"}},
			{0, []string{"c"}, []string{"a", "b", "c"}},
			{1, []string{"d", "e"}, []string{"a", "b", "d", "e"}},
			{3, nil, []string{"a"}},
			{1, []string{"x", "y", "z"}, []string{"x", "y", "z"}}, // all elements: an overwrite
			{2, []string{"", "null"}, []string{"x", "", "null"}},  // an element may be empty
			{3, nil, nil},
			{0, []string{"last"}, []string{"last"}},
		} {
			v := uint64(i + 1)
			wantValues(t, s, l.add(t, grow("l", v, step.drop, step.add...)), values{"l": items(v, step.want...)})
		}
	}},
	{"EmptyListIsSaved", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		key := l.add(t, grow("l", 1, 0))
		v, ok := get(t, s, key).Values["l"]
		if !ok || !v.List || len(v.Items) != 0 || v.Version != 1 {
			t.Errorf("empty list: got %+v, %v; want a list without elements", v, ok)
		}
	}},
	{"ClearRemovesChannel", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		l.add(t, set("a", 1, "1"), grow("l", 1, 0, "1"), set("stays", 1, "1"))
		gone := l.add(t, clearing("a", 2), clearing("l", 2), clearing("never", 2))
		wantValues(t, s, gone, values{"stays": value(1, "1")})
		back := l.add(t, set("a", 3, "3"), grow("l", 3, 0, "3"))
		wantValues(t, s, back, values{"stays": value(1, "1"), "a": value(3, "3"), "l": items(3, "3")})
		wantValues(t, s, gone, values{"stays": value(1, "1")})
	}},
	{"ChannelBecomesListAndBack", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		l.add(t, set("a", 1, "[1]"))
		wantValues(t, s, l.add(t, grow("a", 2, 0, "2")), values{"a": items(2, "2")})
		wantValues(t, s, l.add(t, set("a", 3, "[3]")), values{"a": value(3, "[3]")})
		wantValues(t, s, l.add(t, grow("a", 4, 0, "4")), values{"a": items(4, "4")})
	}},
	{"LargeValues", func(t *testing.T, s checkpoint.Saver) {
		big := make([]byte, 1<<20) // every byte value; not JSON
		for i := range big {
			big[i] = byte(i * 7 >> 3)
		}
		l := newLine(s, "thread", "")
		p := l.next(checkpoint.Change{Channel: "data", Version: 1, Data: big},
			checkpoint.Change{Channel: "list", Version: 1, List: true, Items: [][]byte{big, []byte("small"), big[:1<<19]}})
		p.Control = big
		p.Metadata = json.RawMessage(`{"text":"` + strings.Repeat("é", 1<<16) + `"}`)
		key := l.put(t, p)
		w := checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: big}
		l.write(t, key, w)
		want := &checkpoint.Checkpoint{
			Key:      key,
			Step:     -1,
			Source:   checkpoint.Input,
			Metadata: p.Metadata,
			Control:  big,
			Pending:  []checkpoint.Write{w},
			Values:   values{"data": {Version: 1, Data: big}, "list": {Version: 1, List: true, Items: p.Changes[1].Items}},
		}
		if !cmp.Equal(want, get(t, s, key), likeness) {
			t.Error("checkpoint with large values changed in a round trip")
		}
	}},
	{"VersionsUse63Bits", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		// The range of a signed column suffices; no thread gets that far.
		wantValues(t, s, l.add(t, set("a", 1<<63-1, "1")), values{"a": value(1<<63-1, "1")})
	}},
	{"LongListIsCompleteAtEveryStep", func(t *testing.T, s checkpoint.Saver) {
		const n = 2000
		l := newLine(s, "thread", "")
		want := make([]string, n)
		keys := make([]checkpoint.Key, n)
		for i := range want {
			want[i] = fmt.Sprintf(`"item %d"`, i)
			keys[i] = l.add(t, grow("l", uint64(i+1), 0, want[i]))
		}
		for _, i := range []int{0, 1, 30, 31, 32, 33, 63, 64, 1023, 1024, n - 2, n - 1} {
			wantValues(t, s, keys[i], values{"l": items(uint64(i+1), want[:i+1]...)})
		}
		newest := list(t, s, checkpoint.Query{Thread: "thread", Limit: 3})
		for i, cp := range newest {
			if d := diff(values{"l": items(uint64(n-i), want[:n-i]...)}, cp.Values); d != "" {
				t.Errorf("list at checkpoint %d (-want +got):\n%s", i, d)
			}
		}
	}},
}

var writes = []test{
	{"PendingWritesKeepTheirOrder", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		key := l.add(t)
		ws := []checkpoint.Write{
			{Task: "b", Kind: checkpoint.Done, Data: []byte("\x00\xff")},
			{Task: "a", Kind: checkpoint.Failed, Data: []byte(`{"message":"no"}`)},
			{Task: "a", Kind: checkpoint.Paused, Data: []byte("?")},
			{Task: "c", Kind: checkpoint.Answers, Data: []byte("!")},
		}
		l.write(t, key, ws[:2]...)
		l.write(t, key, ws[2:]...)
		l.write(t, key)
		wantPending(t, s, key, ws...)
		if d := diff(ws, list(t, s, checkpoint.Query{Thread: "thread"})[0].Pending); d != "" {
			t.Errorf("pending writes from List (-want +got):\n%s", d)
		}
	}},
	{"WriteReplacesSameTaskAndKind", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		key := l.add(t)
		w := func(task string, kind checkpoint.WriteKind, data string) checkpoint.Write {
			return checkpoint.Write{Task: task, Kind: kind, Data: []byte(data)}
		}
		l.write(t, key, w("a", checkpoint.Failed, "1"), w("b", checkpoint.Done, "1"))
		l.write(t, key, w("a", checkpoint.Failed, "2"), w("a", checkpoint.Done, "2"))
		l.write(t, key, w("b", checkpoint.Done, "3"), w("b", checkpoint.Done, "4"))
		wantPending(t, s, key, w("a", checkpoint.Failed, "2"), w("b", checkpoint.Done, "4"), w("a", checkpoint.Done, "2"))
	}},
	{"WritesAtUnknownCheckpoint", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		key := l.add(t)
		w := []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
		for name, at := range map[string]checkpoint.Key{
			"thread":    {Thread: "other", ID: key.ID},
			"namespace": {Thread: "thread", Namespace: "ns", ID: key.ID},
			"id":        {Thread: "thread", ID: checkpoint.NewID(0, key.ID)},
		} {
			wantErr(t, "writes with another "+name, s.PutWrites(t.Context(), at, 0, w), checkpoint.ErrNotFound)
		}
		wantPending(t, s, key)
	}},
	{"PutConsumesDoneWrites", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		older := l.add(t)
		key := l.add(t)
		w := func(kind checkpoint.WriteKind) checkpoint.Write {
			return checkpoint.Write{Task: "t", Kind: kind, Data: []byte(kind)}
		}
		l.write(t, older, w(checkpoint.Done))
		l.write(t, key, w(checkpoint.Done), w(checkpoint.Failed), w(checkpoint.Paused), w(checkpoint.Answers),
			checkpoint.Write{Task: "u", Kind: checkpoint.Done, Data: []byte("u")})
		next := l.add(t)
		wantPending(t, s, next)
		wantPending(t, s, key, w(checkpoint.Failed), w(checkpoint.Paused), w(checkpoint.Answers))
		wantPending(t, s, older, w(checkpoint.Done)) // no put has followed it since the write
	}},
	{"PutWithPendingWrites", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		first := l.add(t)
		done := checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("done")}
		failed := checkpoint.Write{Task: "u", Kind: checkpoint.Failed, Data: []byte("failed")}
		p := l.next()
		p.Pending = []checkpoint.Write{done, failed}
		second := l.put(t, p)
		wantPending(t, s, first)
		wantPending(t, s, second, done, failed)
		again := checkpoint.Write{Task: "u", Kind: checkpoint.Failed, Data: []byte("again")}
		l.write(t, second, again)
		wantPending(t, s, second, done, again)
		wantPending(t, s, l.add(t))
		wantPending(t, s, second, again)
	}},
	{"WritesAreSeparateByNamespace", func(t *testing.T, s checkpoint.Saver) {
		a, b := newLine(s, "thread", ""), newLine(s, "thread", "ns")
		p := a.next()
		inA := a.put(t, p)
		q := b.next()
		q.ID = p.ID
		inB := b.put(t, q)
		w := checkpoint.Write{Task: "t", Kind: checkpoint.Done, Data: []byte("b")}
		b.write(t, inB, w)
		wantPending(t, s, inA)
		wantPending(t, s, inB, w)
		a.add(t)
		wantPending(t, s, inB, w)
	}},
}

var lists = []test{
	{"ListIsNewestFirst", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		var keys []checkpoint.Key
		for i := range 7 {
			keys = append(keys, l.add(t, set("i", uint64(i+1), fmt.Sprint(i))))
		}
		all := list(t, s, checkpoint.Query{Thread: "thread"})
		wantIDs(t, "all", all, newestFirst(keys)...)
		for i, cp := range all {
			if d := diff(get(t, s, cp.Key), cp); d != "" {
				t.Errorf("checkpoint %d differs between Get and List (-get +list):\n%s", i, d)
			}
		}
		for name, test := range map[string]struct {
			q    checkpoint.Query
			want []checkpoint.Key
		}{
			"limit":             {checkpoint.Query{Limit: 3}, keys[4:]},
			"limit above all":   {checkpoint.Query{Limit: 99}, keys},
			"before":            {checkpoint.Query{Before: keys[3].ID}, keys[:3]},
			"before the first":  {checkpoint.Query{Before: keys[0].ID}, nil},
			"before a later ID": {checkpoint.Query{Before: checkpoint.NewID(0, keys[6].ID)}, keys},
			"limit and before":  {checkpoint.Query{Before: keys[5].ID, Limit: 2}, keys[3:5]},
			"another namespace": {checkpoint.Query{Namespace: "ns"}, nil},
		} {
			test.q.Thread = "thread"
			wantIDs(t, name, list(t, s, test.q), newestFirst(test.want)...)
		}
		wantIDs(t, "another thread", list(t, s, checkpoint.Query{Thread: "other"}))
	}},
	{"MetadataFilter", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		keys := map[string]checkpoint.Key{}
		for _, m := range []struct{ name, meta string }{
			{"none", ``},
			{"empty", `{}`},
			{"ada1", `{"user":"ada","n":1}`},
			{"ada2", `{"user":"ada","n":2,"ok":true,"tags":["x","y"],"deep":{"a":{"b":1}}}`},
			{"bob1", `{"user":"bob","n":1.0,"none":null}`},
			{"text", `{"n":"1","user":"a'd%_\"\\a","ok":"true"}`},
		} {
			p := l.next()
			p.Metadata = json.RawMessage(m.meta)
			keys[m.name] = l.put(t, p)
		}
		for name, test := range map[string]struct {
			want map[string]any
			keys []string
		}{
			"no condition":      {map[string]any{}, []string{"text", "bob1", "ada2", "ada1", "empty", "none"}},
			"text":              {map[string]any{"user": "ada"}, []string{"ada2", "ada1"}},
			"number":            {map[string]any{"n": 1}, []string{"bob1", "ada1"}},
			"float":             {map[string]any{"n": 2.0}, []string{"ada2"}},
			"boolean":           {map[string]any{"ok": true}, []string{"ada2"}},
			"two":               {map[string]any{"user": "ada", "n": 2}, []string{"ada2"}},
			"two, one differs":  {map[string]any{"user": "bob", "n": 2}, nil},
			"list":              {map[string]any{"tags": []string{"x", "y"}}, []string{"ada2"}},
			"part of a list":    {map[string]any{"tags": []string{"x"}}, nil},
			"object":            {map[string]any{"deep": map[string]any{"a": map[string]int{"b": 1}}}, []string{"ada2"}},
			"part of an object": {map[string]any{"deep": map[string]any{}}, nil},
			"top level only":    {map[string]any{"deep.a.b": 1}, nil},
			"odd text":          {map[string]any{"user": `a'd%_"\a`}, []string{"text"}},
			"null value":        {map[string]any{"none": nil}, []string{"bob1"}},
			"unknown key":       {map[string]any{"color": "red"}, nil},
		} {
			var want []checkpoint.Key
			for _, k := range test.keys {
				want = append(want, keys[k])
			}
			wantIDs(t, name, list(t, s, checkpoint.Query{Thread: "thread", Metadata: test.want}), want...)
		}
		wantIDs(t, "with a limit", list(t, s, checkpoint.Query{Thread: "thread", Metadata: map[string]any{"user": "ada"}, Limit: 1}), keys["ada2"])
		wantIDs(t, "with before", list(t, s, checkpoint.Query{Thread: "thread", Metadata: map[string]any{"user": "ada"}, Before: keys["ada2"].ID}), keys["ada1"])
	}},
	{"InvalidMetadataFilterFails", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		l.add(t)
		for cp, err := range s.List(t.Context(), checkpoint.Query{Thread: "thread", Metadata: map[string]any{"user": "ada", "when": make(chan int)}}) {
			if cp != nil || err == nil || !strings.Contains(err.Error(), `"when"`) {
				t.Errorf("got %v, %v, want an error that names the key", cp, err)
			}
			return
		}
		t.Error("got an empty list, want an error that names the key")
	}},
	{"ListStopsOnBreak", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		l.add(t)
		last := l.add(t)
		n := 0
		for cp, err := range s.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
			n++
			if err != nil || cp.ID != last.ID {
				t.Fatalf("first listed checkpoint: got %v, %v; want %s", cp, err, last.ID)
			}
			break
		}
		if n != 1 {
			t.Errorf("got %d iterations before the break, want 1", n)
		}
		l.add(t) // nothing is still locked
	}},
	{"SaverIsUsableDuringList", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		var keys []checkpoint.Key
		for range 3 {
			keys = append(keys, l.add(t))
		}
		var seen []*checkpoint.Checkpoint
		for cp, err := range s.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, get(t, s, cp.Key))
			l.add(t) // newer than the listed checkpoints
			l.write(t, cp.Key, checkpoint.Write{Task: "t", Kind: checkpoint.Failed, Data: []byte("x")})
		}
		wantIDs(t, "list with concurrent puts", seen, newestFirst(keys)...)
	}},
	{"TenThousandCheckpoints", func(t *testing.T, s checkpoint.Saver) {
		n, page := 10_000, 1000
		if race.Enabled {
			n = 2000 // this test has no concurrency
		}
		l := newLine(s, "thread", "")
		var keys []checkpoint.Key
		for i := range n {
			p := l.next()
			if i%100 == 0 {
				p = l.next(set("hundreds", uint64(i+1), fmt.Sprint(i/100)))
			}
			keys = append(keys, l.put(t, p))
		}
		for _, i := range []int{0, 1, n / 2, n - 1} {
			wantValues(t, s, keys[i], values{"hundreds": value(uint64(i/100*100+1), fmt.Sprint(i/100))})
		}
		var all []*checkpoint.Checkpoint
		q := checkpoint.Query{Thread: "thread", Limit: page}
		for range n / page {
			got := list(t, s, q)
			if len(got) != page {
				t.Fatalf("got a page of %d, want %d", len(got), page)
			}
			all = append(all, got...)
			q.Before = got[page-1].ID
		}
		wantIDs(t, "all pages", all, newestFirst(keys)...)
		if rest := list(t, s, q); len(rest) != 0 {
			t.Errorf("%d checkpoints after the last page", len(rest))
		}
	}},
}

// names are thread and namespace names that are easily confused.
var names = []string{
	"thread", "Thread", "thread ", " thread", "thread%", "thread_", "thre_d", "thr%", "thread.", "thread/x", "thread\\", "..", "/", "*", "'", `"`, ";--",
	"a|b", "a:b", "a\x00b", "a\x00", "\x00", "\xff\xfe", "\xc3\x28", "é", "e\u0301", "鹦鹉", "🦉", "\u202e", "\n", "{}", "null", "0", "%00",
	strings.Repeat("long", 16<<10),
}

var threads = []test{
	{"NamesAreArbitraryBytes", func(t *testing.T, s checkpoint.Saver) {
		for i, name := range names {
			newLine(s, name, "").add(t, set("a", 1, fmt.Sprint("thread ", i)))
			if name != "" {
				newLine(s, "t", name).add(t, set("a", 1, fmt.Sprint("namespace ", i)))
			}
		}
		for i, name := range names {
			for what, key := range map[string]checkpoint.Key{"thread": {Thread: name}, "namespace": {Thread: "t", Namespace: name}} {
				cp := get(t, s, key)
				if cp.Thread != key.Thread || cp.Namespace != key.Namespace {
					t.Errorf("%s %q round-trips as %q, %q", what, short(name), short(cp.Thread), short(cp.Namespace))
				}
				if got, want := string(cp.Values["a"].Data), fmt.Sprint(what, " ", i); got != want {
					t.Errorf("%s %q: got %q, want %q", what, short(name), got, want)
				}
				if n := len(list(t, s, checkpoint.Query{Thread: key.Thread, Namespace: key.Namespace})); n != 1 {
					t.Errorf("%s %q: got %d checkpoints, want 1", what, short(name), n)
				}
			}
		}
		for i, name := range names {
			if err := s.DeleteThread(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			_, err := s.Get(t.Context(), checkpoint.Key{Thread: name})
			wantErr(t, fmt.Sprintf("get of the deleted %q", short(name)), err, checkpoint.ErrNotFound)
			for _, left := range names[i+1:] {
				get(t, s, checkpoint.Key{Thread: left})
			}
		}
	}},
	{"ArbitraryChannelAndTaskNames", func(t *testing.T, s checkpoint.Saver) {
		l := newLine(s, "thread", "")
		odd := slices.DeleteFunc(append(slices.Clone(names), ""), func(n string) bool { return strings.Contains(n, "\x00") || !utf8.ValidString(n) })
		want := values{}
		var cs []checkpoint.Change
		var ws []checkpoint.Write
		for i, name := range odd {
			cs = append(cs, set(name, 1, fmt.Sprint(i)))
			want[name] = value(1, fmt.Sprint(i))
			ws = append(ws, checkpoint.Write{Task: name, Kind: checkpoint.Done, Data: []byte(fmt.Sprint(i))})
		}
		key := l.add(t, cs...)
		wantValues(t, s, key, want)
		l.write(t, key, ws...)
		wantPending(t, s, key, ws...)
	}},
	{"NamespacesAreSeparate", func(t *testing.T, s checkpoint.Saver) {
		root, a, ab := newLine(s, "thread", ""), newLine(s, "thread", "a:1"), newLine(s, "thread", "a:1|b:2")
		root.add(t, set("x", 1, "root"))
		first := a.add(t, set("x", 1, "a"))
		ab.add(t, set("x", 1, "ab"))
		second := a.add(t, grow("l", 2, 0, "a"))
		wantValues(t, s, checkpoint.Key{Thread: "thread"}, values{"x": value(1, "root")})
		wantValues(t, s, checkpoint.Key{Thread: "thread", Namespace: "a:1"}, values{"x": value(1, "a"), "l": items(2, "a")})
		wantValues(t, s, checkpoint.Key{Thread: "thread", Namespace: "a:1|b:2"}, values{"x": value(1, "ab")})
		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread", Namespace: "a:1"}), second, first)
		root.add(t) // the namespaces have separate heads
	}},
	{"DeleteThreadRemovesOnlyThatThread", func(t *testing.T, s checkpoint.Saver) {
		root, ns, other := newLine(s, "thread", ""), newLine(s, "thread", "ns"), newLine(s, "other", "")
		key := root.add(t, set("a", 1, "1"), grow("l", 1, 0, "1"))
		root.write(t, key, checkpoint.Write{Task: "t", Kind: checkpoint.Failed, Data: []byte("x")})
		ns.add(t, set("a", 1, "1"))
		kept := other.add(t, set("a", 1, "kept"))
		for range 2 { // the second time, nothing exists, which is not an error
			if err := s.DeleteThread(t.Context(), "thread"); err != nil {
				t.Fatal(err)
			}
		}
		for _, k := range []checkpoint.Key{key, {Thread: "thread"}, {Thread: "thread", Namespace: "ns"}} {
			_, err := s.Get(t.Context(), k)
			wantErr(t, "get of the deleted thread", err, checkpoint.ErrNotFound)
		}
		wantIDs(t, "deleted thread", list(t, s, checkpoint.Query{Thread: "thread"}))
		wantValues(t, s, kept, values{"a": value(1, "kept")})
		again := newLine(s, "thread", "")
		wantValues(t, s, again.add(t, grow("l", 1, 0, "new")), values{"l": items(1, "new")})
		wantPending(t, s, again.key)
	}},
}
