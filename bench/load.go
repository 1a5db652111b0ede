package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	clients       = 32
	stateless     = 0  // runs per thread
	runsOfAThread = 10 // so that the state does not grow with the speed of the server
	longThread    = math.MaxInt
	burstFrames   = 100 // frames per reader of server_sse1000
	startTrials   = 5
	settleTime    = 10 * time.Second // between a load and the measurement of memory
)

// loadTime returns the maximum duration of a load. Slow servers, which take a
// second per run, get more time for fewer runs.
func (h *host) loadTime() time.Duration {
	if h.patient {
		return 12 * time.Second
	}
	return 4 * time.Second
}

// serverTrials returns the server jobs for any server.
var serverTrials = map[string]func(h *host) trial{
	"server_wait_stateless":   func(h *host) trial { return waiting(h, 1, stateless) },
	"server_wait_stateless32": func(h *host) trial { return waiting(h, clients, stateless) },
	"server_wait_thread":      func(h *host) trial { return waiting(h, 1, runsOfAThread) },
	"server_wait_thread32":    func(h *host) trial { return waiting(h, clients, runsOfAThread) },
	"server_wait_long32":      func(h *host) trial { return waiting(h, clients, longThread) },
	"server_first_event":      firstEvent,
	"server_sse1000":          readers,
	"server_memory":           memoryAfter,
	"server_start":            starting,
}

// ourServer lists the server jobs for our server.
var ourServer = func() (works []work) {
	for _, j := range catalogue {
		if isServer(j.name) {
			works = append(works, newTrial(j.name, "", 1, serverTrials[j.name](ourHost)))
		}
	}
	return works
}()

// api is a client of a server.
type api struct {
	url  string
	http *http.Client
}

func (s *serving) api() *api {
	return &api{"http://" + s.address, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2048}}}
}

func (a *api) close() { a.http.CloseIdleConnections() }

// send sends a request. It returns an error for a status other than 200.
func (a *api) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return nil, errors.Join(fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text), resp.Body.Close())
	}
	return resp, nil
}

// call sends a request and decodes the response.
func (a *api) call(ctx context.Context, method, path string, body, answer any) error {
	resp, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%s %s: response %q: %w", method, path, raw, err)
	}
	return nil
}

// trip is a run of the graph router: its input, and its values.
type trip struct {
	Target string   `json:"target"`
	X      int      `json:"x"`
	Path   []string `json:"path,omitempty"`
}

type newRun struct {
	Assistant   string   `json:"assistant_id"`
	Input       any      `json:"input"`
	IfNotExists string   `json:"if_not_exists,omitempty"`
	StreamMode  []string `json:"stream_mode,omitempty"`
	Resumable   bool     `json:"stream_resumable,omitempty"`
}

// traveller is a client that waits for one run of the router after another on one
// connection. It does not use http.Client, whose goroutines per connection would
// take much of the CPU time that a fast server needs.
type traveller struct {
	address string // host and port
	conn    net.Conn
	in      *bufio.Reader
	most    int    // runs per thread; 0 means no threads
	thread  string // the current thread
	runs    int    // of the thread
}

// travel creates a run, waits for its values, and checks them.
func (t *traveller) travel(ctx context.Context) error {
	run, path := newRun{Assistant: "router", Input: trip{Target: "right", X: 1}}, "/runs/wait"
	if t.runs >= t.most {
		t.thread, t.runs = "", 0
	}
	if t.most > 0 {
		if t.thread == "" {
			t.thread = uuid.NewString()
		}
		run.IfNotExists, path = "create", "/threads/"+t.thread+"/runs/wait"
	}
	t.runs++
	want := slices.Repeat([]string{"route", "right"}, t.runs)
	var got trip
	if err := t.post(ctx, path, run, &got); err != nil {
		return err
	}
	if !slices.Equal(got.Path, want) {
		return fmt.Errorf("POST %s: path %q, want %q", path, got.Path, want)
	}
	return nil
}

// post sends a request on the traveller's connection and reads the response, with a
// timeout of two minutes.
func (t *traveller) post(ctx context.Context, path string, body, answer any) error {
	if t.conn == nil {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
		if err != nil {
			return err
		}
		t.conn, t.in = conn, bufio.NewReader(conn)
	}
	if err := t.conn.SetDeadline(time.Now().Add(hostTimeout)); err != nil {
		return err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, t.address, len(raw), raw)
	if _, err := t.conn.Write(request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(t.in, nil) //nolint:bodyclose // read to its end, and the connection is reused
	if err != nil {
		return err
	}
	if raw, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s: %.500s", path, resp.Status, raw)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("POST %s: response %q: %w", path, raw, err)
	}
	return nil
}

