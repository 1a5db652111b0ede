package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
	"github.com/treadle-go/treadle/reduce"
)

// ourSaved is the part of the catalog that saves threads, with the default
// durability: a step is committed before the next one starts.
var ourSaved = []work{
	newTrial("chain100_sqlite", "p50 from node to node", trials, savedChain(at(backends.SQLite), 30)),
	newTrial("chain100_postgres", "p50 from node to node, pooler_ns without prepared statements", trials, postgresChain),
	newTrial("send1000_sqlite", "p50 of the runs", trials, savedSend),
	newTrial("interrupt_resume_memory", "p50 of interrupt and resume", trials, askAndAnswer(inMemory)),
	newTrial("interrupt_resume_sqlite", "p50 of interrupt and resume", trials, askAndAnswer(at(backends.SQLite))),
	newTrial("get_state_1000", "p50; cold_ns with opening the file", trials, getState),
	newTrial("threads10k_rss", "", 1, manyThreads),
	newTrial("concurrent1000", "all threads together", trials, concurrent),
}

// threadName returns a unique name.
func threadName(i int) string { return "thread-" + strconv.Itoa(i) }

// savedChain times the steps of chains, each on a separate thread.
func savedChain(open opener, runs int) trial {
	return func(ctx context.Context, j job) (line, error) {
		return in(ctx, open, func(p *place) (line, error) {
			var clock laps
			b := treadle.New[state]("chain")
			last := treadle.Start
			for i := range j.n {
				name := fmt.Sprintf("n%04d", i)
				treadle.AddNode(b, name, func(ctx context.Context, s state) (bumped, error) {
					clock.lap()
					return bump(ctx, s)
				})
				b.Edge(last, name)
				last = name
			}
			g, err := b.Compile(&treadle.Options{StepLimit: j.n + 1, Saver: p.Saver})
			if err != nil {
				return line{}, err
			}
			run := func(i int) error {
				clock.begin()
				out, err := g.Thread(threadName(i)).Run(ctx, state{})
				return errors.Join(err, j.check(tally{out.Count, out.Log}))
			}
			if err := run(runs); err != nil { // connects and prepares statements once
				return line{}, err
			}
			clock.took = nil
			l, err := cost(runs*j.n, func() error {
				for i := range runs {
					if err := run(i); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return line{}, err
			}
			l.MeanNs, l.NsPerOp = l.NsPerOp, median(clock.took)
			return l, nil
		})
	}
}

func postgresChain(ctx context.Context, j job) (line, error) {
	l, err := savedChain(at(backends.Postgres), 4)(ctx, j)
	if err != nil {
		return line{}, err
	}
	pooler, err := savedChain(at(backends.Pooled), 4)(ctx, j)
	l.PoolerNs = pooler.NsPerOp
	return l, err
}

func savedSend(ctx context.Context, j job) (line, error) {
	return in(ctx, at(backends.SQLite), func(p *place) (line, error) {
		g, err := sendGraph(j.n).Compile(&treadle.Options{Saver: p.Saver})
		if err != nil {
			return line{}, err
		}
		const runs = 10
		return medianOf(runs, j.n, func(i int) error {
			out, err := g.Thread(threadName(i)).Run(ctx, sums{})
			return errors.Join(err, j.check(tally{out.Count.N, out.Log}))
		})
	})
}

// medianOf returns the cost per unit of runs with n units each; the time is the median.
func medianOf(runs, n int, run func(i int) error) (line, error) {
	l, _, err := timed(runs, n, run)
	return l, err
}

// timed is like medianOf, but also returns the duration of each run.
func timed(runs, n int, run func(i int) error) (line, []time.Duration, error) {
	if err := run(runs); err != nil { // warm-up
		return line{}, nil, err
	}
	took := make([]time.Duration, runs)
	l, err := cost(runs*n, func() error {
		for i := range runs {
			start := time.Now()
			if err := run(i); err != nil {
				return err
			}
			took[i] = time.Since(start)
		}
		return nil
	})
	if err != nil {
		return line{}, nil, err
	}
	l.MeanNs, l.NsPerOp = l.NsPerOp, median(took)/float64(n)
	return l, took, nil
}

// askAndAnswer times pairs of runs, each pair on a separate thread: one up to the
// interrupt, and one with the answer.
func askAndAnswer(open opener) trial {
	return func(ctx context.Context, j job) (line, error) {
		return in(ctx, open, func(p *place) (line, error) {
			b := treadle.New[state]("ask")
			treadle.AddNode(b, "ask", func(ctx context.Context, _ state) (bumped, error) {
				n, err := treadle.Interrupt[int](ctx, "how many?")
				if err != nil {
					return bumped{}, err
				}
				return bumped{n, reduce.List[int]{n}}, nil
			})
			b.Edge(treadle.Start, "ask")
			g, err := b.Compile(&treadle.Options{Saver: p.Saver})
			if err != nil {
				return line{}, err
			}
			const rounds = 500
			return medianOf(rounds, 1, func(i int) error {
				t := g.Thread(threadName(i))
				_, err := t.Run(ctx, state{})
				if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
					return fmt.Errorf("run was not interrupted: %w", err)
				}
				out, err := t.Resume(ctx, 1)
				return errors.Join(err, j.check(tally{out.Count, out.Log}))
			})
		})
	}
}

// getState reads a long conversation from an open file and from a newly opened one.
func getState(ctx context.Context, j job) (line, error) {
	return in(ctx, at(backends.SQLite), func(p *place) (line, error) {
		talk, err := newTalk(p)
		if err != nil {
			return line{}, err
		}
		for range j.want / 2 {
			if err := talk.turn(ctx); err != nil {
				return line{}, err
			}
		}
		read := func(g *treadle.Graph[chat, chat]) error {
			snap, err := g.Thread(talkThread).State(ctx)
			if err != nil {
				return err
			}
			var c chat
			if err := snap.Read(&c); err != nil {
				return err
			}
			return j.checkMessages(len(c.Messages))
		}
		l, err := medianOf(50, 1, func(int) error { return read(talk.g) })
		if err != nil {
			return line{}, err
		}
		cold, err := medianOf(20, 1, func(int) error {
			db, err := p.reopen(ctx)
			if err != nil {
				return err
			}
			g, err := talk.graph(db)
			if err != nil {
				return errors.Join(err, db.Close())
			}
			return errors.Join(read(g), db.Close())
		})
		l.ColdNs = cold.NsPerOp
		return l, err
	})
}

// manyThreads runs one turn on each of many threads and compares the memory of the
// process before and after, each time after a garbage collection.
func manyThreads(ctx context.Context, j job) (line, error) {
	return in(ctx, at(backends.SQLite), func(p *place) (line, error) {
		talk, err := newTalk(p)
		if err != nil {
			return line{}, err
		}
		before, err := residentBytes()
		if err != nil {
			return line{}, err
		}
		l, err := cost(j.n, func() error {
			for i := range j.n {
				if err := talk.turnOf(ctx, threadName(i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return line{}, err
		}
		after, err := residentBytes()
		if err != nil {
			return line{}, err
		}
		threads := 0
		for _, err := range p.Saver.(checkpoint.ThreadLister).Threads(ctx) {
			if err != nil {
				return line{}, err
			}
			threads++
		}
		if threads != j.want {
			return line{}, fmt.Errorf("%d threads, want %d", threads, j.want)
		}
		runtime.KeepAlive(talk)
		l.RSSBytes, l.BytesPerOp = after, max(0, after-before)/float64(j.n)
		l.Note = fmt.Sprintf("bytes_per_op is the growth of the process, from %.0f to %.0f MB", before/1e6, after/1e6)
		return l, nil
	})
}

// residentBytes returns the memory of the process after a garbage collection.
func residentBytes() (float64, error) {
	debug.FreeOSMemory()
	return rss()
}

// concurrent runs chains on many threads concurrently.
func concurrent(ctx context.Context, j job) (line, error) {
	return in(ctx, at(backends.SQLite), func(p *place) (line, error) {
		threads := j.n / j.want
		g, err := chainOf(j.want).Compile(&treadle.Options{Saver: p.Saver})
		if err != nil {
			return line{}, err
		}
		return cost(j.n, func() error {
			errs := make([]error, threads)
			var wg sync.WaitGroup
			for i := range threads {
				wg.Go(func() {
					out, err := g.Thread(threadName(i)).Run(ctx, state{})
					errs[i] = errors.Join(err, j.check(tally{out.Count, out.Log}))
				})
			}
			wg.Wait()
			return errors.Join(errs...)
		})
	})
}
