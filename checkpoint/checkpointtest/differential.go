package checkpointtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
)

// Differential applies the same random operations to a database and to a
// [checkpoint.Memory]. It compares their results and, repeatedly, their entire contents.
// Optional interfaces are tested if the saver implements them.
//
// Two handles of the database take turns, so that the cached state of one is often
// outdated by the other. start creates an empty database, once per seed, and returns a
// function that opens handle 0 or 1. An open handle is closed with t.Cleanup; if it is an
// [io.Closer], it is occasionally closed earlier and reopened. check, which may be nil, is
// called with a handle after each comparison to verify the database's own invariants.
//
// Differential runs four seeds, or one under the race detector. TREADLE_SEEDS=n runs n
// additional seeds.
func Differential[S checkpoint.Saver](t *testing.T, start func(t *testing.T) (open func(t testing.TB, handle int) S), check func(t testing.TB, s S)) {
	t.Helper()
	seeds := uint64(4)
	if race.Enabled {
		seeds = 1 // operations are sequential
	}
	if env := os.Getenv("TREADLE_SEEDS"); env != "" {
		n, err := strconv.ParseUint(env, 10, 16)
		if err != nil {
			t.Fatalf("TREADLE_SEEDS: %v", err)
		}
		seeds += n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			open := start(t)
			var first S
			w := newWorld(t, seed, func(handle int) checkpoint.Saver {
				s := open(t, handle)
				if handle == 0 {
					first = s
				}
				return s
			})
			for range 10 {
				for range 30 {
					w.step()
				}
				w.compare()
				if check != nil {
					check(t, first)
				}
			}
		})
	}
}

// world applies the same operations to a Memory and a database.
type world struct {
	*testing.T
	rnd     *rand.Rand
	open    func(handle int) checkpoint.Saver
	mem     *checkpoint.Memory
	handles []checkpoint.Saver
	start   time.Time
	tick    int // tick of the last ID
	epoch   map[string]uint64
	lines   map[lineName][]checkpoint.ID // newest first; missing lines must be read
	log     []string
}

type lineName struct{ thread, namespace string }

var (
	worldThreads = []string{"a", "b", "c\x00\xff"}
	worldSpaces  = []string{"", "node:1", "node:1|child:2"}
)

func newWorld(t *testing.T, seed uint64, open func(handle int) checkpoint.Saver) *world {
	return &world{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), open: open, mem: checkpoint.NewMemory(),
		handles: []checkpoint.Saver{open(0), open(1)}, start: time.Now().Add(-500 * time.Hour)}
}

func (w *world) pick(words ...string) string { return words[w.rnd.IntN(len(words))] }

func (w *world) thread() string { return w.pick(worldThreads...) }

func (w *world) space() string { return w.pick(append([]string{"", ""}, worldSpaces...)...) }

// id returns the next ID, one minute after the previous ID.
func (w *world) id() (id checkpoint.ID) {
	w.tick++
	at := uint64(w.start.Add(time.Duration(w.tick)*time.Minute).UnixNano())/100 + 0x01B21DD213814000
	binary.BigEndian.PutUint64(id[:8], at<<4&^0xffff|6<<12|at&0xfff)
	binary.BigEndian.PutUint64(id[8:], 0x8000<<48|uint64(w.rnd.Uint32()))
	return id
}

// text returns a value that is occasionally long and often repeats an earlier one.
// Savers in this module store values of up to 48 bytes inline.
func (w *world) text() []byte {
	n := []int{0, 3, 48, 49, 150, 300, 900, 3000}[w.rnd.IntN(8)]
	return bytes.Repeat([]byte{byte('a' + w.rnd.IntN(4)), byte(w.rnd.IntN(256))}, (n+1)/2)[:n]
}

func (w *world) change() checkpoint.Change {
	c := checkpoint.Change{Channel: w.pick("list", "list", "log", "x", "y", "z", "v1", "v2", "v3", "v4", ""), Version: w.rnd.Uint64N(300)}
	switch {
	case w.rnd.IntN(12) == 0:
		c.Clear = true
	case c.Channel == "list", c.Channel == "log", w.rnd.IntN(8) == 0:
		c.List = true
		if w.rnd.IntN(4) == 0 {
			c.Drop = w.rnd.IntN(6)
		}
		if w.rnd.IntN(20) == 0 {
			c.Drop = 1000
		}
		for range w.rnd.IntN(4) {
			c.Items = append(c.Items, w.text())
		}
	default:
		c.Data = w.text()
	}
	return c
}

