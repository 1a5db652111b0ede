package natsbus

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/bus/bustest"
	"github.com/treadle-go/treadle/internal/test/netfault"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/natstest"
)

// open opens a bus that is closed when the test ends.
func open(t testing.TB, url string, o *Options) *Bus {
	t.Helper()
	b, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	b.pollEvery = time.Hour // the tests must not depend on polling
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

var names atomic.Int64

// fresh returns a function that opens buses with separate subjects.
func fresh(url string) func(*testing.T, int) []bus.Bus {
	return func(t *testing.T, n int) []bus.Bus {
		o := &Options{Name: fmt.Sprint("test", names.Add(1))}
		var all []bus.Bus
		for range n {
			all = append(all, open(t, url, o))
		}
		return all
	}
}

func TestSingleServer(t *testing.T) {
	bustest.Run(t, fresh(natstest.New(t, nil).URL()))
}

func TestClusterOfThree(t *testing.T) {
	t.Parallel()
	bustest.Run(t, fresh(natstest.URLs(natstest.Cluster(t, 3))))
}

// proxied opens one bus through a proxy and one without.
func proxied(t *testing.T) (near, far *Bus, p *netfault.Proxy) {
	s := natstest.New(t, nil)
	p = netfault.New(t, strings.TrimPrefix(s.URL(), "nats://"))
	return open(t, "nats://"+p.Addr(), nil), open(t, s.URL(), nil), p
}

func TestCutConnection(t *testing.T) {
	t.Parallel()
	near, far, p := proxied(t)
	for range 3 {
		bustest.Outage(t, near, far, p.Cut, p.Heal)
	}
}

func TestStalledConnection(t *testing.T) {
	t.Parallel()
	near, far, p := proxied(t)
	bustest.Outage(t, near, far, p.Swallow, p.Heal)
}

func TestRestartedServer(t *testing.T) {
	t.Parallel()
	s := natstest.New(t, nil)
	near, far := open(t, s.URL(), nil), open(t, s.URL(), nil)
	for range 2 {
		bustest.Outage(t, near, far, s.Stop, func() {
			if err := s.Restart(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The stream leader is stopped repeatedly during appends.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	servers := natstest.Cluster(t, 3)
	near, far := open(t, natstest.URLs(servers), nil), open(t, natstest.URLs(servers), nil)
	for range 3 {
		var killed *natstest.Server
		bustest.Outage(t, near, far, func() {
			for _, s := range servers {
				if s.Leads(near.stream) {
					killed = s
				}
			}
			if killed == nil {
				t.Error("stream has no leader")
				killed = servers[0]
			}
			killed.Stop()
		}, func() {
			if err := killed.Restart(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The stream leader is killed with SIGKILL repeatedly during appends, and readers
// in both processes miss nothing.
func TestAppendsSurviveKilledLeader(t *testing.T) {
	t.Parallel()
	nodes := natstest.Processes(t, 3)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	writer, reader := open(t, strings.Join(urls, ","), &Options{Replicas: 3}), open(t, strings.Join(urls, ","), &Options{Replicas: 3})
	const events, kills = 1000, 2
	thread := uuid.New()
	var wg sync.WaitGroup
	for _, b := range []*Bus{writer, reader} {
		wg.Go(func() {
			next := uint64(1)
			for e, err := range b.Log().Read(t.Context(), thread, 0, true) {
				if err != nil || e.Last != next {
					t.Errorf("event %d: %v, %v", next, e, err)
					return
				}
				if next++; next > events {
					return
				}
			}
			t.Errorf("events end at %d", next)
		})
	}
	var killing sync.Mutex // one at a time, so that two of three servers are up
	failed, longest := 0, time.Duration(0)
	for n := uint64(1); n <= events; n++ {
		if n%(events/(kills+1)) == 0 && n < events {
			wg.Go(func() {
				killing.Lock()
				defer killing.Unlock()
				leader := leaderOf(t, reader, nodes)
				leader.Kill()
				leader.Start()
			})
		}
		began := time.Now()
		for {
			err := writer.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: n, Last: n})
			if err == nil {
				break
			}
			failed++
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("append %d: %v", n, err)
			}
			<-time.After(10 * time.Millisecond)
		}
		longest = max(longest, time.Since(began))
	}
	wg.Wait()
	t.Logf("%d appends, %d failed at first, the longest took %v", events, failed, longest)
}

// leaderOf returns the server that leads the stream.
func leaderOf(t *testing.T, b *Bus, nodes []*natstest.Process) *natstest.Process {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); <-time.After(50 * time.Millisecond) {
		js, err := jetstream.New(b.nc)
		if err != nil {
			t.Error(err)
			break
		}
		s, err := js.Stream(t.Context(), b.stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			continue
		}
		for _, n := range nodes {
			if n.Name() == s.CachedInfo().Cluster.Leader {
				return n
			}
		}
	}
	t.Error("stream has no leader")
	return nodes[0]
}
