package main

import (
	"context"
	"runtime"
	"time"
)

const repetitions = 5

// repetitionTime is how long one repetition should last: long enough that the
// clock and a stray interrupt do not matter, short enough that one of five has
// a good chance of an undisturbed processor.
const repetitionTime = 100 * time.Millisecond

// line is what -json prints for one work. Costs are per unit: n units make a run.
type line struct {
	Name        string  `json:"name"`
	N           int     `json:"n"`
	NsPerOp     float64 `json:"ns_per_op"`
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`
	Note        string  `json:"note"`
}

// measure reports the fastest repetition: what disturbs a run (another process,
// a collection) only ever adds time, so the minimum is the steadiest estimate.
func measure(ctx context.Context, w work, each time.Duration) (line, error) {
	perRun, err := warmUp(ctx, w, each/2)
	if err != nil {
		return line{}, err
	}
	runs := max(1, int(each/max(perRun, 1)))
	best := line{Name: w.name, N: w.n, Note: w.note}
	for i := range repetitions {
		got, err := repeat(ctx, w, runs)
		if err != nil {
			return line{}, err
		}
		if i == 0 || got.NsPerOp < best.NsPerOp {
			best.NsPerOp, best.AllocsPerOp, best.BytesPerOp = got.NsPerOp, got.AllocsPerOp, got.BytesPerOp
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
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	for range runs {
		if err := w.run(ctx); err != nil {
			return line{}, err
		}
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	units := float64(runs * w.n)
	return line{
		NsPerOp:     float64(took.Nanoseconds()) / units,
		AllocsPerOp: float64(after.Mallocs-before.Mallocs) / units,
		BytesPerOp:  float64(after.TotalAlloc-before.TotalAlloc) / units,
	}, nil
}
