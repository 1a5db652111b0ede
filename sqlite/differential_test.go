package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/treadle-go/treadle/checkpoint"
)

// Whatever is done, the file says what a Memory says. Two handles take turns,
// so that what one remembers is often behind what the other has done.
//
// TREADLE_SEEDS=n runs n further seeds.
func TestFileBehavesLikeMemory(t *testing.T) {
	t.Parallel()
	seeds := 4
	if env := os.Getenv("TREADLE_SEEDS"); env != "" {
		n, err := strconv.Atoi(env)
		if err != nil {
			t.Fatalf("TREADLE_SEEDS: %v", err)
		}
		seeds += n
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "test.db")
			w := &world{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), path: path, mem: checkpoint.NewMemory(), start: time.Now().Add(-500 * time.Hour)}
			w.handles = []*DB{open(t, path, nil), open(t, path, nil)}
			for range 6 {
				for range 40 {
					w.step()
				}
				w.compare()
			}
		})
	}
}

// world does the same to a Memory and to a file.
type world struct {
	*testing.T
	rnd     *rand.Rand
	path    string
	mem     *checkpoint.Memory
	handles []*DB
	start   time.Time
	tick    int // of the last id
	epoch   map[string]uint64
	lines   map[lineName][]checkpoint.ID // newest first; those not here are to be read
	log     []string
}

// both is what savers under comparison can do.
type both interface {
	checkpoint.Saver
	checkpoint.Pruner
	checkpoint.Copier
	checkpoint.RunDeleter
	checkpoint.Sizer
	checkpoint.ThreadLister
	checkpoint.Fencer
}

func (w *world) pick(words ...string) string { return words[w.rnd.IntN(len(words))] }

func (w *world) thread() string { return w.pick("a", "b", "c\x00\xff") }

func (w *world) space() string { return w.pick("", "", "", "node:1", "node:1|child:2") }

// id is the next id, a minute after the one before.
func (w *world) id() (id checkpoint.ID) {
	w.tick++
	at := uint64(w.start.Add(time.Duration(w.tick)*time.Minute).UnixNano())/100 + 0x01B21DD213814000
	binary.BigEndian.PutUint64(id[:8], at<<4&^0xffff|6<<12|at&0xfff)
	binary.BigEndian.PutUint64(id[8:], 0x8000<<48|uint64(w.rnd.Uint32()))
	return id
}

// text is now and then long, and often has been seen before.
func (w *world) text() []byte {
	n := []int{0, 3, inlineMax, inlineMax + 1, 150, 900}[w.rnd.IntN(6)]
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

// all reads a line from the Memory.
func (w *world) all(thread, space string) []*checkpoint.Checkpoint {
	return listed(w, w.mem, checkpoint.Query{Thread: thread, Namespace: space})
}

// line is the ids of a line, newest first.
func (w *world) line(thread, space string) []checkpoint.ID {
	name := lineName{thread, space}
	if _, ok := w.lines[name]; !ok {
		var ids []checkpoint.ID
		for _, cp := range w.all(thread, space) {
			ids = append(ids, cp.ID)
		}
		if w.lines == nil {
			w.lines = map[lineName][]checkpoint.ID{}
		}
		w.lines[name] = ids
	}
	return w.lines[name]
}

// doPut puts p into both.
func (w *world) doPut(p *checkpoint.Put) {
	w.Helper()
	line := w.line(p.Thread, p.Namespace)
	if w.do(fmt.Sprintf("put %q %q %s after %s, head %s, fence %d, run %q", p.Thread, p.Namespace, p.ID, p.Parent, p.Head, p.Fence, p.RunID),
		func(s both) (int, error) { return 0, s.Put(w.Context(), p) }) == nil {
		w.lines[lineName{p.Thread, p.Namespace}] = slices.Insert(line, 0, p.ID)
	}
}

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
		case 2: // from the beginning
			if w.rnd.IntN(3) == 0 {
				p.Parent = checkpoint.ID{}
			}
		}
	}
	for range w.rnd.IntN(5) {
		p.Changes = append(p.Changes, w.change())
	}
	switch w.rnd.IntN(4) {
	case 0:
		p.Control = w.text()
	case 1: // an input is often what the next step appends
		p.Control = fmt.Appendf(nil, `{"start":%s}`, w.text())
	case 2:
		p.Control = []byte(`{"next":["a"]}`)
	}
	for _, task := range []string{"t", "u"} {
		if w.rnd.IntN(6) == 0 {
			p.Pending = append(p.Pending, checkpoint.Write{Task: task, Kind: checkpoint.WriteKind(w.pick("done", "interrupt")), Data: w.text()})
		}
	}
	switch w.rnd.IntN(40) {
	case 0:
		p.Head = w.id()
	case 6, 7: // what a writer that was overtaken would say
		if len(line) > 1 {
			p.Head, p.Parent = line[1], line[1]
		}
	case 1:
		p.Parent = w.id()
	case 2:
		p.ID = checkpoint.ID{}
	case 3:
		p.ID = p.Head
	case 4:
		p.Fence = w.epoch[p.Thread] - min(1, w.epoch[p.Thread])
		return p
	case 5:
		p.Fence = w.epoch[p.Thread] + 1
		return p
	}
	p.Fence = w.epoch[p.Thread]
	return p
}

