package natsbus

import (
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/natstest"
)

// stamped returns events whose data starts with the time.
func stamped(thread uuid.UUID, n uint64) *ledger.Events {
	return &ledger.Events{Thread: thread, First: n, Last: n, Data: binary.BigEndian.AppendUint64(make([]byte, 0, 200), uint64(time.Now().UnixNano()))[:200]}
}

func BenchmarkAppend(b *testing.B) {
	for name, url := range map[string]func() string{
		"one server":       func() string { return natstest.New(b, nil).URL() },
		"cluster of three": func() string { return natstest.URLs(natstest.Cluster(b, 3)) },
	} {
		b.Run(name, func(b *testing.B) {
			bus := open(b, url(), nil)
			b.SetParallelism(100) // concurrently streamed threads
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				thread := uuid.New()
				for n := uint64(1); pb.Next(); n++ {
					if err := bus.Log().Append(b.Context(), stamped(thread, n)); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

// BenchmarkReaders reads 1,000 threads on one connection, each with a live reader, and appends to them in
// turn from another connection. It compares Read with an ordered JetStream consumer per thread.
func BenchmarkReaders(b *testing.B) {
	for name, read := range map[string]func(context.Context, *Bus, uuid.UUID, func([]byte)) error{"read": readWithBus, "ordered consumers": readWithConsumer} {
		b.Run(name, func(b *testing.B) { benchmarkReaders(b, read) })
	}
}

func benchmarkReaders(b *testing.B, read func(context.Context, *Bus, uuid.UUID, func([]byte)) error) {
	const threads, rate = 1000, 1000 // events a second
	s := natstest.New(b, func(o *server.Options) { o.JetStreamMaxMemory = 1 << 30 })
	writer, reader := open(b, s.URL(), nil), open(b, s.URL(), nil)
	before, goroutines := heap(), runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(b.Context())
	var mu sync.Mutex
	var took []time.Duration
	all := make(chan struct{}, threads+b.N)
	take := func(data []byte) {
		now := time.Now()
		mu.Lock()
		took = append(took, now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(data)))))
		mu.Unlock()
		all <- struct{}{}
	}
	ids := make([]uuid.UUID, threads)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = uuid.New()
		if err := writer.Log().Append(ctx, stamped(ids[i], 1)); err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			if err := read(ctx, reader, ids[i], take); err != nil {
				b.Error(err)
			}
		})
	}
	for range threads {
		<-all
	}
	start := time.Since(began)
	memory, more := heap()-before, runtime.NumGoroutine()-goroutines
	took = took[:0]
	b.ResetTimer()
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	var writers sync.WaitGroup
	for i := range b.N {
		<-tick.C
		writers.Go(func() {
			if err := writer.Log().Append(ctx, stamped(ids[i%threads], uint64(2+i/threads))); err != nil {
				b.Error(err)
			}
		})
	}
	writers.Wait()
	for range b.N {
		<-all
	}
	b.StopTimer()
	b.ReportMetric(float64(start.Milliseconds()), "start-ms")
	b.ReportMetric(float64(memory)/threads/1024, "KiB/reader")
	b.ReportMetric(float64(more)/threads, "goroutines/reader")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	cancel()
	wg.Wait()
}

// heap returns the memory of client and server: both run in this process.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func readWithBus(ctx context.Context, b *Bus, thread uuid.UUID, take func([]byte)) error {
	for e, err := range b.Log().Read(ctx, thread, 0, true) {
		if err != nil {
			return err
		}
		take(e.Data)
	}
	return nil
}

func readWithConsumer(ctx context.Context, b *Bus, thread uuid.UUID, take func([]byte)) error {
	js, err := jetstream.New(b.nc)
	if err != nil {
		return err
	}
	c, err := js.OrderedConsumer(ctx, b.stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{b.eventSubject(thread.String())}})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil // the end
		}
		_, data, err := decode(m.Data())
		if err != nil {
			return err
		}
		take(data)
	}
}
