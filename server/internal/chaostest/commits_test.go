package chaostest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/ledger"
)

// kindOf names the transaction after what it does, or returns "" if it only reads.
func kindOf(tx *netfault.Transaction) string {
	var rows []change
	for _, s := range tx.Statements {
		switch {
		case strings.Contains(s.SQL, ".server_put("):
			rows = append(rows, putOf(s.Params))
		case strings.Contains(s.SQL, ".server_delete("):
			for _, kind := range smallints(s.Params[0]) {
				rows = append(rows, change{kind: ledger.Kind(kind), deleted: true})
			}
		case strings.HasPrefix(s.SQL, "INSERT INTO") && strings.Contains(s.SQL, ".server_event "):
			return "events"
		case strings.Contains(s.SQL, ".put("):
			return "checkpoint"
		case strings.Contains(s.SQL, ".put_writes("):
			return writesKind(s.Params)
		case strings.Contains(s.SQL, ".fence("):
			return "fence"
		case strings.Contains(s.SQL, "pg_notify("):
			return "notify"
		case strings.HasPrefix(s.SQL, "DELETE FROM") && strings.Contains(s.SQL, ".checkpoint c"):
			return "delete checkpoints"
		}
	}
	return rowsKind(rows)
}

// writesKind distinguishes writes that pause a run from others.
func writesKind(params [][]byte) string {
	if len(params) == 7 && strings.Contains(string(params[5]), "interrupt") {
		return "writes of a pause"
	}
	return "writes"
}

// change is a row that a transaction puts or deletes.
type change struct {
	kind         ledger.Kind
	deleted, new bool
	due          time.Time
	doc          struct {
		Status    string
		Attempt   int
		Order     string
		Temporary bool
	}
}

// putOf reads the parameters of a put. See ledgerTx.queue in package postgres.
func putOf(params [][]byte) (c change) {
	if len(params) != 13 || len(params[0]) != 2 {
		return c
	}
	c.kind, c.new = ledger.Kind(binary.BigEndian.Uint16(params[0])), params[2] == nil
	if len(params[4]) == 8 {
		c.due = time.UnixMicro(int64(binary.BigEndian.Uint64(params[4])))
	}
	_ = json.Unmarshal(params[11], &c.doc) // rows of workers are names
	return c
}

// smallints reads an array in the binary format.
func smallints(raw []byte) (all []int16) {
	for i := 20; i+6 <= len(raw); i += 6 {
		all = append(all, int16(binary.BigEndian.Uint16(raw[i+4:])))
	}
	return all
}

// rowsKind names a transaction of the ledger.
func rowsKind(rows []change) string {
	has := func(kind ledger.Kind, is func(change) bool) bool {
		return slices.ContainsFunc(rows, func(c change) bool { return c.kind == kind && is(c) })
	}
	put := func(c change) bool { return !c.deleted }
	gone := func(c change) bool { return c.deleted }
	status := func(s string) func(change) bool {
		return func(c change) bool { return !c.deleted && c.doc.Status == s }
	}
	old := func(s string) func(change) bool {
		return func(c change) bool { return status(s)(c) && !c.new }
	}
	over := has(ledger.Runs, old("success")) || has(ledger.Runs, old("error")) || has(ledger.Runs, old("interrupted")) || has(ledger.Runs, old("timeout"))
	switch {
	case len(rows) == 0:
		return ""
	case has(ledger.Runs, func(c change) bool { return put(c) && c.new }) && has(ledger.Crons, put):
		return "tick"
	case has(ledger.Runs, func(c change) bool { return put(c) && c.new }) && has(ledger.Wakes, gone):
		return "wake"
	case has(ledger.Runs, status("running")):
		switch {
		case over || has(ledger.Runs, gone):
			return "finish and claim next"
		case has(ledger.Runs, func(c change) bool { return c.new }):
			return "create and claim"
		case has(ledger.Runs, func(c change) bool { return c.doc.Order != "" }):
			return "cancel"
		case has(ledger.Runs, func(c change) bool { return c.doc.Attempt > 1 }):
			return "take over"
		default:
			return "claim"
		}
	case has(ledger.Runs, old("pending")):
		return "release"
	case has(ledger.Runs, status("pending")):
		return "create"
	case over && has(ledger.Wakes, put):
		return "finish and sleep"
	case over:
		return "finish"
	case has(ledger.Runs, gone) && has(ledger.Threads, put):
		return "finish and roll back"
	case has(ledger.Runs, gone):
		return "finish without thread"
	case has(ledger.Hooks, put):
		return "hook"
	case has(ledger.Hooks, gone):
		return "hook done"
	case has(ledger.Crons, put):
		return "cron"
	case has(ledger.Crons, gone):
		return "delete cron"
	case has(ledger.Workers, func(c change) bool { return c.due.Before(time.Now()) }):
		return "leave"
	case has(ledger.Workers, put):
		return "beat"
	case has(ledger.Threads, put) && has(ledger.Wakes, put):
		return "signal"
	case has(ledger.Threads, func(c change) bool { return c.new }):
		return "thread"
	default:
		return "other"
	}
}