// do runs one operation on both and compares how it went.
func (w *world) do(what string, op func(both) (int, error)) error {
	w.Helper()
	h := w.rnd.IntN(len(w.handles))
	w.log = append(w.log, fmt.Sprintf("handle %d: %s", h, what))
	wantN, want := op(w.mem)
	gotN, got := op(w.handles[h])
	for _, sentinel := range []error{checkpoint.ErrConflict, checkpoint.ErrFenced, checkpoint.ErrNotFound} {
		if errors.Is(want, sentinel) != errors.Is(got, sentinel) {
			w.fatal("the file says %v, memory %v", got, want)
		}
	}
	if (want == nil) != (got == nil) || wantN != gotN {
		w.fatal("the file says %d, %v; memory %d, %v", gotN, got, wantN, want)
	}
	return got
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
		key := checkpoint.Key{Thread: w.thread(), Namespace: w.space()}
		if line := w.line(key.Thread, key.Namespace); len(line) > 0 && w.rnd.IntN(4) > 0 {
			key.ID = line[w.rnd.IntN(len(line))]
		}
		var ws []checkpoint.Write
		for range w.rnd.IntN(4) {
			ws = append(ws, checkpoint.Write{Task: w.pick("t", "u", "v"), Kind: checkpoint.WriteKind(w.pick("done", "done", "error", "interrupt", "resume", "other")), Data: w.text()})
		}
		fence := w.epoch[key.Thread]
		_ = w.do(fmt.Sprintf("%d writes at %v", len(ws), key), func(s both) (int, error) { return 0, s.PutWrites(ctx, key, fence, ws) })
	case n < 88:
		thread := w.thread()
		keep := checkpoint.Retention{KeepLast: w.rnd.IntN(12), KeepInterrupted: w.rnd.IntN(2) == 0}
		if w.rnd.IntN(3) == 0 { // up to the middle between two ids
			keep.MaxAge = time.Since(w.start.Add(time.Duration(w.rnd.IntN(w.tick+1))*time.Minute + 30*time.Second))
		}
		w.removes(fmt.Sprintf("prune %q %+v", thread, keep), func(s both) (int, error) { return s.Prune(ctx, thread, keep) })
	case n < 91:
		runs := []string{w.pick("", "r1", "r2", "r3"), "0190a6e2-6f3b-7000-8000-000000000001"}[:1+w.rnd.IntN(2)]
		w.removes(fmt.Sprintf("delete runs %q", runs), func(s both) (int, error) { return s.DeleteRuns(ctx, runs...) })
	case n < 94:
		from, to := w.thread(), w.pick("copy", "a", "b")
		if len(w.line(from, "")) == 0 { // a thread of a fence alone is as good as none
			return
		}
		if w.rnd.IntN(2) == 0 {
			w.removes("delete copy", func(s both) (int, error) { return 0, s.DeleteThread(ctx, "copy") })
		}
		w.removes(fmt.Sprintf("copy %q to %q", from, to), func(s both) (int, error) { return 0, s.CopyThread(ctx, from, to) })
	case n < 96:
		thread := w.thread()
		w.removes(fmt.Sprintf("delete %q", thread), func(s both) (int, error) { return 0, s.DeleteThread(ctx, thread) })
		delete(w.epoch, thread)
	case n < 98:
		thread, epoch := w.thread(), 1+w.rnd.Uint64N(8)
		_ = w.do(fmt.Sprintf("fence %q %d", thread, epoch), func(s both) (int, error) { return 0, s.Fence(ctx, thread, epoch) })
	case n < 99:
		i := w.rnd.IntN(len(w.handles))
		w.log = append(w.log, fmt.Sprintf("reopen handle %d", i))
		if err := w.handles[i].Close(); err != nil {
			w.fatal("close: %v", err)
		}
		w.handles[i] = open(w, w.path, nil)
	default: // a burst that fills packs
		for range 40 {
			line := w.line("a", "")
			p := &checkpoint.Put{Key: checkpoint.Key{Thread: "a", ID: w.id()}, Fence: w.epoch["a"], RunID: "r1",
				Changes: []checkpoint.Change{{Channel: "list", Version: 1, List: true, Items: [][]byte{w.text()}}}}
			if len(line) > 0 {
				p.Parent, p.Head = line[0], line[0]
			}
			w.doPut(p)
		}
	}
	w.learnEpochs()
}

