package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
)

// conversation puts what a chat graph with ten further fields would: per turn
// the input, what the input did, and what the model said.
type conversation struct {
	db    checkpoint.Saver
	key   checkpoint.Key
	rnd   *rand.Rand
	step  int
	ver   uint64
	run   string
	bytes int             // of the messages' JSON
	took  []time.Duration // each put
}

func newConversation(db checkpoint.Saver, thread string) *conversation {
	return &conversation{db: db, key: checkpoint.Key{Thread: thread}, rnd: rand.New(rand.NewPCG(1, 2)), step: -1}
}

var words = strings.Fields("the owl of a night saw that it was not what they said and so on with more or less of every one in this while other people think about which way to go there")

// message is the JSON of one of 400 characters.
func (c *conversation) message(kind string) []byte {
	var b strings.Builder
	for b.Len() < 400 {
		b.WriteString(words[c.rnd.IntN(len(words))])
		b.WriteByte(' ')
	}
	raw, err := json.Marshal(struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Content string `json:"content"`
	}{kind, fmt.Sprintf("%016x%016x", c.rnd.Uint64(), c.rnd.Uint64()), b.String()[:400]})
	if err != nil {
		panic(err)
	}
	c.bytes += len(raw)
	return raw
}

func (c *conversation) put(tb testing.TB, source checkpoint.Source, control string, changes ...checkpoint.Change) {
	p := &checkpoint.Put{Key: c.key, Parent: c.key.ID, Head: c.key.ID, Step: c.step, Source: source, RunID: c.run,
		Metadata: json.RawMessage(`{"user":"ada","run_attempt":1}`), Changes: changes, Control: []byte(control)}
	p.ID = checkpoint.NewID(c.step, c.key.ID)
	start := time.Now()
	if err := c.db.Put(tb.Context(), p); err != nil {
		tb.Fatal(err)
	}
	c.took = append(c.took, time.Since(start))
	c.key.ID = p.ID
	c.step++
}

func (c *conversation) turn(tb testing.TB) {
	c.ver++
	c.run = fmt.Sprintf("%08x-%04x-7000-8000-%012x", c.rnd.Uint32(), c.ver&0xffff, c.rnd.Uint64()>>16)
	human, ai := c.message("human"), c.message("ai")
	grow := func(item []byte) checkpoint.Change {
		c.ver++
		return checkpoint.Change{Channel: "messages", Version: c.ver, List: true, Items: [][]byte{item}}
	}
	set := func(name, v string) checkpoint.Change {
		return checkpoint.Change{Channel: name, Version: c.ver, Data: []byte(v)}
	}
	c.put(tb, checkpoint.Input, `{"start":{"messages":[`+string(human)+`]},"next":["__start__"]}`)
	c.put(tb, checkpoint.Loop, `{"next":["model"],"last":["__start__"]}`, grow(human), set("count", fmt.Sprint(c.ver)))
	changes := []checkpoint.Change{grow(ai), set("mood", `"calm"`)}
	if c.ver < 10 {
		for i := range 10 {
			changes = append(changes, set(fmt.Sprintf("field_%d", i), fmt.Sprintf(`"value %d"`, i)))
		}
	}
	c.put(tb, checkpoint.Loop, `{"next":[],"last":["model"]}`, changes...)
}

func percentile(took []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(took))
	return s[(len(s)-1)*p/100]
}

// diskSize is that of all tables and indexes of the schema.
func diskSize(tb testing.TB, db *DB) (n int64) {
	err := db.pool.QueryRow(tb.Context(), "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'", db.schema).Scan(&n)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// vacuum does what the server does by itself from time to time.
func vacuum(tb testing.TB, db *DB) {
	for _, table := range []string{"line", "checkpoint", "chunk", "pending", "run", "thread"} {
		if _, err := db.pool.Exec(tb.Context(), "VACUUM "+db.quoted+"."+table); err != nil {
			tb.Fatal(err)
		}
	}
}

// A conversation costs what was said, and little more: 500 turns take at most
// three times the JSON of their messages, although the input of each is in its
// checkpoint once more, and turn 500 adds no more than turn 250 did.
func TestConversationTakesAtMostThreeTimesItsMessages(t *testing.T) {
	db := fresh(t, quick(t), Options{})
	empty := diskSize(t, db)
	c := newConversation(db, "thread")
	var sizes []int64
	for range 2 {
		for range 250 {
			c.turn(t)
		}
		sizes = append(sizes, diskSize(t, db)-empty)
	}
	if ratio := float64(sizes[1]) / float64(c.bytes); ratio > 3 {
		t.Errorf("%d bytes for %d of messages: %.2f times, want at most 3", sizes[1], c.bytes, ratio)
	}
	if ratio := float64(sizes[1]) / float64(sizes[0]); ratio > 2.1 {
		t.Errorf("the second half of the turns took %.2f times what the first did", ratio-1)
	}
}

// A step waits for the disk once, as a commit of a single row does: that is the
// measure beside it.
func BenchmarkStep(b *testing.B) {
	for _, sync := range []string{"on", "off"} {
		for name, o := range modes {
			b.Run(fmt.Sprint(name, "/sync=", sync), func(b *testing.B) {
				db := fresh(b, set(b, pgtest.URL(b), "synchronous_commit", sync), o)
				c := newConversation(db, "thread")
				c.turn(b)
				c.took = nil
				b.ReportAllocs()
				for b.Loop() {
					c.turn(b)
				}
				report(b, c.took)
			})
		}
		b.Run("one row/sync="+sync, func(b *testing.B) {
			db := fresh(b, set(b, pgtest.URL(b), "synchronous_commit", sync), Options{})
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := db.pool.Exec(b.Context(), "INSERT INTO "+db.quoted+".chunk (line, chain, seq, data) VALUES (1, 1, $1, $2)", len(took), make([]byte, 500)); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(start))
			}
			report(b, took)
		})
	}
}

