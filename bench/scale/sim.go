package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Costs contains CPU times in microseconds, measured by the benchmarks of
// server/internal/chaostest, and the rate that one JetStream stream supports.
type Costs struct {
	Cores        float64 `json:"cores"`        // of the machine that was measured
	RunPostgres  float64 `json:"run_postgres"` // of a run with one step, without its events
	RunServer    float64 `json:"run_server"`
	StepPostgres float64 `json:"step_postgres"` // of each additional step
	StepServer   float64 `json:"step_server"`
	AppendServer float64 `json:"append_server"` // of a pack of events, in the process that executes the run
	AppendNATS   float64 `json:"append_nats"`   // in all nodes together
	FrameServer  float64 `json:"frame_server"`  // of an event for one client, in the process that serves the client
	StreamRate   float64 `json:"stream_rate"`   // packs per second that one stream with three replicas supports
}

// Plan describes an installation and its load.
type Plan struct {
	Name    string
	Threads int
	Runs    int // concurrent runs
	Workers int // processes that execute runs
	APIs    int // processes that clients read from
	// The processors of a worker, an API process, each database, and each NATS node.
	WorkerCores, APICores, PostgresCores, NATSCores int
	Postgres                                        int // databases, by thread
	NATS                                            int // nodes
	Streams                                         int // of JetStream, by thread
	Steps                                           int // of a run, each a model call
	Call                                            time.Duration
	Packs                                           float64 // packs of events per second during a model call
	Readers                                         int     // of each run
	Time                                            time.Duration
	Seed                                            uint64
}

// Result contains the results of a simulation.
type Result struct {
	RunsPerSecond, PacksPerSecond, FramesPerSecond float64
	Transactions                                   float64 // a second
	Busy                                           map[string]float64
	Event, Commit                                  Quantiles // from a pack to its client; of a transaction
	Waited                                         int       // runs that found their thread busy
}

// Quantiles are of times.
type Quantiles struct{ P50, P99 time.Duration }

// The parts that can saturate.
const (
	partPostgres = "Postgres"
	partWorkers  = "workers"
	partAPIs     = "SSE"
	partNATS     = "NATS"
	partStreams  = "JetStream stream"
)

// station is a group of processors with one queue.
type station struct {
	part string
	free times // when each of the processors is free
	busy time.Duration
}

func newStation(part string, cores int) *station {
	return &station{part: part, free: make(times, max(cores, 1))}
}

// serve returns the time when work that arrives now is finished.
func (s *station) serve(now, work time.Duration) time.Duration {
	done := max(now, s.free[0]) + work
	s.free[0] = done
	heap.Fix(&s.free, 0)
	s.busy += work
	return done
}

// times is a heap.
type times []time.Duration

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }

// Push implements [heap.Interface]; the number of processors does not change.
func (*times) Push(any) {}

// Pop implements [heap.Interface].
func (*times) Pop() any { return nil }

// event is something that happens to a run at a time.
type event struct {
	at   time.Duration
	n    uint64 // sequence number, so that the order is deterministic
	run  *run
	what func(*simulation, *run, event)
	sent time.Duration // of a pack: when its first event was sent
	last bool          // of a pack: the last one of its step
}

// events is a custom heap: container/heap would allocate each event.
type events []event

func (q events) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}

