package checkpointtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
)

// Benchmark measures a saver: saving the steps of a [Conversation], sequentially and on
// 100 concurrent threads, the size of 500 turns, reading, listing, and pruning them,
// and the pending writes of a wide step. Optional interfaces are measured if the saver
// implements them. open returns an empty saver and a function that returns its size on
// disk in bytes, or nil. It is called once per benchmark and cleans up with b.Cleanup.
func Benchmark(b *testing.B, open func(b *testing.B) (s checkpoint.Saver, disk func() int64)) {
	saver := func(b *testing.B) checkpoint.Saver {
		s, _ := open(b)
		return s
	}
	b.Run("Step", func(b *testing.B) { benchStep(b, saver(b)) })
	b.Run("500Turns", func(b *testing.B) {
		for b.Loop() {
			bench500Turns(b, open)
		}
	})
	for _, turns := range []int{5, 500} {
		b.Run(fmt.Sprint("Get/", 2*turns, " messages"), func(b *testing.B) { benchGet(b, saver(b), turns) })
	}
	b.Run("ListNewest10Of10000", func(b *testing.B) { benchList(b, saver(b)) })
	b.Run("100Threads", func(b *testing.B) { bench100Threads(b, saver(b)) })
	b.Run("WritesOf1000Tasks", func(b *testing.B) { benchWrites(b, saver(b)) })
	b.Run("Prune", func(b *testing.B) {
		if s, ok := saver(b).(pruned); ok {
			benchPrune(b, s)
		}
	})
}

func benchStep(b *testing.B, s checkpoint.Saver) {
	c := NewConversation(s, "thread")
	c.Turn(b)
	c.took = nil
	b.ReportAllocs()
	for b.Loop() {
		c.Turn(b)
	}
	b.ReportMetric(micros(percentile(c.took, 50)), "p50-µs/step")
	b.ReportMetric(micros(percentile(c.took, 99)), "p99-µs/step")
	b.ReportMetric(micros(b.Elapsed())/float64(len(c.took)), "mean-µs/step")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func bench500Turns(b *testing.B, open func(b *testing.B) (checkpoint.Saver, func() int64)) {
	s, disk := open(b)
	empty := int64(0)
	if disk != nil {
		empty = disk()
	}
	c := NewConversation(s, "thread")
	c.turns(b, 500)
	if disk != nil {
		b.ReportMetric(float64(disk()-empty)/float64(c.Bytes), "bytes/message-byte")
	}
	b.ReportMetric(micros(percentile(c.took, 50)), "p50-µs/step")
	early, late := c.took[27:57], c.took[len(c.took)-30:]
	b.ReportMetric(float64(percentile(late, 50))/float64(percentile(early, 50)), "turn500/turn10")
}

func benchGet(b *testing.B, s checkpoint.Saver, turns int) {
	NewConversation(s, "thread").turns(b, turns)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), checkpoint.Key{Thread: "thread"}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchList(b *testing.B, s checkpoint.Saver) {
	c := NewConversation(s, "thread")
	for range 10_000 {
		c.version++
		c.put(b, checkpoint.Loop, `{"next":["a"],"last":["b"]}`, set("n", c.version, fmt.Sprint(c.version)))
	}
	for name, want := range map[string]map[string]any{"all": nil, "by metadata": {"user": "ada"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range s.List(b.Context(), checkpoint.Query{Thread: "thread", Limit: 10, Metadata: want}) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
				if n != 10 {
					b.Fatal(n)
				}
			}
		})
	}
}

func bench100Threads(b *testing.B, s checkpoint.Saver) {
	var steps atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c := NewConversation(s, fmt.Sprint("thread ", i))
			for steps.Add(3) <= int64(b.N) {
				c.Turn(b)
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}

func benchWrites(b *testing.B, s checkpoint.Saver) {
	c := NewConversation(s, "thread")
	ws := make([]checkpoint.Write, 1000)
	for i := range ws {
		ws[i] = checkpoint.Write{Task: fmt.Sprintf("%032x", i), Kind: checkpoint.Done, Data: []byte(`{"writes":[{"field":"n","value":1}]}`)}
	}
	for b.Loop() {
		c.put(b, checkpoint.Loop, `{}`)
		if err := s.PutWrites(b.Context(), c.key, 0, ws); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/task")
}

// pruned is a saver that can prune a thread and copy it first.
type pruned interface {
	checkpoint.Saver
	checkpoint.Pruner
	checkpoint.Copier
}

func benchPrune(b *testing.B, s pruned) {
	NewConversation(s, "thread").turns(b, 500)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		name := fmt.Sprint("copy ", i)
		if err := s.CopyThread(b.Context(), "thread", name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := s.Prune(b.Context(), name, checkpoint.Retention{KeepLast: 10}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.DeleteThread(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