// writes returns pending writes; in a Put, each has a different task and kind.
func (w *world) writes(distinct bool) (ws []checkpoint.Write) {
	for range w.rnd.IntN(4) {
		one := checkpoint.Write{Task: w.pick("t", "u", "v\x00\xff"), Kind: checkpoint.WriteKind(w.pick("done", "done", "error", "interrupt", "resume", "other")), Data: w.text(), RunID: w.pick("", "r1", "r2", "r3")}
		if distinct && slices.ContainsFunc(ws, func(o checkpoint.Write) bool { return o.Task == one.Task && o.Kind == one.Kind }) {
			continue
		}
		ws = append(ws, one)
	}
	return ws
}

// all reads a line from Memory.
func (w *world) all(thread, space string) []*checkpoint.Checkpoint {
	return list(w.T, w.mem, checkpoint.Query{Thread: thread, Namespace: space})
}

// line returns the IDs of a line, newest first.
func (w *world) line(thread, space string) []checkpoint.ID {
	name := lineName{thread, space}
	if _, ok := w.lines[name]; !ok {
		if w.lines == nil {
			w.lines = map[lineName][]checkpoint.ID{}
		}
		w.lines[name] = ids(w.all(thread, space))
	}
	return w.lines[name]
}

// put returns a put, which is occasionally invalid.
func (w *world) put() *checkpoint.Put {
	p := &checkpoint.Put{Key: checkpoint.Key{Thread: w.thread(), Namespace: w.space(), ID: w.id()}, Step: w.rnd.IntN(50) - 1,
		Source: checkpoint.Source(w.pick("input", "loop", "update", "fork", "other")), RunID: w.pick("", "r1", "r2", "r3", "0190a6e2-6f3b-7000-8000-00000000000"+w.pick("1", "2"))}
	if m := w.pick("", `{"user":"ada"}`, `{"user":"bob","n":1}`); m != "" {
		p.Metadata = json.RawMessage(m)
	}
	line := w.line(p.Thread, p.Namespace)
	if len(line) > 0 {
		p.Head, p.Parent = line[0], line[0]
		switch w.rnd.IntN(10) {
		case 0, 1: // a fork
			p.Parent = line[w.rnd.IntN(len(line))]
		case 2: // from before the first checkpoint
			if w.rnd.IntN(3) == 0 {
				p.Parent = checkpoint.ID{}
			}
		}
	}
	for range w.rnd.IntN(5) {
		p.Changes = append(p.Changes, w.change())
	}
	if len(line) > 0 && w.rnd.IntN(2) == 0 { // a step often appends its input
		head := get(w.T, w.mem, checkpoint.Key{Thread: p.Thread, Namespace: p.Namespace})
		p.Changes = append(p.Changes, checkpoint.Change{Channel: "list", Version: 7, List: true, Items: [][]byte{head.Control}})
	}
	if w.rnd.IntN(5) == 0 {
		p.Pending = w.writes(true)
	}
	switch w.rnd.IntN(4) {
	case 0:
		p.Control = w.text()
	case 1:
		p.Control = []byte(`{"next":["a"]}`)
	case 2: // an input
		p.Control = fmt.Appendf(nil, `{"start":%s, "next": %d}`, bytes.Repeat(w.text(), 1+w.rnd.IntN(2)), w.tick)
	}
	p.Fence = w.epoch[p.Thread]
	w.spoil(p, line)
	return p
}

// spoil makes one put in five invalid.
func (w *world) spoil(p *checkpoint.Put, line []checkpoint.ID) {
	switch w.rnd.IntN(40) {
	case 0:
		p.Head = w.id()
	case 1:
		p.Parent = w.id()
	case 2:
		p.ID = checkpoint.ID{}
	case 3:
		p.ID = p.Head
	case 4:
		p.Fence = w.wrongFence(p.Fence, 0)
	case 5:
		p.Fence = w.wrongFence(p.Fence, 1)
	case 6, 7: // the put of a writer that lost a race
		if len(line) > 1 {
			p.Head, p.Parent = line[1], line[1]
		}
	}
}

// wrongFence returns a fence one below the epoch if kind is 0, and one above it if kind
// is 1.
func (w *world) wrongFence(epoch uint64, kind int) uint64 {
	if _, ok := w.handles[0].(checkpoint.Fencer); !ok {
		return 0
	}
	if kind == 1 {
		return epoch + 1
	}
	return epoch - min(1, epoch)
}

