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
	trials      = 5 // of a job that times its own repetitions

	// repetitionTime is the target duration of a repetition: long enough that the
	// clock and a stray interrupt do not matter, short enough that one of twelve
	// probably runs undisturbed.
	repetitionTime = 100 * time.Millisecond
)

// line is the output of -json for one job. Costs are per unit; a run has n units.
type line struct {
	Name        string  `json:"name"`
	N           int     `json:"n"`
	NsPerOp     float64 `json:"ns_per_op"`
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`
	Note        string  `json:"note"`

	// For some jobs only; see README.md.
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

// measured reports whether the job could be measured. Otherwise, its note gives the reason.
func (l *line) measured() bool { return l.NsPerOp > 0 }

// times returns the times of a line, whose minima may come from different trials.
func (l *line) times() []*float64 {
	return []*float64{&l.NsPerOp, &l.MeanNs, &l.P50Ns, &l.P95Ns, &l.PoolerNs, &l.Turn10Ns, &l.Turn100Ns, &l.ColdNs}
}

// try repeats a trial and keeps the minimum of each time.
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

// measure alternates between the works to compare, because the speed of a shared
// machine changes within seconds. For each, it reports the fastest repetition:
// disturbances (another process, a garbage collection) only add time, so the
// minimum is the most stable estimate.
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

// warmUp builds the work, runs it for a while, and returns the duration of one run.
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

// repeat times runs runs. It collects garbage first, so that a repetition does not
// pay for the previous one's garbage, but pays for its own, as a user would.
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

// cost calls do and returns the cost per unit.
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

// laps records the times between events, such as the starts of a chain's nodes.
type laps struct {
	last time.Time
	took []time.Duration
}

// begin makes the next event the first of a new sequence.
func (l *laps) begin() { l.last = time.Time{} }

func (l *laps) lap() {
	now := time.Now()
	if !l.last.IsZero() {
		l.took = append(l.took, now.Sub(l.last))
	}
	l.last = now
}

// median returns the median of the times, in nanoseconds.
func median(took []time.Duration) float64 { return percentile(took, 50) }

// percentile returns a percentile of the times, in nanoseconds.
func percentile(took []time.Duration, percent int) float64 {
	s := slices.Sorted(slices.Values(took))
	return float64(s[(len(s)-1)*percent/100].Nanoseconds())
}