func (t *traveller) close() {
	if t.conn != nil {
		_ = t.conn.Close() // nothing is buffered
	}
}

// waiting returns a load trial. With one client, the time of a request is the
// median; with more, it is the total time divided by the number of requests, so
// that ratios compare throughput. runs is the number of runs per thread.
func waiting(h *host, clients, runs int) trial {
	return func(ctx context.Context, j job) (line, error) {
		return h.on(ctx, func(s *serving) (line, error) {
			if _, _, err := load(ctx, s.address, clients, runs, 2*clients, h.loadTime()/4); err != nil { // warm
				return line{}, err
			}
			before, beforeErr := cpuOf(s.cmd.Process.Pid)
			took, all, err := load(ctx, s.address, clients, runs, j.want, h.loadTime())
			if err != nil {
				return line{}, err
			}
			n := float64(len(took))
			after, afterErr := cpuOf(s.cmd.Process.Pid)
			l := line{NsPerOp: float64(all.Nanoseconds()) / n, PerSecond: n / all.Seconds(), P50Ns: median(took), P95Ns: percentile(took, 95)}
			if clients == 1 {
				l.NsPerOp = l.P50Ns
			}
			if beforeErr == nil && afterErr == nil { // not all systems report CPU time
				l.CPUNs = float64((after - before).Nanoseconds()) / n
			}
			l.Note = fmt.Sprintf("%d requests", len(took))
			return l, nil
		})
	}
}

// memoryAfter measures the memory of a server a few seconds after a load. Half of
// the runs have no thread; the other half use one thread per client.
func memoryAfter(h *host) trial {
	return func(ctx context.Context, j job) (line, error) {
		return h.on(ctx, func(s *serving) (line, error) {
			limit := 3 * h.loadTime()
			stateless, first, err := load(ctx, s.address, clients, 0, j.want/2, limit)
			if err != nil {
				return line{}, err
			}
			onThreads, second, err := load(ctx, s.address, clients, math.MaxInt, j.want/2, limit)
			if err != nil {
				return line{}, err
			}
			peak, err := rssOf(s.cmd.Process.Pid)
			if err != nil {
				return line{}, err
			}
			select {
			case <-ctx.Done():
				return line{}, ctx.Err()
			case <-time.After(settleTime):
			}
			rest, err := rssOf(s.cmd.Process.Pid)
			if err != nil {
				return line{}, err
			}
			n := float64(len(stateless) + len(onThreads))
			return line{NsPerOp: float64((first + second).Nanoseconds()) / n, PerSecond: n / (first + second).Seconds(), RSSBytes: rest,
				Note: fmt.Sprintf("%d runs without a thread and %d on %d threads; %s at the end of the load, %s after %s",
					len(stateless), len(onThreads), clients, roundBytes(peak), roundBytes(rest), settleTime)}, nil
		})
	}
}

// load sends requests until their number or the time limit is reached. It returns
// the duration of each and the total duration. Every client sends at least one.
func load(ctx context.Context, address string, clients, runs, most int, limit time.Duration) ([]time.Duration, time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	var begun atomic.Int64
	first := time.Now()
	err := together(clients, func(int) error {
		t := &traveller{address: address, most: runs}
		defer t.close()
		var own []time.Duration
		for len(own) == 0 || time.Since(first) < limit && begun.Load() < int64(most) {
			begun.Add(1)
			from := time.Now()
			if err := t.travel(ctx); err != nil {
				return err
			}
			own = append(own, time.Since(from))
		}
		mu.Lock()
		took = append(took, own...)
		mu.Unlock()
		return nil
	})
	return took, time.Since(first), err
}

// together calls do n times concurrently and returns the first error.
func together(n int, do func(i int) error) error {
	failed := make(chan error, n)
	for i := range n {
		go func() { failed <- do(i) }()
	}
	var first error
	for range n {
		if err := <-failed; first == nil {
			first = err
		}
	}
	return first
}

// frames reads server-sent events and calls each with the name and the data of each,
// until the stream ends or each is false.
func frames(r io.Reader, each func(name string, data []byte) (bool, error)) error {
	lines := bufio.NewReader(r)
	name := ""
	for {
		text, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text = bytes.TrimRight(text, "\r\n")
		if n, ok := bytes.CutPrefix(text, []byte("event:")); ok {
			name = string(bytes.TrimSpace(n))
		} else if data, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			if more, err := each(name, bytes.TrimSpace(data)); err != nil || !more {
				return err
			}
		}
	}
}