// removes is do for what removes or makes more than one checkpoint.
func (w *world) removes(what string, op func(both) (int, error)) {
	w.Helper()
	_ = w.do(what, op)
	w.lines = nil
}

// learnEpochs finds the epochs by what is refused, from the Memory.
func (w *world) learnEpochs() {
	w.epoch = map[string]uint64{}
	for _, thread := range []string{"a", "b", "c\x00\xff", "copy"} {
		for e := uint64(0); ; e++ {
			// Nothing is at this id, so this writes nothing and moves no fence.
			err := w.mem.PutWrites(w.Context(), checkpoint.Key{Thread: thread, ID: checkpoint.ID{1}}, e, nil)
			if !errors.Is(err, checkpoint.ErrFenced) {
				w.epoch[thread] = e
				break
			}
		}
	}
}

// likeness compares bytes as such, which is a hundred times faster than one by
// one; what is empty may be nil.
var likeness = cmp.Options{
	cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) }),
	cmp.FilterPath(func(p cmp.Path) bool {
		t := p.Last().Type()
		return t == nil || t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8
	}, cmpopts.EquateEmpty()),
}

// compare reads everything from both.
func (w *world) compare() {
	w.Helper()
	ctx := w.Context()
	threads := func(s both) (out []checkpoint.Thread) {
		for th, err := range s.Threads(ctx) {
			if err != nil {
				w.fatal("threads: %v", err)
			}
			th.Bytes = 0 // each counts in its own way
			out = append(out, th)
		}
		return out
	}
	for i, db := range w.handles {
		all := threads(w.mem)
		if d := cmp.Diff(all, threads(db), likeness); d != "" {
			w.fatal("threads of handle %d (-memory +file):\n%s", i, d)
		}
		for _, th := range all {
			for _, space := range []string{"", "node:1", "node:1|child:2"} {
				line := w.all(th.Name, space)
				var got []*checkpoint.Checkpoint
				q := checkpoint.Query{Thread: th.Name, Namespace: space}
				for cp, err := range db.List(ctx, q) {
					if err != nil {
						w.fatal("list: %v", err)
					}
					got = append(got, cp)
				}
				if d := cmp.Diff(line, got, likeness); d != "" {
					w.fatal("line %q %q of handle %d (-memory +file):\n%s", th.Name, space, i, d)
				}
				w.compareQueries(db, q, line)
				for _, want := range line {
					if w.rnd.IntN(4) > 0 {
						continue
					}
					cp, err := db.Get(ctx, want.Key)
					if err != nil {
						w.fatal("get: %v", err)
					}
					if d := cmp.Diff(want, cp, likeness); d != "" {
						w.fatal("checkpoint %v of handle %d (-memory +file):\n%s", want.Key, i, d)
					}
				}
			}
		}
	}
	checkFile(w, w.handles[0])
}

