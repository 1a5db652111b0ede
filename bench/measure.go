package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

const (
	repetitions = 12
	trials      = 5 // of a job that repeats what it times itself

	// repetitionTime is how long one repetition should last: long enough that the
	// clock and a stray interrupt do not matter, short enough that one of twelve has
	// a good chance of an undisturbed processor.
	repetitionTime = 100 * time.Millisecond
)

// line is what -json prints for one work. Costs are per unit: n units make a run.
type line struct {
	Name        string  `json:"name"`
	N           int     `json:"n"`
	NsPerOp     float64 `json:"ns_per_op"`
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`
	Note        string  `json:"note"`

	// Of some jobs only; see README.md.
	MeanNs    float64 `json:"mean_ns,omitempty"`
	P50Ns     float64 `json:"p50_ns,omitempty"`
	P95Ns     float64 `json:"p95_ns,omitempty"`
	PoolerNs  float64 `json:"pooler_ns,omitempty"`
	Turn10Ns  float64 `json:"turn10_ns,omitempty"`
	Turn100Ns float64 `json:"turn100_ns,omitempty"`
	ColdNs    float64 `json:"cold_ns,omitempty"`
	RawBytes  float64 `json:"raw_bytes,omitempty"`
	RSSBytes  float64 `json:"rss_bytes,omitempty"`
	Recall    float64 `json:"recall,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
	CPUNs     float64 `json:"cpu_ns,omitempty"`
}

// measured is false of a job that lacked something; its note says what.
func (l *line) measured() bool { return l.NsPerOp > 0 }

// times are those of a line, each of which may have its own best trial.
func (l *line) times() []*float64 {
	return []*float64{&l.NsPerOp, &l.MeanNs, &l.P50Ns, &l.P95Ns, &l.PoolerNs, &l.Turn10Ns, &l.Turn100Ns, &l.ColdNs}
}

// try repeats a trial and keeps the least of each of its times.
func try(ctx context.Context, w work) (line, error) {
	var best line
	for i := range w.trials {
		runtime.GC()
		got, err := w.trial(ctx, mustFind(w.name))
		if err != nil {
			return line{}, fmt.Errorf("%s: %w", w.name, err)
		}
		if i > 0 {
			for k, t := range got.times() {
				*t = min(*t, *best.times()[k])
			}
		}
		best = got
	}
	best.Name, best.N = w.name, w.n
	if best.Note == "" {
		best.Note = w.note
	} else if w.note != "" {
		best.Note = w.note + ", " + best.Note
	}
	return best, nil
}

// measure measures works that are compared, in turns: the speed of a shared machine changes
// within seconds. Of each it reports the fastest repetition: what disturbs a run (another
// process, a collection) only ever adds time, so the minimum is the steadiest estimate.
func measure(ctx context.Context, each time.Duration, works ...work) ([]line, error) {
	best, runs := make([]line, len(works)), make([]int, len(works))
	for k, w := range works {
		best[k] = line{Name: w.name, N: w.n, Note: w.note}
		if w.trial != nil {
			var err error
			if best[k], err = try(ctx, w); err != nil {
				return nil, err
			}
			continue
		}
		perRun, err := warmUp(ctx, w, each/2)
		if err != nil {
			return nil, err
		}
		runs[k] = max(1, int(each/max(perRun, 1)))
	}
	for range repetitions {
		for k, w := range works {
			if w.trial != nil {
				continue
			}
			got, err := repeat(ctx, w, runs[k])
			if err != nil {
				return nil, err
			}
			if l := &best[k]; l.NsPerOp == 0 || got.NsPerOp < l.NsPerOp {
				l.NsPerOp, l.AllocsPerOp, l.BytesPerOp = got.NsPerOp, got.AllocsPerOp, got.BytesPerOp
			}
		}
	}
	return best, nil
}

// warmUp builds the work, then runs it for a while and says how long one run took.
func warmUp(ctx context.Context, w work, atLeast time.Duration) (time.Duration, error) {
	if err := w.run(ctx); err != nil {
		return 0, err
	}
	start, runs := time.Now(), 0
	for time.Since(start) < atLeast || runs == 0 {
		if err := w.run(ctx); err != nil {
			return 0, err
		}
		runs++
	}
	return time.Since(start) / time.Duration(runs), nil
}

// repeat times runs runs. It collects first, so that no repetition pays for the
// garbage of the one before; its own garbage it pays for, as a user would.
func repeat(ctx context.Context, w work, runs int) (line, error) {
	runtime.GC()
	return cost(runs*w.n, func() error {
		for range runs {
			if err := w.run(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// cost is what a unit cost of those that do did.
func cost(units int, do func() error) (line, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	if err := do(); err != nil {
		return line{}, err
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(units)
	return line{
		NsPerOp:     float64(took.Nanoseconds()) / n,
		AllocsPerOp: float64(after.Mallocs-before.Mallocs) / n,
		BytesPerOp:  float64(after.TotalAlloc-before.TotalAlloc) / n,
	}, nil
}

// laps are the times between moments, such as the starts of a chain's nodes.
type laps struct {
	last time.Time
	took []time.Duration
}

// begin makes the next moment the first of a row.
func (l *laps) begin() { l.last = time.Time{} }

func (l *laps) lap() {
	now := time.Now()
	if !l.last.IsZero() {
		l.took = append(l.took, now.Sub(l.last))
	}
	l.last = now
}

// median is that of the times, in nanoseconds.
func median(took []time.Duration) float64 { return percentile(took, 50) }

// percentile is the time that so many percent do not exceed.
func percentile(took []time.Duration, percent int) float64 {
	s := slices.Sorted(slices.Values(took))
	return float64(s[(len(s)-1)*percent/100].Nanoseconds())
}