// firstEvent measures the latency of a node's first event: the event contains the
// time when the node sent it, and the client compares it with the time of arrival.
func firstEvent(h *host) trial {
	return func(ctx context.Context, j job) (line, error) {
		return h.on(ctx, func(s *serving) (line, error) {
			a := s.api()
			defer a.close()
			var took []time.Duration
			for start := time.Now(); len(took) < 5 || len(took) < j.want && time.Since(start) < h.loadTime(); {
				way, err := a.first(ctx)
				if err != nil {
					return line{}, err
				}
				took = append(took, way)
			}
			took = took[1:] // the first run of a server is not representative
			return line{NsPerOp: median(took), P95Ns: percentile(took, 95), Note: fmt.Sprintf("%d runs", len(took))}, nil
		})
	}
}

// first streams a run of the graph first.
func (a *api) first(ctx context.Context) (way time.Duration, err error) {
	resp, err := a.send(ctx, http.MethodPost, "/runs/stream", newRun{Assistant: "first", Input: struct{}{}, StreamMode: []string{"custom"}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	seen := false
	err = frames(resp.Body, func(name string, data []byte) (bool, error) {
		now := time.Now()
		if name != "custom" {
			return true, nil
		}
		var event struct {
			At string `json:"at"`
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return false, err
		}
		at, err := strconv.ParseInt(event.At, 10, 64)
		way, seen = now.Sub(time.Unix(0, at)), true
		return true, err // read to the end, so that the connection is reused
	})
	if err == nil && !seen {
		err = errors.New("POST /runs/stream sent no event of the node")
	}
	return max(way, 1), err
}

// readers measures one run that many clients read. The node starts to send when all
// of them are connected.
func readers(h *host) trial {
	return func(ctx context.Context, j job) (line, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*hostTimeout)
		defer cancel()
		return h.on(ctx, func(s *serving) (line, error) {
			a := s.api()
			defer a.close()
			return a.burst(ctx, s, j.want)
		})
	}
}

func (a *api) burst(ctx context.Context, s *serving, readers int) (line, error) {
	gate := filepath.Join(s.dir, "gate")
	var thread struct {
		ID string `json:"thread_id"`
	}
	var run struct {
		ID string `json:"run_id"`
	}
	if err := a.call(ctx, http.MethodPost, "/threads", struct{}{}, &thread); err != nil {
		return line{}, err
	}
	input := map[string]any{"gate": gate, "frames": burstFrames}
	if err := a.call(ctx, http.MethodPost, "/threads/"+thread.ID+"/runs",
		newRun{Assistant: "burst", Input: input, StreamMode: []string{"custom"}, Resumable: true}, &run); err != nil {
		return line{}, err
	}
	var there, all sync.WaitGroup
	there.Add(readers)
	var begun time.Time
	all.Go(func() {
		there.Wait()
		begun = time.Now()
		_ = os.WriteFile(gate, nil, 0o600) // without the file, no frame arrives
	})
	err := together(readers, func(int) error {
		resp, err := a.send(ctx, http.MethodGet, "/threads/"+thread.ID+"/runs/"+run.ID+"/stream", nil)
		there.Done()
		if err != nil {
			return err
		}
		got := 0
		err = frames(resp.Body, func(name string, _ []byte) (bool, error) {
			if strings.HasPrefix(name, "custom") {
				got++
			}
			return true, nil
		})
		if err == nil && got != burstFrames {
			err = fmt.Errorf("reader received %d of %d frames", got, burstFrames)
		}
		return errors.Join(err, resp.Body.Close())
	})
	all.Wait()
	took := time.Since(begun)
	if err != nil {
		return line{}, err
	}
	used, err := rssOf(s.cmd.Process.Pid)
	if err != nil {
		return line{}, err
	}
	n := float64(readers * burstFrames)
	return line{NsPerOp: float64(took.Nanoseconds()) / n, PerSecond: n / took.Seconds(), RSSBytes: used,
		Note: fmt.Sprintf("%d readers of %d frames", readers, burstFrames)}, nil
}

// starting measures the time from the start of the process to the first status 200
// of /ok, on an empty database.
func starting(h *host) trial {
	return func(ctx context.Context, _ job) (line, error) {
		var took []time.Duration
		for range startTrials {
			if _, err := h.on(ctx, func(s *serving) (line, error) {
				took = append(took, s.took)
				return line{}, nil
			}); err != nil {
				return line{}, err
			}
			if h.patient && len(took) == 2 {
				break
			}
		}
		return line{NsPerOp: median(took), LeastNs: float64(slices.Min(took).Nanoseconds()), GreatestNs: float64(slices.Max(took).Nanoseconds()),
			Note: fmt.Sprintf("median of %d starts", len(took))}, nil
	}
}