// compareQueries lists with a limit, a bound and a filter.
func (w *world) compareQueries(db *DB, q checkpoint.Query, line []*checkpoint.Checkpoint) {
	w.Helper()
	if len(line) == 0 {
		return
	}
	q.Limit, q.Before = w.rnd.IntN(30), line[w.rnd.IntN(len(line))].ID
	if w.rnd.IntN(2) == 0 {
		q.Metadata = map[string]any{"user": w.pick("ada", "bob", "eve")}
	}
	ids := func(s checkpoint.Saver) (out []checkpoint.ID) {
		for cp, err := range s.List(w.Context(), q) {
			if err != nil {
				w.fatal("list: %v", err)
			}
			out = append(out, cp.ID)
		}
		return out
	}
	if want, got := ids(w.mem), ids(db); !slices.Equal(want, got) {
		w.fatal("list %+v gives %v, want %v", q, got, want)
	}
}

// checkFile checks what the file promises itself.
func checkFile(t testing.TB, db *DB) {
	t.Helper()
	err := db.read(t.Context(), func(c *conn) error {
		var verdict string
		if _, err := c.row("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
			t.Fatalf("integrity check: %s, %v", verdict, err)
		}
		for what, query := range map[string]string{
			"line whose count or bytes are wrong": `SELECT id FROM line l WHERE
				checkpoints<>(SELECT count(*) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR
				bytes<>(SELECT coalesce(sum(length(record)),0) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff)+(SELECT coalesce(sum(length(data)),0) FROM chunk WHERE line=l.id)`,
			"line without its head":                `SELECT id FROM line l WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key=(l.id<<32|l.at) AND id=l.head)`,
			"line whose head is not its newest":    `SELECT id FROM line l WHERE at<>(SELECT max(key)&0xffffffff FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR at>last`,
			"line that should be open":             `SELECT id FROM line l WHERE open=0 AND EXISTS (SELECT 1 FROM pending WHERE checkpoint=(l.id<<32|l.at) AND kind=x'646f6e65')`,
			"line without a thread":                `SELECT id FROM line WHERE thread NOT IN (SELECT id FROM thread)`,
			"checkpoint without a line":            `SELECT key FROM checkpoint WHERE key>>32 NOT IN (SELECT id FROM line)`,
			"checkpoint out of order":              `SELECT a.key FROM checkpoint a JOIN checkpoint b ON b.key=(SELECT min(key) FROM checkpoint WHERE key>a.key) WHERE a.key>>32=b.key>>32 AND a.id>=b.id`,
			"chunk without a line":                 `SELECT line FROM chunk WHERE line NOT IN (SELECT id FROM line)`,
			"pending write without its checkpoint": `SELECT checkpoint FROM pending WHERE checkpoint NOT IN (SELECT key FROM checkpoint)`,
			"checkpoint without its run":           `SELECT key FROM checkpoint c WHERE run<>0 AND NOT EXISTS (SELECT 1 FROM run WHERE line=c.key>>32 AND run=c.run)`,
			"run without a checkpoint":             `SELECT run FROM run r WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key BETWEEN r.line<<32 AND r.line<<32|0xffffffff AND run=r.run)`,
			"number that was never given out":      `SELECT id FROM line l WHERE EXISTS (SELECT 1 FROM chunk WHERE line=l.id AND chain>=l.next) OR EXISTS (SELECT 1 FROM run WHERE line=l.id AND run>=l.next)`,
			"chunk that is in two rows":            `SELECT a.line FROM chunk a JOIN chunk b ON a.line=b.line AND a.chain=b.chain AND a.seq<b.seq AND a.seq+a.n>b.seq`,
		} {
			var id int64
			if ok, err := c.row(query, nil, &id); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			} else if ok {
				t.Errorf("there is a %s: %d", what, id)
			}
		}
		return checkGarbage(t, c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, c *conn) error {
	var lines []int64
	err := c.each("SELECT id FROM line", nil, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		lines = append(lines, id)
		return err
	})
	for _, line := range lines {
		live, err := c.liveChunks(line)
		if err != nil {
			return err
		}
		err = c.each("SELECT chain, seq FROM chunk WHERE line=?", []any{line}, func(scan func(...any) error) error {
			var chain, seq int64
			err := scan(&chain, &seq)
			if hi, ok := live[chain]; !ok || seq > hi {
				t.Errorf("nothing needs chunk %d of chain %d in line %d", seq, chain, line)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return err
}
