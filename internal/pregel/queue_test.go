package pregel

import (
	"testing"
	"testing/synctest"
)

func event(n int) *Event { return &Event{Data: Custom{}, Value: n} }

func TestQueueHandsOverAllEventsInOrder(t *testing.T) {
	q := NewQueue()
	for i := range 5 {
		q.push(event(i))
	}
	batch := q.Take()
	if len(batch) != 5 {
		t.Fatalf("took %d events, want 5", len(batch))
	}
	for i, ev := range batch {
		if ev.Value != i {
			t.Errorf("event %d is %v", i, ev.Value)
		}
	}
}

func TestQueueMakesWritersWaitWhileItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		pushed := 0
		go func() {
			for i := range queueLimit + 3 {
				q.push(event(i))
				pushed++
			}
			q.Close()
		}()
		synctest.Wait()
		if pushed != queueLimit {
			t.Fatalf("the writer is %d events ahead, want %d", pushed, queueLimit)
		}
		got := 0
		for batch := q.Take(); len(batch) > 0; batch = q.Take() {
			for _, ev := range batch {
				if ev.Value != got {
					t.Fatalf("event %v, want %d", ev.Value, got)
				}
				got++
			}
		}
		if got != queueLimit+3 {
			t.Errorf("took %d events, want %d", got, queueLimit+3)
		}
	})
}

func TestClosedQueueLetsWritersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 2 * queueLimit {
				q.push(event(i))
			}
		}()
		synctest.Wait()
		q.Close()
		<-done
		if n := len(q.Take()); n != queueLimit {
			t.Errorf("%d events are left, want those from before the close", n)
		}
		if n := len(q.Take()); n != 0 {
			t.Errorf("took %d events of an empty closed queue", n)
		}
	})
}

func TestReleasedQueueSharesNothing(t *testing.T) {
	q := NewQueue()
	q.push(event(1))
	q.Release()
	q.push(event(2)) // from an abandoned node
	next := NewQueue()
	next.push(event(3))
	if batch := next.Take(); len(batch) != 1 || batch[0].Value != 3 {
		t.Errorf("the next queue has %v", batch)
	}
	if batch := q.Take(); len(batch) != 0 {
		t.Errorf("the released queue has %v", batch)
	}
}
