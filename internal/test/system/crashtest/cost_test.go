package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// message looks like one of a model.
type message struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Content string `json:"content"`
}

type chat struct{ Messages reduce.List[message] }

type spoken struct{ Messages reduce.List[message] }

// speaker generates messages of about 400 bytes.
type speaker struct {
	rnd   *rand.Rand
	bytes int // of their JSON so far
}

var words = strings.Fields("a treadle turns the wheel and a thread goes through every loom that stands in this long room where nobody has spoken since the evening bell rang")

func (s *speaker) say(kind string) message {
	var b strings.Builder
	for b.Len() < 340 {
		b.WriteString(words[s.rnd.IntN(len(words))])
		b.WriteByte(' ')
	}
	m := message{kind, fmt.Sprintf("%016x", s.rnd.Uint64()), b.String()}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings have JSON
	}
	s.bytes += len(raw)
	return m
}

// A costed saver reports the size of a thread.
type costed struct {
	checkpoint.Saver
	size  func() int64 // bytes where they are kept
	times int64        // how many times the messages' JSON a conversation may take
}

func costOfMemory(t *testing.T) costed {
	m := checkpoint.NewMemory()
	return costed{m, func() int64 {
		n, err := m.Size(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}, 2}
}

func costOf(t *testing.T, b *backends.Backend) costed {
	address := b.Address(t)
	db := b.Opened(t, address)
	size := func() int64 {
		n, err := b.Size(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	empty := size() // which all threads share
	return costed{db, func() int64 { return size() - empty }, b.SizeFactor}
}

// A conversation of n turns takes O(n) bytes, and a turn does not get slower
// while the thread is in the process. Nothing here is concurrent, so databases
// are measured without the race detector: see package race.
func TestConversationStaysWithinCost(t *testing.T) {
	t.Run("memory", func(t *testing.T) { conversationCosts(t, costOfMemory(t)) })
	if race.Enabled {
		return
	}
	for _, b := range backends.All {
		t.Run(b.Name, func(t *testing.T) { conversationCosts(t, costOf(t, b)) })
	}
}

func conversationCosts(t *testing.T, db costed) {
	const turns = 500
	sp := &speaker{rnd: rand.New(rand.NewPCG(5, 6))}
	b := treadle.New[chat]("chat")
	treadle.AddNode(b, "model", func(context.Context, chat) (spoken, error) {
		return spoken{reduce.List[message]{sp.say("ai")}}, nil
	})
	b.Edge(treadle.Start, "model")
	g, err := b.Compile(&treadle.Options{Saver: db.Saver, Check: new(false)}) // the check reads the whole input
	if err != nil {
		t.Fatal(err)
	}
	turnOf := func(thread string) {
		if _, err := g.Thread(thread).Run(t.Context(), chat{reduce.List[message]{sp.say("human")}}); err != nil {
			t.Fatal(err)
		}
	}
	turn := func() { turnOf("t") }
	// Turns are measured in windows, because files grow by pages, and those of
	// bytes are 80 turns wide, in which 160 messages are packed just 5 times.
	const window, wide = 20, 80
	allocs, memory, size := map[int]float64{}, map[int]float64{}, map[int]int64{}
	for n := 0; n < turns; {
		n += window
		memory[n], allocs[n] = allocated(window, turn)
		size[n] = db.size()
	}
	grown := func(n int) int64 { return size[n] - size[n-wide] }
	said := sp.bytes
	t.Logf("%d bytes for %d of messages, %.2f times; up to turn 100 %d turns took %d bytes, up to turn %d %d; a turn made %.0f allocations of %.0f bytes at first, %.0f of %.0f at last",
		size[turns], said, float64(size[turns])/float64(said), wide, grown(100), turns, grown(turns), allocs[window], memory[window], allocs[turns], memory[turns])
	if float64(grown(turns)) > 1.5*float64(grown(100)) {
		t.Errorf("last %d turns took %d bytes and those up to turn 100 took %d: want at most 1.5 times as much", wide, grown(turns), grown(100))
	}
	if size[turns] > db.times*int64(said) {
		t.Errorf("there are %d bytes for messages of %d: want at most %d times as much", size[turns], said, db.times)
	}
	if allocs[turns] > 1.5*allocs[window] {
		t.Errorf("last turns made %.0f allocations each and the first %.0f: want at most 1.5 times as many", allocs[turns], allocs[window])
	}
	if memory[turns] > 1.5*memory[window] {
		t.Errorf("last turns took %.0f bytes of memory each and the first %.0f: want at most 1.5 times as much", memory[turns], memory[window])
	}
	count, messages := 0, 0
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		if count == 0 {
			messages = len(cp.Values["Messages"].Items)
		}
		count++
	}
	if count != 3*turns || messages != 2*turns {
		t.Errorf("there are %d checkpoints and %d messages at last, want %d and %d", count, messages, 3*turns, 2*turns)
	}

	// Clocks are for comparing what is done in turns, so that whatever else the
	// machine does slows both down. The race detector looks at all of a list
	// that is passed on, so the factor is for what would be 50 times as much.
	for range 10 {
		turnOf("short")
	}
	const rounds = 31
	var short, long [rounds]time.Duration
	for i := range rounds {
		for thread, took := range map[string]*time.Duration{"short": &short[i], "t": &long[i]} {
			began := time.Now()
			turnOf(thread)
			*took = time.Since(began)
		}
	}
	slices.Sort(short[:])
	slices.Sort(long[:])
	t.Logf("a turn takes %v on a thread of %d turns and %v on one of 10", long[rounds/2], turns, short[rounds/2])
	if long[rounds/2] > 8*short[rounds/2] {
		t.Errorf("turn takes %v on a thread of %d turns and %v on one of 10", long[rounds/2], turns, short[rounds/2])
	}
}

// decodings counts how often a word was read.
var decodings atomic.Int64

type word string

func (w *word) UnmarshalJSON(raw []byte) error {
	decodings.Add(1)
	return json.Unmarshal(raw, (*string)(w))
}

type text struct{ Words reduce.List[word] }

// A look at a long thread decodes each element once, and that which the last step
// wrote once more, for Snapshot.Writes.
func TestStateDecodesOnce(t *testing.T) {
	b := treadle.New[text]("text")
	treadle.AddNode(b, "end", func(context.Context, text) (struct{ Words reduce.List[word] }, error) {
		return struct{ Words reduce.List[word] }{reduce.List[word]{"end"}}, nil
	})
	b.Edge(treadle.Start, "end")
	g, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	thread := g.Thread("t")
	if _, err := thread.Run(t.Context(), text{make(reduce.List[word], 99)}); err != nil {
		t.Fatal(err)
	}
	before := decodings.Load()
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got text
	if err := snap.Read(&got); err != nil {
		t.Fatal(err)
	}
	if n := decodings.Load() - before; n != 101 || len(got.Words) != 100 {
		t.Errorf("%d elements were decoded %d times, want each of 100 once and the last once more", len(got.Words), n)
	}
}

// allocated returns the memory and the number of allocations of a turn.
func allocated(n int, turn func()) (bytes, pieces float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		turn()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n), float64(after.Mallocs-before.Mallocs) / float64(n)
}