// commits are the kinds of transactions that every use of a server has.
var commits = []string{
	"thread", "create", "create and claim", "claim", "finish", "finish and claim next", "finish and sleep", "finish and roll back", "finish without thread",
	"cancel", "wake", "signal", "cron", "tick", "delete cron", "hook", "hook done", "beat", "checkpoint", "writes", "writes of a pause", "delete checkpoints", "events",
}

// arm breaks the k-th transaction of a kind that a server commits. fired is closed when
// the fault has happened. disarm returns how many such transactions there were.
func (n *node) arm(kind string, k int, f netfault.Fault) (fired chan struct{}, disarm func() int) {
	fired = make(chan struct{})
	var mu sync.Mutex
	seen := 0
	f.Done = func(executed bool) {
		n.c.note("server %d: %s of %q number %d, executed=%t", n.i, faultName(&f), kind, k, executed)
		close(fired)
	}
	n.proxy.Decide(func(tx *netfault.Transaction) *netfault.Fault {
		if !tx.Commits || kindOf(tx) != kind {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen != k {
			return nil
		}
		return &f
	})
	return fired, func() int {
		n.proxy.Decide(nil)
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// faultName describes a fault.
func faultName(f *netfault.Fault) string {
	text := map[netfault.Moment]string{netfault.LostResponse: "lost response", netfault.BeforeServer: "lost request", netfault.AfterResponse: "cut after response"}[f.When]
	if f.Outage != netfault.NoOutage {
		text += fmt.Sprintf(" with %s for %v", map[netfault.Outage]string{netfault.Refused: "refused connections", netfault.Swallowed: "swallowed bytes", netfault.Severed: "severed connections"}[f.Outage], f.For)
	}
	return text
}

// The faults that each kind of transaction meets. While connections are severed, all
// attempts of a transaction fail within milliseconds, so its outcome stays unknown; a
// second is longer than a process tries most things.
var commitFaults = []netfault.Fault{
	{When: netfault.LostResponse},
	{When: netfault.LostResponse, Outage: netfault.Severed, For: time.Second},
	{When: netfault.AfterResponse, Outage: netfault.Severed, For: time.Second},
}

// rig is a cluster whose cases are subtests. A case that fails leaves a cluster that
// others cannot use.
type rig struct {
	on      backend
	servers int
	c       *cluster
	loads   []*load // of cases that the cluster has passed
}

// use returns a cluster for a case.
func (r *rig) use(t *testing.T, parent *testing.T) *cluster {
	if r.c == nil {
		r.c = newCluster(parent, r.on, r.servers)
	}
	c := r.c
	c.mu.Lock()
	c.timeline, c.began = nil, time.Now()
	c.mu.Unlock()
	c.note("case %s", t.Name())
	from := make([]int64, len(c.nodes))
	for i, n := range c.nodes {
		if info, err := os.Stat(n.log.Name()); err == nil {
			from[i] = info.Size()
		}
	}
	t.Cleanup(func() {
		c.blame(t)
		if !t.Failed() {
			return
		}
		r.c, r.loads = nil, nil
		c.mu.Lock()
		t.Logf("seed %d; timeline:\n%s", c.seed, strings.Join(c.timeline, "\n"))
		c.tail = 0 // shown here
		c.mu.Unlock()
		for i, n := range c.nodes {
			raw, _ := os.ReadFile(n.log.Name())
			raw = raw[from[i]:]
			t.Logf("log of server %d: %s", i, raw[:min(len(raw), 12000)])
			n.kill()
		}
	})
	return c
}

// blame turns internal failures of servers into test failures.
func (c *cluster) blame(t *testing.T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.invalid {
		t.Errorf("a server failed internally: %s", text)
	}
	c.invalid = nil
}

// A response to a commit can get lost at every kind of transaction, and the database can
// stay away after it.
func TestLostResponses(t *testing.T) {
	t.Parallel()
	shards := map[backend]int{onNotify: 4, onNATS: 3}
	for _, on := range slices.Sorted(maps.Keys(shards)) {
		for shard := range shards[on] {
			t.Run(fmt.Sprint(on, shard), func(t *testing.T) {
				t.Parallel()
				lostResponses(t, on, shard, shards[on])
			})
		}
	}
}

// lostResponses runs the cases of a shard.
func lostResponses(parent *testing.T, on backend, shard, shards int) {
	r := &rig{on: on, servers: 1}
	c := r.use(parent, parent)
	// The first use shows which transactions there are.
	seen := map[string]int{}
	var mu sync.Mutex
	c.nodes[0].proxy.Decide(func(tx *netfault.Transaction) *netfault.Fault {
		if kind := kindOf(tx); tx.Commits && kind != "" {
			mu.Lock()
			defer mu.Unlock()
			seen[kind]++
		}
		return nil
	})
	// Another server may execute some of the runs, so one use of the cluster may not suffice.
	missing := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(commits), func(kind string) bool {
			return seen[kind] > 0 || kind == "events" && on != onNotify
		})
	}
	for n := 0; n < 5 && len(missing()) > 0; n++ {
		c.once(parent)
	}
	c.nodes[0].proxy.Decide(nil)
	if none := missing(); len(none) > 0 {
		parent.Errorf("no transaction is of the kinds %q", none)
	}
	parent.Logf("transactions: %v", seen)
	random := c.random("cases")
	cases, faults := 0, 0
	for _, kind := range commits {
		for _, f := range commitFaults {
			if on == onNATS && (kind == "events" || f.Outage == netfault.NoOutage && !soak()) {
				continue // JetStream has the events, and the rest is as with NOTIFY
			}
			occurrences := []int{1 + random.IntN(max(seen[kind], 1))}
			if soak() {
				occurrences = nil
				for k := range max(min(seen[kind], 8), 1) {
					occurrences = append(occurrences, k+1)
				}
			}
			for _, k := range occurrences {
				if cases++; cases%shards != shard {
					continue
				}
				faults++
				parent.Run(fmt.Sprintf("%s/%s", kind, faultName(&f)), func(t *testing.T) { r.lose(t, parent, kind, k, f) })
			}
		}
	}
	parent.Logf("%d faults", faults)
	if r.c == nil {
		return
	}
	// A webhook whose process has not heard of its commit is sent again after half a minute.
	f := r.c.settle(parent, time.Minute, true)
	for _, y := range r.loads {
		y.checkEnds(parent, f)
	}
}

// once uses the server without a fault.
func (c *cluster) once(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	y := newLoad(c)
	k := newClient(c, c.random("client"), nil)
	defer k.close()
	if err := y.everything(ctx, k, quick); err != nil {
		t.Fatal(err)
	}
	y.check(t, time.Minute, false)
}

// lose uses the server while a transaction meets a fault. If there were fewer of its kind
// than before, it is the first.
func (r *rig) lose(t, parent *testing.T, kind string, occurrence int, f netfault.Fault) {
	c := r.use(t, parent)
	y := newLoad(c)
	k := newClient(c, c.random("client"), nil)
	defer k.close()
	for try := range 3 {
		if try > 0 {
			occurrence = 1
		}
		fired, disarm := c.nodes[0].arm(kind, occurrence, f)
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		err := y.everything(ctx, k, quick)
		cancel()
		seen := disarm()
		if err != nil {
			t.Error(err)
		}
		if seen >= occurrence {
			<-fired
			c.breaks(faultName(&f), kind)()
			if f := c.settle(t, 30*time.Second, false); !t.Failed() {
				y.checkAll(t, f, false)
				r.loads = append(r.loads, y)
			}
			return
		}
		c.note("there were %d transactions of the kind %q, and not %d", seen, kind, occurrence)
	}
	t.Errorf("no transaction was of the kind %q", kind)
}