func report(b *testing.B, took []time.Duration) {
	b.ReportMetric(float64(percentile(took, 50).Microseconds()), "p50-µs/step")
	b.ReportMetric(float64(percentile(took, 99).Microseconds()), "p99-µs/step")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(len(took)), "mean-µs/step")
}

func Benchmark500Turns(b *testing.B) {
	for b.Loop() {
		db := fresh(b, pgtest.URL(b), Options{})
		empty := diskSize(b, db)
		c := newConversation(db, "thread")
		for range 500 {
			c.turn(b)
		}
		b.ReportMetric(float64(diskSize(b, db)-empty)/float64(c.bytes), "bytes/message-byte")
		b.ReportMetric(float64(percentile(c.took, 50).Microseconds()), "p50-µs/step")
		early, late := c.took[27:57], c.took[len(c.took)-30:]
		b.ReportMetric(float64(percentile(late, 50))/float64(percentile(early, 50)), "turn500/turn10")
		if testing.Verbose() {
			rows, err := db.pool.Query(b.Context(), "SELECT c.relname || ' ' || pg_table_size(c.oid) || ' + ' || pg_indexes_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY 1", db.schema)
			if err != nil {
				b.Fatal(err)
			}
			for rows.Next() {
				var s string
				if err := rows.Scan(&s); err != nil {
					b.Fatal(err)
				}
				b.Log(s)
			}
		}
		vacuum(b, db)
		for range 500 {
			c.turn(b)
		}
		b.ReportMetric(float64(diskSize(b, db)-empty)/float64(c.bytes), "bytes/message-byte-at-1000-vacuumed-at-500")
	}
}

func BenchmarkGet(b *testing.B) {
	for name, o := range modes {
		for _, turns := range []int{5, 500} {
			b.Run(fmt.Sprint(name, " ", 2*turns, " messages"), func(b *testing.B) {
				db := fresh(b, pgtest.URL(b), o)
				c := newConversation(db, "thread")
				for range turns {
					c.turn(b)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := db.Get(b.Context(), checkpoint.Key{Thread: "thread"}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkListNewest10Of10000(b *testing.B) {
	db := fresh(b, pgtest.URL(b), Options{})
	c := newConversation(db, "thread")
	for range 10_000 {
		c.ver++
		c.put(b, checkpoint.Loop, `{"next":["a"],"last":["b"]}`, checkpoint.Change{Channel: "n", Version: c.ver, Data: []byte(fmt.Sprint(c.ver))})
	}
	for name, want := range map[string]map[string]any{"all": nil, "by metadata": {"user": "ada"}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range db.List(b.Context(), checkpoint.Query{Thread: "thread", Limit: 10, Metadata: want}) {
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

func Benchmark100Threads(b *testing.B) {
	for name, o := range modes {
		b.Run(name, func(b *testing.B) {
			o.MaxConns = 16
			db := fresh(b, pgtest.URL(b), o)
			var steps atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					c := newConversation(db, fmt.Sprint("thread ", i))
					for steps.Add(3) <= int64(b.N) {
						c.turn(b)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

func BenchmarkWritesOf1000Tasks(b *testing.B) {
	db := fresh(b, pgtest.URL(b), Options{})
	c := newConversation(db, "thread")
	ws := make([]checkpoint.Write, 1000)
	for i := range ws {
		ws[i] = checkpoint.Write{Task: fmt.Sprintf("%032x", i), Kind: checkpoint.Done, Data: []byte(`{"writes":[{"field":"n","value":1}]}`)}
	}
	for b.Loop() {
		c.put(b, checkpoint.Loop, `{}`)
		if err := db.PutWrites(b.Context(), c.key, 0, ws); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/task")
}

func BenchmarkPrune(b *testing.B) {
	db := fresh(b, pgtest.URL(b), Options{})
	c := newConversation(db, "thread")
	for range 500 {
		c.turn(b)
	}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		name := fmt.Sprint("copy ", i)
		if err := db.CopyThread(b.Context(), "thread", name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := db.Prune(b.Context(), name, checkpoint.Retention{KeepLast: 10}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := db.DeleteThread(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
