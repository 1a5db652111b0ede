package chaostest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/natstest"
	"github.com/treadle-go/treadle/server/natsbus"
)

// measured is a cluster whose processor time is measured. Everything in it is a process:
// Postgres, three nodes of NATS, and the servers.
type measured struct {
	*cluster
	buses []*natstest.Process
	http  *http.Client
}

func newMeasured(b *testing.B, servers int) *measured {
	b.Helper()
	m := &measured{cluster: &cluster{t: b, address: pgtest.URL(b), direct: true}, buses: natstest.Processes(b, 3)}
	var urls []string
	for _, p := range m.buses {
		urls = append(urls, p.URL())
	}
	m.cluster.buses = strings.Join(urls, ",")
	m.start(servers)
	m.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
	b.Cleanup(m.http.CloseIdleConnections)
	return m
}

// post sends a request that must succeed.
func (m *measured) post(ctx context.Context, base, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := m.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s %s", path, resp.Status, raw)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// usage is processor time by consumer.
type usage struct{ postgres, nats, servers time.Duration }

func (u usage) minus(v usage) usage {
	return usage{u.postgres - v.postgres, u.nats - v.nats, u.servers - v.servers}
}

// used returns the processor time so far, of one server if n is not nil.
func (m *measured) used(b *testing.B, n *node) usage {
	b.Helper()
	var u usage
	for _, p := range m.buses {
		u.nats += cpuOf(p.PID())
	}
	for _, s := range m.nodes {
		if n == nil || n == s {
			u.servers += cpuOf(s.signal(0))
		}
	}
	u.postgres = postgresCPU(b, m.pool)
	return u
}

// stat contains the system's statistics of a process.
type stat struct {
	parent int
	cpu    time.Duration // with the children that have ended
}

// statOf reads a process. Elsewhere than on Linux there is nothing to read, and all is zero.
func statOf(pid int) (s stat) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return s
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // from the third one on
	s.parent, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] {
		ticks, _ := strconv.Atoi(f)
		s.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	return s
}

func cpuOf(pid int) time.Duration { return statOf(pid).cpu }

// postgresCPU returns the processor time of all processes of the database server.
func postgresCPU(b *testing.B, pool *pgxpool.Pool) time.Duration {
	b.Helper()
	var pid int
	if err := pool.QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		b.Fatal(err)
	}
	server := statOf(pid).parent
	total := cpuOf(server)
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			if s := statOf(pid); s.parent == server && server != 0 {
				total += s.cpu
			}
		}
	}
	return total
}

// costs adds to the file named by TREADLE_COSTS, which the simulation in bench/scale
// reads.
func costs(b *testing.B, these map[string]float64) {
	b.Helper()
	path := os.Getenv("TREADLE_COSTS")
	if path == "" {
		return
	}
	all := map[string]float64{}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Fatal(err)
	}
	maps.Copy(all, these)
	if raw, err = json.MarshalIndent(all, "", "  "); err == nil {
		err = os.WriteFile(path, append(raw, '\n'), 0o644) //nolint:gosec // it may be world-readable
	}
	if err != nil {
		b.Fatal(err)
	}
}

func micros(d time.Duration, n int) float64 {
	return float64(d.Microseconds()) / float64(max(n, 1))
}

