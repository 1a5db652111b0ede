package crashtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/internal/test/system/backends"
)

// soakEnv makes the tests kill ten times as often, with graphs that no run
// before has had.
const soakEnv = "TREADLE_SOAK"

func TestKilledThreadsEndLikeUnkilled(t *testing.T) { onEach(t, crash) }

// enough returns the minimum number of kills. Under the race detector, a child takes
// several times as long: see package race.
func enough() int {
	if race.Enabled {
		return 15
	}
	return 100
}

// crash plays cases on one database, on two lanes, until there were enough
// kills.
func crash(t *testing.T, b *backends.Backend, address string) {
	const lanes = 2
	base, kills := uint64(1), enough()
	if os.Getenv(soakEnv) != "" {
		kills *= 10
		base = uint64(time.Now().UnixNano())
	}
	t.Logf("the first seed is %d", base)
	var total, spared, again atomic.Int64
	t.Run("lanes", func(t *testing.T) {
		for lane := range uint64(lanes) {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for seed := base + lane*1_000_000; total.Load() < int64(kills) && !t.Failed(); seed += casesThreads {
					t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
						c := newCase(t, b, address, seed)
						total.Add(int64(c.play()))
						j := c.readJournal()
						spared.Add(int64(j.spared))
						again.Add(int64(j.again))
					})
				}
			})
		}
	})
	if err := b.Check(t.Context(), address); err != nil {
		t.Error(err)
	}
	t.Logf("%d kills: %d effects happened again, none of them of the %d nodes whose result was recorded before their step was over", total.Load(), again.Load(), spared.Load())
	if spared.Load() == 0 && !race.Enabled && !t.Failed() {
		t.Error("no node's result was recorded before its step was over")
	}
	if n := total.Load(); n < int64(kills) && !t.Failed() {
		t.Errorf("%d kills, want at least %d", n, kills)
	}
}

// casesThreads is the number of threads per case.
const casesThreads = 4

// testCase is a database, its threads, and their expected contents.
type testCase struct {
	*testing.T
	order
	rnd *rand.Rand

	seen map[line][]stored // after the last kill, oldest first
}

// opened opens the database, until closeDB is called.
func (c *testCase) opened() (db backends.Database, closeDB func()) {
	c.Helper()
	db, err := c.open()
	if err != nil {
		c.Fatal(err)
	}
	return db, func() {
		if err := db.Close(); err != nil {
			c.Error(err)
		}
	}
}

// A line is a namespace of a thread.
type line struct{ thread, namespace string }

// stored is a checkpoint as read from the database.
type stored struct {
	id  checkpoint.ID
	sum [sha256.Size]byte
}

func newCase(t *testing.T, b *backends.Backend, address string, seed uint64) *testCase {
	c := &testCase{T: t, rnd: rand.New(rand.NewPCG(seed, 3)), seen: map[line][]stored{},
		order: order{Role: "player", Backend: b.Name, Address: address, Journal: filepath.Join(t.TempDir(), "journal")}}
	for i := range uint64(casesThreads) {
		c.Seeds = append(c.Seeds, seed+i)
	}
	return c
}

// play starts child processes until the threads are finished, and reports how
// many of them were killed.
func (c *testCase) play() (kills int) {
	const tooMany = 400
	for range tooMany {
		killed, left := c.playOnce()
		if killed {
			kills++
		}
		c.check()
		if c.Failed() {
			return kills
		}
		if !killed && !left {
			c.compare()
			return kills
		}
	}
	c.Fatalf("threads unfinished after %d processes", tooMany)
	return 0
}