// do runs one operation on both savers and compares the results.
func (w *world) do(what string, op func(checkpoint.Saver) (int, error)) error {
	w.Helper()
	h := w.rnd.IntN(len(w.handles))
	w.log = append(w.log, fmt.Sprintf("handle %d: %s", h, what))
	wantN, want := op(w.mem)
	gotN, got := op(w.handles[h])
	for _, sentinel := range []error{checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrNotFound} {
		if errors.Is(want, sentinel) != errors.Is(got, sentinel) {
			w.fatal("database: %v, memory: %v", got, want)
		}
	}
	if (want == nil) != (got == nil) || wantN != gotN {
		w.fatal("database: %d, %v; memory: %d, %v", gotN, got, wantN, want)
	}
	return got
}

// doPut saves p in both savers.
func (w *world) doPut(p *checkpoint.Put) {
	w.Helper()
	line := w.line(p.Thread, p.Namespace)
	if w.do(fmt.Sprintf("put %q %q %s after %s, head %s, fence %d, run %q", p.Thread, p.Namespace, p.ID, p.Parent, p.Head, p.Fence, p.RunID),
		func(s checkpoint.Saver) (int, error) { return 0, s.Put(w.Context(), p) }) == nil {
		w.lines[lineName{p.Thread, p.Namespace}] = slices.Insert(line, 0, p.ID)
	}
}

// ably runs an operation that needs A, if the saver implements A. The operation may
// remove or create more than one checkpoint.
func ably[A any](w *world, what string, op func(A) (int, error)) {
	w.Helper()
	if _, ok := w.handles[0].(A); !ok {
		return
	}
	_ = w.do(what, func(s checkpoint.Saver) (int, error) { return op(s.(A)) })
	w.lines = nil
}

func (w *world) fatal(format string, args ...any) {
	w.Helper()
	w.Fatalf(format+"\nafter %s", append(args, strings.Join(w.log, "\n"))...)
}

func (w *world) step() {
	ctx := w.Context()
	switch n := w.rnd.IntN(100); {
	case n < 70:
		w.doPut(w.put())
	case n < 84:
		w.putWrites()
	case n < 88:
		thread := w.thread()
		keep := checkpoint.Retention{KeepLast: w.rnd.IntN(12), KeepInterrupted: w.rnd.IntN(2) == 0}
		if w.rnd.IntN(3) == 0 { // up to the midpoint between two IDs
			keep.MaxAge = time.Since(w.start.Add(time.Duration(w.rnd.IntN(w.tick+1))*time.Minute + 30*time.Second))
		}
		ably(w, fmt.Sprintf("prune %q %+v", thread, keep), func(s checkpoint.Pruner) (int, error) { return s.Prune(ctx, thread, keep) })
	case n < 91:
		runs := []string{w.pick("", "r1", "r2", "r3"), "0190a6e2-6f3b-7000-8000-000000000001"}[:1+w.rnd.IntN(2)]
		thread := w.thread()
		ably(w, fmt.Sprintf("delete runs %q of %q", runs, thread), func(s checkpoint.RunDeleter) (int, error) { return s.DeleteRuns(ctx, thread, runs) })
	case n < 94:
		from, to := w.thread(), w.pick("copy", "a", "b")
		if len(w.line(from, "")) == 0 { // a thread with only a fence counts as missing
			return
		}
		if w.rnd.IntN(2) == 0 {
			w.deleteThread("copy")
		}
		ably(w, fmt.Sprintf("copy %q to %q", from, to), func(s checkpoint.Copier) (int, error) { return 0, s.CopyThread(ctx, from, to) })
	case n < 96:
		w.deleteThread(w.thread())
	case n < 98:
		thread, epoch := w.thread(), 1+w.rnd.Uint64N(8)
		ably(w, fmt.Sprintf("fence %q %d", thread, epoch), func(s checkpoint.Fencer) (int, error) { return 0, s.Fence(ctx, thread, epoch) })
	case n < 99:
		w.reopen(w.rnd.IntN(len(w.handles)))
	default:
		w.burst()
	}
	w.learnEpochs()
}

func (w *world) putWrites() {
	key := checkpoint.Key{Thread: w.thread(), Namespace: w.space()}
	if line := w.line(key.Thread, key.Namespace); len(line) > 0 && w.rnd.IntN(4) > 0 {
		key.ID = line[w.rnd.IntN(len(line))]
	}
	ws, fence := w.writes(false), w.epoch[key.Thread]
	if kind := w.rnd.IntN(20); kind < 2 {
		fence = w.wrongFence(fence, kind)
	}
	_ = w.do(fmt.Sprintf("%d writes at %v, fence %d", len(ws), key, fence),
		func(s checkpoint.Saver) (int, error) { return 0, s.PutWrites(w.Context(), key, fence, ws) })
}