// throughput lets clients start runs of a graph and wait for them for a while, each on its
// own thread, and returns the number of finished runs and their processor time.
func (m *measured) throughput(b *testing.B, body string, window time.Duration) (int, usage) {
	b.Helper()
	const clients = 32
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute+window)
	defer cancel()
	var ended atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range clients {
		base := m.nodes[i%len(m.nodes)].at()
		all.Go(func() {
			thread := uuid.NewString()
			err := m.post(ctx, base, "/threads", `{"thread_id":"`+thread+`"}`, nil)
			for err == nil && !stop.Load() {
				if err = m.post(ctx, base, "/threads/"+thread+"/runs/wait", body, nil); err == nil {
					ended.Add(1)
				}
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	_ = delay.For(ctx, window) // each connection to the database plans its statements a few times
	from, before := ended.Load(), m.used(b, nil)
	_ = delay.For(ctx, window)
	n, used := int(ended.Load()-from), m.used(b, nil).minus(before)
	stop.Store(true)
	all.Wait()
	return n, used
}

// BenchmarkRuns measures the runs per second of one process and of three with everything
// on one machine, and the processor time of a run and of a step. 32 clients wait for runs
// on threads.
func BenchmarkRuns(b *testing.B) {
	const window = 6 * time.Second
	const one, more = `{"assistant_id":"talk","input":{"steps":1}}`, `{"assistant_id":"talk","input":{"steps":11}}`
	for _, servers := range []int{1, 3, 1, 3} { // twice, since the machine may be busy for a while
		b.Run(fmt.Sprintf("servers=%d", servers), func(b *testing.B) {
			for b.Loop() {
				m := newMeasured(b, servers)
				n, used := m.throughput(b, one, window)
				b.ReportMetric(float64(n)/window.Seconds(), "runs/s")
				b.ReportMetric(micros(used.postgres, n), "µs-postgres/run")
				b.ReportMetric(micros(used.nats, n), "µs-nats/run")
				b.ReportMetric(micros(used.servers, n), "µs-server/run")
				if servers > 1 {
					continue
				}
				long, usedLong := m.throughput(b, more, window)
				step := func(of, ofLong time.Duration) float64 { return (micros(ofLong, long) - micros(of, n)) / 10 }
				b.ReportMetric(step(used.postgres, usedLong.postgres), "µs-postgres/step")
				b.ReportMetric(step(used.servers, usedLong.servers), "µs-server/step")
				costs(b, map[string]float64{
					"cores":         float64(runtime.NumCPU()),
					"run_postgres":  micros(used.postgres, n),
					"run_server":    micros(used.servers, n),
					"step_postgres": step(used.postgres, usedLong.postgres),
					"step_server":   step(used.servers, usedLong.servers),
				})
			}
		})
	}
}

// BenchmarkReaders measures how soon events of runs in one process reach 1,000 clients of
// another one, and the processor time of an event and of a frame. 100 runs send four
// events a second, and ten clients read each.
func BenchmarkReaders(b *testing.B) {
	const runs, readers, events, every = 100, 10, 80, 250
	for b.Loop() {
		m := newMeasured(b, 2)
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
		executes, serves := m.nodes[0], m.nodes[1]
		body := fmt.Sprintf(`{"assistant_id":"talk","input":{"steps":1,"events":%d,"every":%d},"stream_mode":["custom"],"stream_resumable":true}`, events, every)
		var all []*accepted
		for range runs {
			run := &accepted{Thread: uuid.NewString()}
			if err := errors.Join(m.post(ctx, executes.at(), "/threads", `{"thread_id":"`+run.Thread+`"}`, nil), m.post(ctx, executes.at(), "/threads/"+run.Thread+"/runs", body, run)); err != nil {
				b.Fatal(err)
			}
			all = append(all, run)
		}
		var connected sync.WaitGroup
		var done sync.WaitGroup
		var from atomic.Int64 // when all are connected
		took := make([][]time.Duration, runs*readers)
		for i := range took {
			connected.Add(1)
			done.Go(func() {
				if err := m.readEvents(ctx, serves.at(), all[i%runs], &connected, &from, &took[i]); err != nil {
					b.Error(err)
				}
			})
		}
		connected.Wait()
		_ = delay.For(ctx, time.Second)
		from.Store(time.Now().UnixNano())
		worker, api := m.used(b, executes), m.used(b, serves)
		begun := time.Now()
		_ = delay.For(ctx, 8*time.Second)
		window := time.Since(begun)
		worker, api = m.used(b, executes).minus(worker), m.used(b, serves).minus(api)
		done.Wait()
		cancel()
		latencies := slices.Concat(took...)
		slices.Sort(latencies)
		if len(latencies) < runs*readers {
			b.Fatalf("%d events arrived after the start", len(latencies))
		}
		appended := int(window.Seconds() * runs * 1000 / every)
		at := func(p float64) float64 {
			return float64(latencies[int(p*float64(len(latencies)-1))].Microseconds()) / 1000
		}
		b.ReportMetric(at(0.5), "ms-p50/event")
		b.ReportMetric(at(0.99), "ms-p99/event")
		b.ReportMetric(float64(appended*readers)/window.Seconds(), "frames/s")
		b.ReportMetric(micros(worker.servers, appended), "µs-server/append")
		b.ReportMetric(micros(api.servers, appended*readers), "µs-server/frame")
		costs(b, map[string]float64{
			"append_server": micros(worker.servers, appended),
			"frame_server":  micros(api.servers, appended*readers),
		})
	}
}

// BenchmarkStream measures how many packs of events per second one JetStream stream with
// three replicas accepts from 64 concurrent runs.
func BenchmarkStream(b *testing.B) {
	const window = 4 * time.Second
	for b.Loop() {
		m := newMeasured(b, 0)
		bus, err := natsbus.Open(b.Context(), m.cluster.buses, nil)
		if err != nil {
			b.Fatal(err)
		}
		var appended atomic.Int64
		var stop atomic.Bool
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				e := &ledger.Events{Thread: uuid.New(), Run: uuid.New(), Data: bytes.Repeat([]byte("x"), 400)}
				for n := uint64(1); !stop.Load(); n++ {
					e.First, e.Last = n, n
					if err := bus.Log().Append(b.Context(), e); err != nil {
						b.Error(err)
						return
					}
					appended.Add(1)
				}
			})
		}
		_ = delay.For(b.Context(), window/4)
		from, before := appended.Load(), m.used(b, nil)
		_ = delay.For(b.Context(), window)
		n, used := int(appended.Load()-from), m.used(b, nil).minus(before)
		rate := float64(n) / window.Seconds()
		stop.Store(true)
		all.Wait()
		if err := bus.Close(); err != nil {
			b.Error(err)
		}
		b.ReportMetric(rate, "packs/s")
		b.ReportMetric(micros(used.nats, n), "µs-nats/append")
		costs(b, map[string]float64{"stream_rate": rate, "append_nats": micros(used.nats, n)})
	}
}

// readEvents reads the events of a run and records the latencies of events sent after a
// given time.
func (m *measured) readEvents(ctx context.Context, base string, run *accepted, connected *sync.WaitGroup, from *atomic.Int64, took *[]time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/threads/"+run.Thread+"/runs/"+run.Run+"/stream", nil)
	if err != nil {
		return err
	}
	resp, err := m.http.Do(req)
	connected.Done()
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		now := time.Now().UnixNano()
		data, ok := bytes.CutPrefix(line, []byte(`data: {"at":`))
		if start := from.Load(); ok && start > 0 {
			at, err := strconv.ParseInt(string(bytes.TrimRight(data, "}\r\n")), 10, 64)
			if err != nil {
				return err
			}
			if at > start {
				*took = append(*took, time.Duration(now-at))
			}
		}
	}
}