// playOnce runs one process. left reports whether interrupts may be pending.
func (c *testCase) playOnce() (killed, left bool) {
	o := c.order
	o.Leave, o.Afterward = c.rnd.IntN(3) == 0, c.rnd.IntN(2) == 0
	var delay time.Duration
	early := false // count the delay from the start, so that it may die while it opens the database
	switch c.rnd.IntN(8) {
	case 0, 1:
		o.AtEffect = 1 + c.rnd.IntN(15)
	case 2, 3, 4:
		o.AtPut = 1 + c.rnd.IntN(25)
	case 5, 6:
		delay = c.delay()
	case 7:
		delay, early = c.delay(), true
	}
	p := start(c.T, o)
	if !early {
		_, _ = bufio.NewReader(p.out).ReadString('\n') // ready, or ended
	}
	if delay > 0 {
		timer := time.AfterFunc(delay, func() { _ = p.Process.Kill() }) // it may have ended
		defer timer.Stop()
	}
	return p.end(c.T), o.Leave
}

// delay returns a short time, usually a very short one: a child without the race
// detector finishes within milliseconds.
func (c *testCase) delay() time.Duration {
	return 1 + time.Duration(c.rnd.Int64N(int64(100*time.Millisecond)>>c.rnd.IntN(7)))
}

// check compares what is stored with what is known: nothing that was seen or
// acknowledged is gone or changed, nothing that was recorded has run again, and
// no key has had two effects.
func (c *testCase) check() {
	c.Helper()
	db, closeDB := c.opened()
	defer closeDB()
	j := c.readJournal()
	lines := map[line]bool{}
	for _, seed := range c.Seeds {
		lines[line{threadName(seed), ""}] = true
	}
	for _, p := range j.puts {
		lines[p.line] = true
	}
	found := map[checkpoint.ID]line{}
	for l := range lines {
		var now []stored
		for cp, err := range db.List(c.Context(), checkpoint.Query{Thread: l.thread, Namespace: l.namespace}) {
			if err != nil {
				c.Fatalf("list %v: %v", l, err)
			}
			cp.Pending = nil // comes and goes
			raw, err := json.Marshal(cp)
			if err != nil {
				c.Fatal(err)
			}
			now = append(now, stored{cp.ID, sha256.Sum256(raw)})
			found[cp.ID] = l
		}
		slices.Reverse(now)
		if was := c.seen[l]; len(now) < len(was) || !slices.Equal(now[:len(was)], was) {
			c.Errorf("history of %v:\n%v\ndoes not start with the previous history:\n%v", l, ids(now), ids(was))
		}
		c.seen[l] = now
	}
	for _, p := range j.puts {
		if found[p.id] != p.line {
			c.Errorf("checkpoint %s of %v is gone, which was acknowledged", p.id, p.line)
		}
	}
}

func ids(all []stored) (out []string) {
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s %x", s.id, s.sum[:4]))
	}
	return out
}

// journal contains the events in the journal file.
type journal struct {
	puts []acked
	done map[string][]string // by thread: the effects, each key once

	spared int // nodes with an effect of their own whose result was recorded by itself
	again  int // effects that happened another time
}

type acked struct {
	line
	id checkpoint.ID
}

// readJournal reads it and checks what can be checked by it alone.
func (c *testCase) readJournal() *journal {
	c.Helper()
	raw, err := os.ReadFile(c.Journal)
	if err != nil && !os.IsNotExist(err) { // the first process may have died before it
		c.Fatal(err)
	}
	out := &journal{done: map[string][]string{}}
	recorded := map[string]bool{}
	effects := map[string]string{}
	for text := range strings.Lines(string(raw)) {
		part := strings.Split(strings.TrimSuffix(text, "\n"), "\t")
		switch part[0] {
		case "put":
			id, err := checkpoint.ParseID(part[1])
			if err != nil {
				c.Fatalf("journal entry %q: %v", text, err)
			}
			out.puts = append(out.puts, acked{line{part[2], part[3]}, id})
		case "recorded":
			if strings.Contains(effects[part[1]], " bare") && !recorded[part[1]] {
				out.spared++
			}
			recorded[part[1]] = true
		case "effect":
			key, thread, what := part[1], part[2], part[3]
			if recorded[key] {
				c.Errorf("%s of thread %s ran again after its result was recorded (key %s)", what, thread, key)
			}
			was, again := effects[key]
			if again && was != thread+" "+what {
				c.Errorf("key %s is of %s and of %s %s", key, was, thread, what)
			}
			if again {
				out.again++
			} else {
				effects[key] = thread + " " + what
				out.done[thread] = append(out.done[thread], what)
			}
		default:
			c.Fatalf("journal entry %q", text)
		}
	}
	return out
}

