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
	// clock and a stray interrupt do not matter.
	repetitionTime = 100 * time.Millisecond
)

// line is the output of -json for one job. Costs are per unit; a run has n units. The
// numbers are medians of the repetitions or trials.
type line struct {
	Name        string  `json:"name"`
	N           int     `json:"n"`
	NsPerOp     float64 `json:"ns_per_op"`
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`
	Note        string  `json:"note"`

	// The fastest and the slowest repetition or trial, if there are several.
	LeastNs    float64 `json:"least_ns,omitempty"`
	GreatestNs float64 `json:"greatest_ns,omitempty"`

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

// numbers returns the numbers of a line that vary between repetitions.
func (l *line) numbers() []*float64 {
	return []*float64{&l.NsPerOp, &l.AllocsPerOp, &l.BytesPerOp, &l.MeanNs, &l.P50Ns, &l.P95Ns, &l.PoolerNs, &l.Turn10Ns, &l.Turn100Ns,
		&l.ColdNs, &l.RawBytes, &l.RSSBytes, &l.Recall, &l.PerSecond, &l.CPUNs}
}

// middle returns a line with the median of each number, and with the least and the
// greatest time. The name and the note are those of the first line.
func middle(all []line) line {
	m := all[0]
	for i, number := range m.numbers() {
		values := make([]float64, len(all))
		for k := range all {
			values[k] = *all[k].numbers()[i]
		}
		slices.Sort(values)
		*number = (values[(len(values)-1)/2] + values[len(values)/2]) / 2
		if i == 0 && len(all) > 1 {
			m.LeastNs, m.GreatestNs = values[0], values[len(values)-1]
		}
	}
	return m
}

// try repeats a trial.
func try(ctx context.Context, w work) (line, error) {
	var all []line
	for range w.trials {
		runtime.GC()
		got, err := w.trial(ctx, mustFind(w.name))
		if err != nil {
			return line{}, fmt.Errorf("%s: %w", w.name, err)
		}
		all = append(all, got)
	}
	l := middle(all)
	l.Name, l.N = w.name, w.n
	if l.Note == "" {
		l.Note = w.note
	} else if w.note != "" {
		l.Note = w.note + ", " + l.Note
	}
	return l, nil
}

// measure alternates between the works to compare, because the speed of a shared
// machine changes within seconds.
func measure(ctx context.Context, each time.Duration, works ...work) ([]line, error) {
	lines, all, runs := make([]line, len(works)), make([][]line, len(works)), make([]int, len(works))
	for k, w := range works {
		if w.trial != nil {
			var err error
			if lines[k], err = try(ctx, w); err != nil {
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
			got.Name, got.N, got.Note = w.name, w.n, w.note
			all[k] = append(all[k], got)
		}
	}
	for k := range works {
		if all[k] != nil {
			lines[k] = middle(all[k])
		}
	}
	return lines, nil
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
