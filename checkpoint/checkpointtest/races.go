package checkpointtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

var races = []test{
	{"OneConcurrentWriterWins", func(t *testing.T, s checkpoint.Saver) {
		const writers, rounds = 8, 25
		l := newLine(s, "thread", "")
		key := l.add(t)
		line := []checkpoint.Key{key}
		for round := range rounds {
			puts := make([]*checkpoint.Put, writers)
			errs := make([]error, writers)
			start := make(chan struct{})
			var wg sync.WaitGroup
			for i := range writers {
				puts[i] = l.next(set("by", uint64(round+2), strconv.Itoa(i)), grow("l", uint64(round+2), 0, strconv.Itoa(i)))
				wg.Go(func() {
					<-start
					errs[i] = s.Put(t.Context(), puts[i])
				})
			}
			close(start)
			wg.Wait()
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					t.Fatalf("round %d: both %d and %d won", round, winner, i)
				case err == nil:
					winner = i
				case !errors.Is(err, checkpoint.ErrConflict):
					t.Fatalf("round %d: loser %d got %v, want %v", round, i, err, checkpoint.ErrConflict)
				}
			}
			if winner < 0 {
				t.Fatalf("round %d: no writer won", round)
			}
			l.key = puts[winner].Key
			l.step++
			line = append(line, l.key)
			head := get(t, s, checkpoint.Key{Thread: "thread"})
			if head.ID != l.key.ID || string(head.Values["by"].Data) != strconv.Itoa(winner) || len(head.Values["l"].Items) != round+1 {
				t.Fatalf("round %d: got head %s by %s with %d elements, want %s by %d with %d", round,
					head.ID, head.Values["by"].Data, len(head.Values["l"].Items), l.key.ID, winner, round+1)
			}
		}
		wantIDs(t, "namespace", list(t, s, checkpoint.Query{Thread: "thread"}), newestFirst(line)...)
	}},
	{"RetryingWritersFormOneSequence", func(t *testing.T, s checkpoint.Saver) {
		const writers, each = 6, 20
		newLine(s, "thread", "").add(t, set("n", 1, "0"), grow("l", 1, 0))
		stop := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					cp, err := s.Get(t.Context(), checkpoint.Key{Thread: "thread"})
					if err != nil {
						t.Errorf("reader: %v", err)
						return
					}
					consistent(t, cp)
					for cp, err := range s.List(t.Context(), checkpoint.Query{Thread: "thread", Limit: 3}) {
						if err != nil {
							t.Errorf("reader: %v", err)
							return
						}
						consistent(t, cp)
					}
				}
			})
		}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if err := addOne(t, s, fmt.Sprintf("%d/%d", w, i)); err != nil {
						t.Errorf("writer %d: %v", w, err)
						return
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		readers.Wait()

		all := list(t, s, checkpoint.Query{Thread: "thread"})
		if len(all) != writers*each+1 {
			t.Fatalf("got %d checkpoints, want %d", len(all), writers*each+1)
		}
		for i, cp := range all[:len(all)-1] {
			if cp.Parent != all[i+1].ID {
				t.Errorf("parent of %s: got %s, want its predecessor %s", cp.ID, cp.Parent, all[i+1].ID)
			}
		}
		var got, want []string
		for _, item := range all[0].Values["l"].Items {
			got = append(got, string(item))
		}
		for w := range writers {
			for i := range each {
				want = append(want, fmt.Sprintf("%d/%d", w, i))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if d := diff(want, got); d != "" {
			t.Errorf("elements added by the writers (-want +got):\n%s", d)
		}
	}},
	{"ConcurrentThreads", func(t *testing.T, s checkpoint.Saver) {
		const workers, each = 8, 20
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				l := newLine(s, fmt.Sprint("thread ", w), "")
				for i := range each {
					p := l.next(grow("l", uint64(i+1), 0, fmt.Sprint(w, "/", i)))
					if err := s.Put(t.Context(), p); err != nil {
						t.Errorf("worker %d: %v", w, err)
						return
					}
					l.key = p.Key
					l.step++
					if err := s.PutWrites(t.Context(), p.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}); err != nil {
						t.Errorf("worker %d: %v", w, err)
						return
					}
				}
			})
		}
		wg.Wait()
		for w := range workers {
			cp := get(t, s, checkpoint.Key{Thread: fmt.Sprint("thread ", w)})
			for i, item := range cp.Values["l"].Items {
				if string(item) != fmt.Sprint(w, "/", i) {
					t.Errorf("thread %d: got %s at index %d", w, item, i)
				}
			}
			if len(cp.Values["l"].Items) != each || len(cp.Pending) != 1 {
				t.Errorf("thread %d: got %d elements and %d writes, want %d and 1", w, len(cp.Values["l"].Items), len(cp.Pending), each)
			}
		}
	}},
	{"ConcurrentWritesAreAllSaved", func(t *testing.T, s checkpoint.Saver) {
		const tasks = 16
		l := newLine(s, "thread", "")
		key := l.add(t)
		var wg sync.WaitGroup
		for i := range tasks {
			wg.Go(func() {
				w := checkpoint.Write{Task: fmt.Sprintf("%02d", i), Kind: checkpoint.Done, Data: []byte(strconv.Itoa(i))}
				if err := s.PutWrites(t.Context(), key, 0, []checkpoint.Write{w}); err != nil {
					t.Errorf("task %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		pending := get(t, s, key).Pending
		slices.SortFunc(pending, func(a, b checkpoint.Write) int { return strings.Compare(a.Task, b.Task) })
		if len(pending) != tasks {
			t.Fatalf("got %d writes, want %d", len(pending), tasks)
		}
		for i, w := range pending {
			if w.Task != fmt.Sprintf("%02d", i) || string(w.Data) != strconv.Itoa(i) {
				t.Errorf("write %d: got %s: %s", i, w.Task, w.Data)
			}
		}
	}},
}

// addOne appends an item to the current head, retrying until it wins.
func addOne(t *testing.T, s checkpoint.Saver, item string) error {
	for {
		head, err := s.Get(t.Context(), checkpoint.Key{Thread: "thread"})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(head.Values["n"].Data))
		if err != nil {
			return err
		}
		l := &line{saver: s, key: head.Key, step: head.Step + 1}
		v := uint64(n + 2)
		err = s.Put(t.Context(), l.next(set("n", v, strconv.Itoa(n+1)), grow("l", v, 0, item)))
		if !errors.Is(err, checkpoint.ErrConflict) {
			return err
		}
	}
}

// consistent checks that a checkpoint comes from a single put.
func consistent(t *testing.T, cp *checkpoint.Checkpoint) {
	n, l := cp.Values["n"], cp.Values["l"]
	if strconv.Itoa(len(l.Items)) != string(n.Data) || l.Version != n.Version {
		t.Errorf("checkpoint %s: count %s at version %d, but %d elements at version %d", cp.ID, n.Data, n.Version, len(l.Items), l.Version)
	}
}