// moment is a checkpoint without what differs from run to run.
type moment struct {
	Step   int
	Source checkpoint.Source
	Next   []string
	Values string
}

// compare holds the finished threads against runs without a kill.
func (c *testCase) compare() {
	c.Helper()
	db, closeDB := c.opened()
	defer closeDB()
	effects := c.readJournal().done
	for _, seed := range c.Seeds {
		killed, err := newPlayer(seed, &world{}, db)
		if err != nil {
			c.Fatal(err)
		}
		got := c.moments(killed)
		want, wantEffects := c.undisturbed(seed)
		if diff := cmp.Diff(want, got); diff != "" {
			c.Errorf("thread %s differs from a run without kills (-without +with):\n%s", threadName(seed), diff)
		}
		if durability(seed) != treadle.Sync {
			continue
		}
		gotEffects := effects[threadName(seed)]
		slices.Sort(gotEffects)
		if diff := cmp.Diff(wantEffects, gotEffects); diff != "" {
			c.Errorf("effects of thread %s differ from a run without kills (-without +with):\n%s", threadName(seed), diff)
		}
	}
}

// undisturbed runs a thread without interruption on the memory saver.
func (c *testCase) undisturbed(seed uint64) ([]moment, []string) {
	c.Helper()
	var mu sync.Mutex
	done := map[string]string{}
	w := &world{tell: func(text string) error {
		mu.Lock()
		defer mu.Unlock()
		if part := strings.Split(text, "\t"); part[0] == "effect" {
			if was, again := done[part[1]]; again && was != part[3] {
				return fmt.Errorf("key %s is of %s and of %s", part[1], was, part[3])
			}
			done[part[1]] = part[3]
		}
		return nil
	}}
	p, err := newPlayer(seed, w, &watched{checkpoint.NewMemory(), w})
	if err != nil {
		c.Fatal(err)
	}
	if err := p.play(c.Context(), false); err != nil {
		c.Fatalf("seed %d without kills: %v", seed, err)
	}
	var effects []string
	for _, what := range done {
		effects = append(effects, what)
	}
	slices.Sort(effects)
	return c.moments(p), effects
}

func (c *testCase) moments(p *player) (out []moment) {
	c.Helper()
	for snap, err := range p.thread.History(c.Context(), nil) {
		if err != nil {
			c.Fatal(err)
		}
		values, err := json.Marshal(snap.State)
		if err != nil {
			c.Fatal(err)
		}
		out = append(out, moment{snap.Step, snap.Source, snap.Next, string(values)})
	}
	slices.Reverse(out)
	return out
}

// What the other tests compare with is the same each time, and has all that a
// graph can have in it.
func TestSameSeedPlaysTheSame(t *testing.T) {
	c := &testCase{T: t}
	kinds := map[string]bool{}
	seeds := []uint64{1794718135416631318} // a graph for the thread in one that is not stored, which runs twice
	for seed := range uint64(40) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		history, effects := c.undisturbed(seed)
		againHistory, againEffects := c.undisturbed(seed)
		if diff := cmp.Diff(history, againHistory) + cmp.Diff(effects, againEffects); diff != "" {
			t.Errorf("seed %d plays differently a second time (-first +second):\n%s", seed, diff)
		}
		last := history[len(history)-1]
		for _, name := range append(effects, strings.FieldsFunc(last.Values, func(r rune) bool { return strings.ContainsRune(`",[]{}:`, r) })...) {
			kinds[strings.TrimRight(name, "(=)0123456789")] = true
		}
	}
	for kind := range strings.FieldsSeq("plain fan arm slow join spread worker gather fork meet odd even body leave part short long longer last moody command heard told obeyed bare do task deep") {
		if !kinds[kind] {
			t.Errorf("no graph has a %q", kind)
		}
	}
}
