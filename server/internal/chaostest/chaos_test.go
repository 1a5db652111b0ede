package chaostest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// A fault breaks something. Faults with the same lock do not overlap.
type fault struct {
	name  string
	lock  string
	on    []backend
	begin func(*cluster, *rand.Rand) (detail string, mend func() error)
	lasts time.Duration // at most
}

var (
	anywhere   = []backend{onSQLite, onNotify, onNATS}
	onPostgres = []backend{onNotify, onNATS}
)

// pick returns a random server.
func (c *cluster) pick(r *rand.Rand) *node { return c.nodes[r.IntN(len(c.nodes))] }

func (n *node) String() string { return fmt.Sprint("server ", n.i) }

func mends(f func()) func() error {
	return func() error {
		f()
		return nil
	}
}

// faults are what breaks at random.
var faults = []fault{
	{"kill -9", "kill", anywhere, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		n.kill()
		return n.String(), mends(n.start)
	}, time.Second},
	{"SIGTERM", "kill", anywhere, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		n.terminate(c.t)
		return n.String(), mends(n.start)
	}, time.Second},
	{"SIGSTOP", "server", anywhere, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		return n.String(), mends(n.stop())
	}, 8 * time.Second},
	{"SIGSTOP with cut connections", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		goOn := n.stop()
		return n.String(), func() error {
			n.proxy.Cut()
			n.proxy.Heal()
			goOn()
			return nil
		}
	}, 9 * time.Second},
	{"cut from Postgres", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		n.proxy.Cut()
		return n.String(), mends(n.proxy.Heal)
	}, 3 * time.Second},
	{"half-open to Postgres", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		n := c.pick(r)
		n.proxy.Swallow()
		return n.String(), mends(func() {
			n.proxy.Cut()
			n.proxy.Heal()
		})
	}, 3 * time.Second},
	{"outage of Postgres", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		o := []netfault.Outage{netfault.Refused, netfault.Swallowed, netfault.Severed}[r.IntN(3)]
		return "", mends(c.everywhere(o))
	}, 8 * time.Second},
	{"lost response", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		return c.loseAny(r, netfault.Fault{When: netfault.LostResponse})
	}, time.Second},
	{"lost response with outage", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		o := []netfault.Outage{netfault.Refused, netfault.Swallowed, netfault.Severed}[r.IntN(3)]
		return c.loseAny(r, netfault.Fault{When: netfault.LostResponse, Outage: o})
	}, 3 * time.Second},
	{"cut after response with outage", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		o := []netfault.Outage{netfault.Refused, netfault.Swallowed, netfault.Severed}[r.IntN(3)]
		return c.loseAny(r, netfault.Fault{When: netfault.AfterResponse, Outage: o})
	}, 3 * time.Second},
	{"full disk", "server", onPostgres, func(c *cluster, _ *rand.Rand) (string, func() error) {
		for _, n := range c.nodes {
			n.proxy.Decide(diskFull)
		}
		return "", mends(func() {
			for _, n := range c.nodes {
				n.proxy.Decide(nil)
			}
		})
	}, 3 * time.Second},
	{"full disk", "server", []backend{onSQLite}, func(c *cluster, _ *rand.Rand) (string, func() error) {
		if err := c.fill(); err != nil {
			c.t.Error(err)
		}
		return "", c.empty
	}, 5 * time.Second},
	{"restart of Postgres", "server", onPostgres, func(c *cluster, r *rand.Rand) (string, func() error) {
		how := "fast"
		if r.IntN(2) == 0 {
			how = "immediate"
			c.pg.Crash()
		} else {
			c.pg.Stop()
		}
		return how, mends(c.pg.Start)
	}, 2 * time.Second},
	{"NATS node down", "nats", []backend{onNATS}, func(c *cluster, r *rand.Rand) (string, func() error) {
		s := c.nats[r.IntN(len(c.nats))]
		s.Stop()
		return "", s.Restart
	}, 2 * time.Second},
	{"all of NATS down", "nats", []backend{onNATS}, func(c *cluster, _ *rand.Rand) (string, func() error) {
		for _, s := range c.nats {
			s.Stop()
		}
		return "", func() error {
			for _, s := range c.nats {
				if err := s.Restart(); err != nil {
					return err
				}
			}
			return nil
		}
	}, 2 * time.Second},
}