func (w *world) deleteThread(thread string) {
	ably(w, fmt.Sprintf("delete %q", thread), func(s checkpoint.Saver) (int, error) { return 0, s.DeleteThread(w.Context(), thread) })
}

func (w *world) reopen(handle int) {
	w.log = append(w.log, fmt.Sprintf("reopen handle %d", handle))
	if c, ok := w.handles[handle].(io.Closer); ok {
		if err := c.Close(); err != nil {
			w.fatal("close: %v", err)
		}
		w.handles[handle] = w.open(handle)
	}
}

// burst appends to one list often enough to trigger the work that savers do every few
// chunks.
func (w *world) burst() {
	for range 40 {
		p := &checkpoint.Put{Key: checkpoint.Key{Thread: "a", ID: w.id()}, Fence: w.epoch["a"], RunID: "r1",
			Changes: []checkpoint.Change{{Channel: "list", Version: 1, List: true, Items: [][]byte{w.text()}}}}
		if line := w.line("a", ""); len(line) > 0 {
			p.Parent, p.Head = line[0], line[0]
		}
		w.doPut(p)
	}
}

// learnEpochs determines the epochs from the fences that Memory rejects.
func (w *world) learnEpochs() {
	w.epoch = map[string]uint64{}
	for _, thread := range worldThreads {
		for e := uint64(0); ; e++ {
			// No checkpoint has this ID, so the call writes nothing and sets no fence.
			err := w.mem.PutWrites(w.Context(), checkpoint.Key{Thread: thread, ID: checkpoint.ID{1}}, e, nil)
			if !errors.Is(err, checkpoint.ErrFenced) {
				w.epoch[thread] = e
				break
			}
		}
	}
}

// compare compares the entire contents of both savers.
func (w *world) compare() {
	w.Helper()
	threads := append([]string{"copy"}, worldThreads...)
	for i, s := range w.handles {
		if l, ok := s.(checkpoint.ThreadLister); ok {
			if d := diff(w.threads(w.mem), w.threads(l)); d != "" {
				w.fatal("threads of handle %d (-memory +database):\n%s", i, d)
			}
		}
		for _, thread := range threads {
			for _, space := range worldSpaces {
				w.compareLine(i, checkpoint.Query{Thread: thread, Namespace: space})
			}
		}
	}
}

func (w *world) threads(s checkpoint.ThreadLister) (out []checkpoint.Thread) {
	for th, err := range s.Threads(w.Context()) {
		if err != nil {
			w.fatal("threads: %v", err)
		}
		th.Bytes = 0 // each saver counts differently
		out = append(out, th)
	}
	return out
}

// compareLine lists a line in several ways and gets a third of its checkpoints.
func (w *world) compareLine(handle int, q checkpoint.Query) {
	w.Helper()
	s, line := w.handles[handle], w.all(q.Thread, q.Namespace)
	if d := diff(line, w.list(s, q)); d != "" {
		w.fatal("line %q %q of handle %d (-memory +database):\n%s", q.Thread, q.Namespace, handle, d)
	}
	if len(line) == 0 {
		return
	}
	for _, want := range line {
		if w.rnd.IntN(3) > 0 {
			continue
		}
		cp, err := s.Get(w.Context(), want.Key)
		if err != nil {
			w.fatal("get: %v", err)
		}
		if d := diff(want, cp); d != "" {
			w.fatal("checkpoint %v of handle %d (-memory +database):\n%s", want.Key, handle, d)
		}
	}
	q.Limit, q.Before = w.rnd.IntN(30), line[w.rnd.IntN(len(line))].ID
	if w.rnd.IntN(2) == 0 {
		q.Metadata = map[string]any{"user": w.pick("ada", "bob", "eve")}
	}
	if d := diff(ids(w.list(w.mem, q)), ids(w.list(s, q))); d != "" {
		w.fatal("list %+v (-memory +database):\n%s", q, d)
	}
}

func (w *world) list(s checkpoint.Saver, q checkpoint.Query) (all []*checkpoint.Checkpoint) {
	for cp, err := range s.List(w.Context(), q) {
		if err != nil {
			w.fatal("list: %v", err)
		}
		all = append(all, cp)
	}
	return all
}
