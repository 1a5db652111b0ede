package natsbus

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/bus/bustest"
	"github.com/treadle-go/treadle/internal/natstest"
	"github.com/treadle-go/treadle/internal/netfault"
)

// open opens a bus that is closed with the test.
func open(t testing.TB, url string, o *Options) *Bus {
	t.Helper()
	b, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	b.pollEvery = time.Hour // what has to be noticed must not depend on it
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

var names atomic.Int64

// fresh makes opens of buses with subjects of their own.
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

func TestOnOneServer(t *testing.T) {
	bustest.Run(t, fresh(natstest.New(t, nil).URL()))
}

func TestOnAClusterOfThree(t *testing.T) {
	bustest.Run(t, fresh(natstest.URLs(natstest.Cluster(t, 3))))
}

// proxied opens a bus behind a proxy, and one that is not.
func proxied(t *testing.T) (near, far *Bus, p *netfault.Proxy) {
	s := natstest.New(t, nil)
	p = netfault.New(t, strings.TrimPrefix(s.URL(), "nats://"))
	return open(t, "nats://"+p.Addr(), nil), open(t, s.URL(), nil), p
}

func TestAConnectionThatIsCut(t *testing.T) {
	near, far, p := proxied(t)
	for range 3 {
		bustest.Outage(t, near, far, p.Cut, p.Heal)
	}
}

func TestAConnectionThatSwallowsEverything(t *testing.T) {
	near, far, p := proxied(t)
	bustest.Outage(t, near, far, p.Swallow, p.Heal)
}

func TestAServerThatIsRestarted(t *testing.T) {
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

// The leader of the stream is killed in the middle of appends, again and again.
func TestAClusterWhoseLeaderIsKilled(t *testing.T) {
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
				t.Error("the stream has no leader")
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