// diskFull rejects writes, as Postgres does when its disk is full.
func diskFull(tx *netfault.Transaction) *netfault.Fault {
	if kindOf(tx) != "" {
		return &netfault.Fault{Code: "53100"}
	}
	return nil
}

// loseAny breaks some transaction of a server. An outage lasts until it is mended.
func (c *cluster) loseAny(r *rand.Rand, f netfault.Fault) (string, func() error) {
	n, kind := c.pick(r), commits[r.IntN(len(commits))]
	_, disarm := n.arm(kind, 1, f)
	return fmt.Sprintf("%q at %s", kind, n), func() error {
		disarm()
		n.proxy.Cut() // swallowed connections would not recover
		n.proxy.Heal()
		return nil
	}
}

// TestServersSurviveFaults breaks things at random while clients use the servers.
func TestServersSurviveFaults(t *testing.T) {
	t.Parallel()
	counts := map[backend]int{onSQLite: 15, onNotify: 30, onNATS: 30}
	if soak() {
		counts = map[backend]int{onSQLite: 150, onNotify: 400, onNATS: 400}
	}
	for _, on := range anywhere {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			c := &cluster{t: t, on: on}
			servers := 3
			switch on {
			case onSQLite:
				c, servers = newCluster(t, onSQLite, 1), 0
			case onNATS:
				c.startNATS(3)
				fallthrough
			case onNotify:
				c.pg = pgtest.New(t)
				c.address = c.pg.URL()
			}
			if servers > 0 {
				c.start(servers)
			}
			y := newLoad(c)
			load, enough := context.WithCancel(t.Context())
			clients := y.clients(load, t, 5, usual, 3*time.Minute)
			watch, seen := context.WithCancel(t.Context())
			var watching sync.WaitGroup
			watching.Go(func() { c.watch(watch, t) })
			c.breakThings(t, c.random("faults"), counts[on])
			enough()
			clients.Wait()
			seen()
			watching.Wait()
			y.check(t, 90*time.Second, true)
			t.Logf("%d faults: %s; %d units %v with %d events and %d effects", c.total(), c.summary(), y.total(), y.counts, y.events, c.sink.now())
		})
	}
}

// breakThings breaks things one after the other, some while others are broken.
func (c *cluster) breakThings(t *testing.T, r *rand.Rand, count int) {
	possible := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return !slices.Contains(f.on, c.on) || strings.Contains(f.name, "restart of Postgres") && c.pg == nil
	})
	var all sync.WaitGroup
	locks := map[string]*sync.Mutex{}
	for _, f := range possible {
		locks[f.lock] = &sync.Mutex{}
	}
	for i := range count {
		f := possible[r.IntN(len(possible))]
		lasts := time.Duration(r.Int64N(int64(f.lasts)))
		if i%10 != 0 {
			lasts /= 4 // most are short
		}
		lock := locks[f.lock]
		for !lock.TryLock() {
			if delay.For(t.Context(), 20*time.Millisecond) != nil {
				return
			}
		}
		detail, mend := f.begin(c, r)
		mended := c.breaks(f.name, fmt.Sprintf("%s for %v", detail, lasts.Round(time.Millisecond)))
		all.Go(func() {
			defer lock.Unlock()
			_ = delay.For(t.Context(), lasts) // while it is broken
			if err := mend(); err != nil {
				t.Errorf("mend %s: %v", f.name, err)
			}
			mended()
		})
		_ = delay.For(t.Context(), time.Duration(r.Int64N(int64(600*time.Millisecond)))) // until the next fault
	}
	all.Wait()
}
