package checkpointtest

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// able returns a test that runs only for savers that implement A.
func able[A any](name string, run func(*testing.T, checkpoint.Saver, A)) test {
	return test{name, func(t *testing.T, s checkpoint.Saver) {
		a, ok := s.(A)
		if !ok {
			t.Logf("the saver lacks %s", reflect.TypeFor[A]())
			return
		}
		run(t, s, a)
	}}
}

// abilities tests the optional interfaces. Savers without an interface pass its tests,
// which log that.
var abilities = []test{
	able("StaleFenceIsRejected", func(t *testing.T, s checkpoint.Saver, f checkpoint.Fencer) {
		l := newLine(s, "thread", "")
		key := l.add(t, set("a", 1, "1"))
		if err := f.Fence(t.Context(), "thread", 5); err != nil {
			t.Fatal(err)
		}
		for _, epoch := range []uint64{0, 4, 5} {
			wantErr(t, fmt.Sprint("fence ", epoch), f.Fence(t.Context(), "thread", epoch), checkpoint.ErrFenced)
		}
		w := []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
		for _, fence := range []uint64{0, 4} {
			p := l.next()
			p.Fence = fence
			wantErr(t, fmt.Sprint("put with fence ", fence), s.Put(t.Context(), p), checkpoint.ErrFenced)
			wantErr(t, fmt.Sprint("writes with fence ", fence), s.PutWrites(t.Context(), key, fence, w), checkpoint.ErrFenced)
		}
		wantPending(t, s, key)
		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread"}), key)
		p := l.next()
		p.Fence = 5
		key = l.put(t, p)
		if err := s.PutWrites(t.Context(), key, 7, w); err != nil { // a newer writer
			t.Fatal(err)
		}
		p = l.next()
		p.Fence = 6
		wantErr(t, "put by the previous writer", s.Put(t.Context(), p), checkpoint.ErrFenced)
		p.Fence = 9
		key = l.put(t, p)
		wantErr(t, "writes by the previous writer", s.PutWrites(t.Context(), key, 8, w), checkpoint.ErrFenced)
		// All namespaces of a thread share one writer; other threads have their own.
		wantErr(t, "put in a namespace", s.Put(t.Context(), newLine(s, "thread", "ns").next()), checkpoint.ErrFenced)
		newLine(s, "other", "").add(t)
	}),
	able("FenceBeforeFirstPut", func(t *testing.T, s checkpoint.Saver, f checkpoint.Fencer) {
		if err := f.Fence(t.Context(), "thread", 2); err != nil {
			t.Fatal(err)
		}
		p := newLine(s, "thread", "").next()
		p.Fence = 1
		wantErr(t, "stale put", s.Put(t.Context(), p), checkpoint.ErrFenced)
		p.Fence = 2
		if err := s.Put(t.Context(), p); err != nil {
			t.Error(err)
		}
	}),
	able("RejectedPutKeepsFence", func(t *testing.T, s checkpoint.Saver, _ checkpoint.Fencer) {
		l := newLine(s, "thread", "")
		l.add(t)
		p := l.next()
		p.Head, p.Fence = checkpoint.NewID(0, checkpoint.ID{}), 9
		wantErr(t, "put with a stale head", s.Put(t.Context(), p), checkpoint.ErrConflict)
		l.add(t) // without a fence
	}),
	able("PutAllIsAtomic", func(t *testing.T, s checkpoint.Saver, b checkpoint.Batcher) {
		l := newLine(s, "thread", "")
		two := func() []*checkpoint.Put {
			first := l.next(set("a", uint64(l.step+2), "first"))
			then := line{saver: s, key: first.Key, step: l.step + 1}
			return []*checkpoint.Put{first, then.next(grow("list", uint64(l.step+3), 0, "x"))}
		}
		if err := b.PutAll(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		// The second put is rejected, both in a new namespace and in an existing one.
		for range 2 {
			puts := two()
			puts[1].Head = checkpoint.NewID(7, l.key.ID)
			before := list(t, s, checkpoint.Query{Thread: "thread"})
			wantErr(t, "two puts, the second with another head", b.PutAll(t.Context(), puts), checkpoint.ErrConflict)
			if after := list(t, s, checkpoint.Query{Thread: "thread"}); len(after) != len(before) {
				t.Fatalf("%d of two rejected checkpoints were saved", len(after)-len(before))
			}
			puts = two()
			if err := b.PutAll(t.Context(), puts); err != nil {
				t.Fatal(err)
			}
			l.key, l.step = puts[1].Key, l.step+2
			l.add(t, set("a", uint64(l.step+2), "alone"))
		}
		got := list(t, s, checkpoint.Query{Thread: "thread"})
		if len(got) != 6 || string(got[1].Values["a"].Data) != "first" || len(got[0].Values["list"].Items) != 2 {
			t.Errorf("got %d checkpoints, want 6; the newest: %v and %v", len(got), got[0].Values, got[1].Values)
		}
		stale := l.next()
		stale.Head = got[3].ID
		wantErr(t, "first put with an older head", b.PutAll(t.Context(), []*checkpoint.Put{stale}), checkpoint.ErrConflict)
	}),
	able("PruneFollowsRetention", func(t *testing.T, s checkpoint.Saver, p checkpoint.Pruner) {
		now := time.Now()
		for i, test := range []struct {
			name string
			keep checkpoint.Retention
			want []int // of 0 (oldest) to 5 (head)
		}{
			{"only heads", checkpoint.Retention{}, []int{5}},
			{"last two", checkpoint.Retention{KeepLast: 2}, []int{4, 5}},
			{"more than exist", checkpoint.Retention{KeepLast: 99}, []int{0, 1, 2, 3, 4, 5}},
			{"young", checkpoint.Retention{MaxAge: 210 * time.Minute}, []int{3, 4, 5}},
			{"interrupted", checkpoint.Retention{KeepInterrupted: true}, []int{1, 2, 5}},
			{"either rule", checkpoint.Retention{KeepLast: 2, KeepInterrupted: true}, []int{1, 2, 4, 5}},
			{"all rules", checkpoint.Retention{KeepLast: 1, MaxAge: 150 * time.Minute, KeepInterrupted: true}, []int{1, 2, 4, 5}},
		} {
			thread := fmt.Sprint("thread ", i)
			var keys []checkpoint.Key
			before := map[checkpoint.ID]*checkpoint.Checkpoint{}
			for _, ns := range []string{"", "ns"} {
				l := newLine(s, thread, ns)
				for j := range 6 {
					put := l.next(grow("l", uint64(j+1), j%2, fmt.Sprint(j)), set("j", uint64(j+1), fmt.Sprint(j)))
					put.ID = idAt(now.Add(time.Duration(j-6)*time.Hour), j)
					keys = append(keys, l.put(t, put))
				}
				l.write(t, keys[len(keys)-5], checkpoint.Write{Task: "t", Kind: checkpoint.Paused, Data: []byte("?")})
				l.write(t, keys[len(keys)-4], checkpoint.Write{Task: "t", Kind: checkpoint.Answers, Data: []byte("!")})
			}
			for _, k := range keys {
				before[k.ID] = get(t, s, k)
				before[k.ID].Namespace = "" // the IDs are the same in both
			}
			removed, err := p.Prune(t.Context(), thread, test.keep)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if want := 2 * (6 - len(test.want)); removed != want {
				t.Errorf("%s: %d removed, want %d", test.name, removed, want)
			}
			for _, ns := range []string{"", "ns"} {
				var want []checkpoint.Key
				for _, j := range slices.Backward(test.want) {
					want = append(want, keys[j])
				}
				left := list(t, s, checkpoint.Query{Thread: thread, Namespace: ns})
				wantIDs(t, test.name, left, want...)
				for _, cp := range left {
					cp.Namespace = ""
					if d := diff(before[cp.ID], cp); d != "" {
						t.Errorf("%s: remaining checkpoint changed (-before +after):\n%s", test.name, d)
					}
				}
				l := &line{saver: s, key: checkpoint.Key{Thread: thread, Namespace: ns, ID: keys[5].ID}, step: 6}
				wantValues(t, s, l.add(t, grow("l", 7, 0, "6")), values{"j": value(6, "5"), "l": items(7, append(listOf(before[keys[5].ID]), "6")...)})
			}
		}
	}),
	able("PruneUnknownThreadIsNotFound", func(t *testing.T, _ checkpoint.Saver, p checkpoint.Pruner) {
		n, err := p.Prune(t.Context(), "thread", checkpoint.Retention{})
		wantErr(t, "prune", err, checkpoint.ErrNotFound)
		if n != 0 {
			t.Errorf("%d checkpoints removed from a missing thread", n)
		}
	}),
	able("CopyThreadCopiesAll", func(t *testing.T, s checkpoint.Saver, c checkpoint.Copier) {
		l, ns := newLine(s, "from", ""), newLine(s, "from", "ns")
		l.add(t, grow("l", 1, 0, "1"))
		left := l.add(t, grow("l", 2, 0, "2"))
		fork := l.next(grow("l", 3, 0, "3"))
		fork.Parent, fork.RunID, fork.Metadata = l.key.ID, "run", []byte(`{"k":1}`)
		l.put(t, fork)
		l.write(t, left, checkpoint.Write{Task: "t", Kind: checkpoint.Failed, Data: []byte("x")})
		ns.add(t, set("a", 1, "1"))
		if err := c.CopyThread(t.Context(), "from", "to"); err != nil {
			t.Fatal(err)
		}
		snapshot := func(thread string) (all []*checkpoint.Checkpoint) {
			for _, ns := range []string{"", "ns"} {
				all = append(all, list(t, s, checkpoint.Query{Thread: thread, Namespace: ns})...)
			}
			for _, cp := range all {
				if cp.Thread != thread {
					t.Errorf("checkpoint of %q names thread %q", thread, cp.Thread)
				}
				cp.Thread = ""
			}
			return all
		}
		original := snapshot("from")
		if d := diff(original, snapshot("to")); d != "" {
			t.Errorf("copy (-from +to):\n%s", d)
		}
		// From here on, the copies are independent.
		dup := &line{saver: s, key: checkpoint.Key{Thread: "to", ID: l.key.ID}, step: 3}
		dup.write(t, dup.key, checkpoint.Write{Task: "u", Kind: checkpoint.Done, Data: []byte("x")})
		dup.add(t, grow("l", 4, 1, "copy"))
		if d := diff(original, snapshot("from")); d != "" {
			t.Errorf("original after the copy continued (-before +after):\n%s", d)
		}
		l.add(t, grow("l", 4, 0, "original"))
		wantValues(t, s, dup.key, values{"l": items(4, "1", "2", "copy")})
		if err := s.DeleteThread(t.Context(), "from"); err != nil {
			t.Fatal(err)
		}
		wantValues(t, s, dup.key, values{"l": items(4, "1", "2", "copy")})
	}),
	able("CopyThreadChecksSourceAndTarget", func(t *testing.T, s checkpoint.Saver, c checkpoint.Copier) {
		wantErr(t, "copy of a missing thread", c.CopyThread(t.Context(), "from", "to"), checkpoint.ErrNotFound)
		newLine(s, "from", "").add(t)
		there := newLine(s, "to", "").add(t, set("a", 1, "there"))
		wantErr(t, "copy onto an existing thread", c.CopyThread(t.Context(), "from", "to"), checkpoint.ErrConflict)
		wantErr(t, "copy onto itself", c.CopyThread(t.Context(), "from", "from"), checkpoint.ErrConflict)
		wantValues(t, s, there, values{"a": value(1, "there")})
	}),
	able("DeleteRunsRemovesCheckpoints", func(t *testing.T, s checkpoint.Saver, d checkpoint.RunDeleter) {
		add := func(l *line, run string) checkpoint.Key {
			p := l.next(grow("l", uint64(l.step+2), 0, run))
			p.RunID = run
			return l.put(t, p)
		}
		a, ns, b := newLine(s, "a", ""), newLine(s, "a", "ns"), newLine(s, "b", "")
		a1 := add(a, "one")
		a2 := add(a, "two")
		add(a, "three")
		add(ns, "three")
		b1 := add(b, "")
		b2 := add(b, "two")
		for _, runs := range [][]string{nil, {"unknown"}, {""}} {
			n, err := d.DeleteRuns(t.Context(), "a", runs)
			if n != 0 || err != nil {
				t.Errorf("delete runs %q: %d, %v; want none", runs, n, err)
			}
		}
		if n, err := d.DeleteRuns(t.Context(), "unknown", []string{"one"}); n != 0 || err != nil {
			t.Errorf("delete runs of a missing thread: %d, %v; want none", n, err)
		}
		n, err := d.DeleteRuns(t.Context(), "a", []string{"one", "three", "one"})
		if n != 3 || err != nil {
			t.Errorf("delete runs: %d, %v; want 3", n, err)
		}
		wantIDs(t, "thread a", list(t, s, checkpoint.Query{Thread: "a"}), a2)
		wantIDs(t, "namespace of thread a", list(t, s, checkpoint.Query{Thread: "a", Namespace: "ns"}))
		wantIDs(t, "thread b", list(t, s, checkpoint.Query{Thread: "b"}), b2, b1)
		wantValues(t, s, checkpoint.Key{Thread: "a"}, values{"l": items(2, "one", "two")})
		_, err = s.Get(t.Context(), a1)
		wantErr(t, "get of a removed checkpoint", err, checkpoint.ErrNotFound)
		// The newest remaining checkpoint is the head, and puts can follow it.
		a.key, a.step = a2, 1
		wantValues(t, s, add(a, "four"), values{"l": items(3, "one", "two", "four")})
		newLine(s, "a", "ns").add(t)
	}),
	able("DeleteRunsKeepsCopies", func(t *testing.T, s checkpoint.Saver, d checkpoint.RunDeleter) {
		c, ok := s.(checkpoint.Copier)
		if !ok {
			t.Log("the saver lacks checkpoint.Copier")
			return
		}
		add := func(l *line, run string) checkpoint.Key {
			p := l.next(grow("l", uint64(l.step+2), 0, run))
			p.RunID = run
			return l.put(t, p)
		}
		l, ns := newLine(s, "a", ""), newLine(s, "a", "ns")
		first := add(l, "one")
		add(l, "two")
		add(ns, "two")
		w := checkpoint.Write{Task: "t", Kind: checkpoint.Answers, Data: []byte("two"), RunID: "two"}
		l.write(t, first, w)
		for _, to := range [][2]string{{"a", "copy"}, {"copy", "copy of a copy"}} {
			if err := c.CopyThread(t.Context(), to[0], to[1]); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := d.DeleteRuns(t.Context(), "copy", []string{"two"}); n != 2 || err != nil {
			t.Errorf("delete runs: %d, %v; want 2", n, err)
		}
		if n, err := d.DeleteRuns(t.Context(), "copy", []string{"one"}); n != 1 || err != nil {
			t.Errorf("delete the last run: %d, %v; want 1", n, err)
		}
		wantIDs(t, "copy", list(t, s, checkpoint.Query{Thread: "copy"}))
		for _, thread := range []string{"a", "copy of a copy"} {
			wantIDs(t, thread, list(t, s, checkpoint.Query{Thread: thread}), l.key, first)
			wantIDs(t, thread, list(t, s, checkpoint.Query{Thread: thread, Namespace: "ns"}), ns.key)
			wantPending(t, s, checkpoint.Key{Thread: thread, ID: first.ID}, w)
		}
	}),
	able("DeleteRunsRemovesPendingWrites", func(t *testing.T, s checkpoint.Saver, d checkpoint.RunDeleter) {
		of := func(run, task string, kind checkpoint.WriteKind, data string) checkpoint.Write {
			return checkpoint.Write{Task: task, Kind: kind, Data: []byte(data), RunID: run}
		}
		for _, thread := range []string{"continues", "ends"} {
			for _, namespace := range []string{"", "ns"} {
				l := newLine(s, thread, namespace)
				p := l.next(set("a", 1, "1"))
				p.RunID = "one"
				asked := l.put(t, p)
				unnamed := checkpoint.Write{Task: "u", Kind: checkpoint.Failed, Data: []byte("unnamed")}
				l.write(t, asked, of("one", "t", checkpoint.Paused, "first?"), of("one", "b", checkpoint.Paused, "second?"), unnamed)
				// The second run answers, interrupts again, and finishes a
				// task.
				l.write(t, asked, of("two", "t", checkpoint.Answers, "yes"), of("two", "t", checkpoint.Paused, "third?"), of("two", "b", checkpoint.Done, "done"))
				l.write(t, asked, of("two", "t", checkpoint.Answers, "yes, yes"))
				wantPending(t, s, asked, of("two", "t", checkpoint.Paused, "third?"), of("one", "b", checkpoint.Paused, "second?"), unnamed,
					of("two", "t", checkpoint.Answers, "yes, yes"), of("two", "b", checkpoint.Done, "done"))
				if thread == "continues" {
					p := l.next(set("a", 2, "2"))
					p.RunID = "two"
					l.put(t, p)
				}
				if n, err := d.DeleteRuns(t.Context(), thread, []string{"two"}); err != nil || namespace == "" && n != strings.Count(thread, "continues") {
					t.Errorf("%s: delete the second run: %d, %v", thread, n, err)
				}
				l.key = asked
				wantPending(t, s, asked, of("one", "t", checkpoint.Paused, "first?"), of("one", "b", checkpoint.Paused, "second?"), unnamed)
				if head := get(t, s, checkpoint.Key{Thread: thread, Namespace: namespace}); head.ID != asked.ID {
					t.Errorf("%s: got head %s, want %s", thread, head.ID, asked.ID)
				}
				// A third run answers again.
				l.write(t, asked, of("three", "t", checkpoint.Answers, "no"), of("three", "t", checkpoint.Done, "refused"))
				l.step = 0
				l.add(t, set("a", 2, "3"))
				wantPending(t, s, asked, of("one", "t", checkpoint.Paused, "first?"), of("one", "b", checkpoint.Paused, "second?"), unnamed, of("three", "t", checkpoint.Answers, "no"))
			}
		}
	}),
	able("PruneKeepsInterruptsOfRuns", func(t *testing.T, s checkpoint.Saver, p checkpoint.Pruner) {
		l := newLine(s, "thread", "")
		asked, answered := l.add(t), l.add(t)
		l.add(t)
		l.write(t, asked, checkpoint.Write{Task: "t", Kind: checkpoint.Paused, Data: []byte("?"), RunID: "run"})
		l.write(t, answered, checkpoint.Write{Task: "t", Kind: checkpoint.Answers, Data: []byte("!"), RunID: "run"})
		if n, err := p.Prune(t.Context(), "thread", checkpoint.Retention{KeepInterrupted: true}); n != 0 || err != nil {
			t.Errorf("prune: %d, %v; want none", n, err)
		}
	}),
	able("SizeGrowsWithData", func(t *testing.T, s checkpoint.Saver, z checkpoint.Sizer) {
		_, err := z.Size(t.Context(), "thread")
		wantErr(t, "size of a missing thread", err, checkpoint.ErrNotFound)
		size := func() int64 {
			n, err := z.Size(t.Context(), "thread")
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		l := newLine(s, "thread", "")
		l.add(t, checkpoint.Change{Channel: "a", Version: 1, Data: make([]byte, 100_000)})
		one := size()
		if one < 100_000 {
			t.Errorf("thread with 100000 bytes: got size %d", one)
		}
		for range 10 {
			l.add(t, grow("l", 2, 0, "x"))
		}
		if ten := size(); ten <= one || ten > one+50_000 {
			t.Errorf("ten more small checkpoints grew the size from %d to %d: shared data must count once", one, ten)
		}
	}),
	able("ThreadsAreListedByName", func(t *testing.T, s checkpoint.Saver, tl checkpoint.ThreadLister) {
		var heads = map[string]checkpoint.ID{}
		for _, name := range []string{"b", "a", "c"} {
			l := newLine(s, name, "")
			l.add(t)
			heads[name] = l.add(t).ID
		}
		newLine(s, "a", "ns").add(t)
		var got []checkpoint.Thread
		for th, err := range tl.Threads(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if th.Bytes <= 0 {
				t.Errorf("thread %s: got %d bytes", th.Name, th.Bytes)
			}
			th.Bytes = 0
			got = append(got, th)
		}
		want := []checkpoint.Thread{
			{Name: "a", Head: heads["a"], Checkpoints: 3},
			{Name: "b", Head: heads["b"], Checkpoints: 2},
			{Name: "c", Head: heads["c"], Checkpoints: 2},
		}
		if d := diff(want, got); d != "" {
			t.Errorf("threads (-want +got):\n%s", d)
		}
		for range tl.Threads(t.Context()) {
			break
		}
		newLine(s, "d", "").add(t) // nothing is still locked
	}),
}

func listOf(cp *checkpoint.Checkpoint) (out []string) {
	for _, item := range cp.Values["l"].Items {
		out = append(out, string(item))
	}
	return out
}

// idAt returns an ID as if created at the given time. NewID never goes backward, even
// if the clock does.
func idAt(at time.Time, step int) (id checkpoint.ID) {
	tick := uint64(at.UnixNano())/100 + 0x01B21DD213814000
	binary.BigEndian.PutUint64(id[:8], tick<<4&^0xffff|6<<12|tick&0xfff)
	binary.BigEndian.PutUint16(id[8:], 0x8000|uint16(step)&0x3fff)
	id[15] = 1
	return id
}