func (q *events) push(e event) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *events) pop() event {
	h := *q
	first, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	*q = h
	for i := 0; ; {
		least := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < n && h.before(down, least) {
				least = down
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// run is one of the concurrent runs. When it ends, the next run takes its place.
type run struct {
	thread       int
	step         int
	end          time.Duration // of the current call
	transactions int           // remaining before the step, or after the last one
	worker, api  *station
	postgres     *station
	stream, nats *station
}

type simulation struct {
	p        *Plan
	c        *Costs
	rand     *rand.Rand
	queue    events
	made     uint64
	now      time.Duration
	measured time.Duration // time from which results count
	stations []*station
	workers  []*station
	apis     []*station
	dbs      []*station
	streams  []*station
	nodes    []*station
	used     map[int]bool // threads that have a run

	ended, packs, frames, commits, waited int
	late, committed                       []time.Duration
}

// sampled is the sampling interval for times of events and transactions.
const sampled = 11

func micros(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }

// Simulate executes a plan.
func Simulate(p *Plan, c *Costs) *Result {
	s := &simulation{p: p, c: c, rand: rand.New(rand.NewPCG(p.Seed, 1)), measured: p.Time / 3, used: map[int]bool{}}
	many := func(part string, n, cores int) (all []*station) {
		for range n {
			all = append(all, newStation(part, cores))
		}
		s.stations = append(s.stations, all...)
		return all
	}
	s.workers = many(partWorkers, p.Workers, p.WorkerCores)
	s.apis = many(partAPIs, p.APIs, p.APICores)
	s.dbs = many(partPostgres, p.Postgres, p.PostgresCores)
	s.nodes = many(partNATS, p.NATS, p.NATSCores)
	s.streams = many(partStreams, p.Streams, 1) // a stream has one leader, which writes sequentially
	for range p.Runs {
		// The runs start at different times and steps.
		s.at(time.Duration(s.rand.Int64N(int64(p.Call))), &run{}, func(s *simulation, r *run, e event) {
			s.begin(r, e)
			r.step = s.rand.IntN(p.Steps)
		})
	}
	warm := false
	for len(s.queue) > 0 && s.queue[0].at < p.Time {
		e := s.queue.pop()
		s.now = e.at
		if !warm && s.now >= s.measured {
			warm = true
			for _, st := range s.stations {
				st.busy = 0
			}
		}
		e.what(s, e.run, e)
	}
	return s.result()
}

func (s *simulation) at(t time.Duration, r *run, what func(*simulation, *run, event)) {
	s.push(event{at: t, run: r, what: what})
}

func (s *simulation) push(e event) {
	s.made++
	e.n = s.made
	s.queue.push(e)
}

// counts reports whether the current time is measured.
func (s *simulation) counts() bool { return s.now >= s.measured }

// The transactions of a run with one step: create the run, save its input and its
// first two checkpoints, and finish the run.
const (
	transactionsBefore = 3
	transactionsBehind = 2
	transactionsOfRun  = transactionsBefore + transactionsBehind
)

// begin starts a run on a thread without one.
func (s *simulation) begin(r *run, _ event) {
	for r.thread = s.rand.IntN(s.p.Threads); s.used[r.thread]; r.thread = s.rand.IntN(s.p.Threads) {
		s.waited++
	}
	s.used[r.thread] = true
	r.step, r.transactions = 0, transactionsBefore
	r.worker, r.api = s.workers[s.rand.IntN(len(s.workers))], s.apis[s.rand.IntN(len(s.apis))]
	r.postgres, r.stream = s.dbs[r.thread%len(s.dbs)], s.streams[r.thread%len(s.streams)]
	r.nats = s.nodes[r.thread%len(s.streams)%len(s.nodes)]
	s.compute(r, event{})
}

// compute simulates a worker's part of a transaction, and commit the transaction.
func (s *simulation) compute(r *run, _ event) {
	s.at(r.worker.serve(s.now, micros(s.c.RunServer/transactionsOfRun)), r, (*simulation).commit)
}

func (s *simulation) commit(r *run, _ event) {
	s.transaction(r, s.c.RunPostgres/transactionsOfRun, (*simulation).committedOne)
}

func (s *simulation) transaction(r *run, cost float64, next func(*simulation, *run, event)) {
	done := r.postgres.serve(s.now, micros(cost))
	if s.counts() {
		if s.commits%sampled == 0 {
			s.committed = append(s.committed, done-s.now)
		}
		s.commits++
	}
	s.at(done, r, next)
}

func (s *simulation) committedOne(r *run, _ event) {
	r.transactions--
	switch {
	case r.transactions > 0:
		s.compute(r, event{})
	case r.step == s.p.Steps:
		delete(s.used, r.thread)
		if s.counts() {
			s.ended++
		}
		s.begin(r, event{})
	default:
		s.call(r, event{})
	}
}

// call simulates a model call, whose response arrives in packs of events.
func (s *simulation) call(r *run, _ event) {
	r.end = s.now + time.Duration(s.rand.ExpFloat64()*float64(s.p.Call))
	s.nextPack(r, s.now)
}

// nextPack sends the next pack of a run, whose first event is sent no earlier than
// first. A process stores one pack of a run at a time, and events accumulate in the
// meantime.
func (s *simulation) nextPack(r *run, first time.Duration) {
	at := first + time.Duration(float64(time.Second)/s.p.Packs)
	e := event{at: max(at, s.now), run: r, what: (*simulation).pack, sent: at}
	if e.at >= r.end {
		e.at, e.sent, e.last = max(r.end, s.now), r.end, true
	}
	s.push(e)
}

// pack simulates a pack in the process of its run, then in NATS and in the process
// of its readers.
func (s *simulation) pack(r *run, e event) {
	if s.counts() {
		s.packs++
	}
	e.at, e.what = r.worker.serve(s.now, micros(s.c.AppendServer)), (*simulation).store
	s.push(e)
}

func (s *simulation) store(r *run, e event) {
	kept := r.stream.serve(s.now, time.Duration(float64(time.Second)/s.c.StreamRate))
	// The leader's node does a third of the work, and the others do the rest.
	for _, n := range s.nodes {
		kept = max(kept, n.serve(s.now, micros(s.c.AppendNATS/float64(len(s.nodes)))))
	}
	e.at, e.what = kept, (*simulation).stored
	s.push(e)
}

func (s *simulation) stored(r *run, e event) {
	shown := e
	shown.what = (*simulation).show
	s.push(shown)
	if !e.last {
		s.nextPack(r, e.sent)
		return
	}
	// A step is committed when its events are stored.
	if r.step++; r.step < s.p.Steps {
		s.at(r.worker.serve(s.now, micros(s.c.StepServer)), r, (*simulation).commitStep)
		return
	}
	r.transactions = transactionsBehind
	s.compute(r, event{})
}

func (s *simulation) commitStep(r *run, _ event) {
	s.transaction(r, s.c.StepPostgres, (*simulation).call)
}

func (s *simulation) show(r *run, e event) {
	for range s.p.Readers {
		done := r.api.serve(s.now, micros(s.c.FrameServer))
		if s.counts() {
			if s.frames%sampled == 0 {
				s.late = append(s.late, done-e.sent)
			}
			s.frames++
		}
	}
}

func (s *simulation) result() *Result {
	seconds := (s.p.Time - s.measured).Seconds()
	r := &Result{
		RunsPerSecond: float64(s.ended) / seconds, PacksPerSecond: float64(s.packs) / seconds,
		FramesPerSecond: float64(s.frames) / seconds, Transactions: float64(s.commits) / seconds,
		Busy: map[string]float64{}, Event: quantiles(s.late), Commit: quantiles(s.committed), Waited: s.waited,
	}
	cores := map[string]int{}
	for _, st := range s.stations {
		r.Busy[st.part] += st.busy.Seconds()
		cores[st.part] += len(st.free)
	}
	for part := range r.Busy {
		r.Busy[part] /= seconds * float64(cores[part])
	}
	return r
}

func quantiles(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	slices.Sort(all)
	at := func(p float64) time.Duration { return all[int(p*float64(len(all)-1))] }
	return Quantiles{at(0.5), at(0.99)}
}

// First returns the busiest part.
func (r *Result) First() string {
	first := ""
	for _, part := range parts {
		if first == "" || r.Busy[part] > r.Busy[first] {
			first = part
		}
	}
	return first
}

// parts lists all parts in the order of the table.
var parts = []string{partPostgres, partStreams, partNATS, partWorkers, partAPIs}
