package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
)

func TestMemorySaverPassesSuite(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Saver { return checkpoint.NewMemory() })
}

// A saver that implements few optional interfaces passes too. (It implements
// Pruner to limit the data to compare.)
func TestPlainSaverMatchesMemory(t *testing.T) {
	type plain struct {
		checkpoint.Saver
		checkpoint.Pruner
		checkpoint.RunDeleter
	}
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) plain {
		t.Parallel()
		m := checkpoint.NewMemory()
		return func(testing.TB, int) plain { return plain{m, m, m} }
	}, nil)
}

func TestMemoryCachePassesSuite(t *testing.T) {
	checkpointtest.RunCache(t, func(*testing.T) checkpoint.Cache { return checkpoint.NewMemoryCache() })
}

func TestMemoryProvidesCache(t *testing.T) {
	checkpointtest.RunCache(t, func(*testing.T) checkpoint.Cache { return checkpoint.NewMemory().Cache() })
}

// The savers of this module implement all optional interfaces, so no test of
// the suite passes because it was skipped.
func TestMemoryImplementsAllInterfaces(t *testing.T) {
	var m any = checkpoint.NewMemory()
	for name, ok := range map[string]bool{
		"Pruner":       is[checkpoint.Pruner](m),
		"Copier":       is[checkpoint.Copier](m),
		"RunDeleter":   is[checkpoint.RunDeleter](m),
		"Sizer":        is[checkpoint.Sizer](m),
		"ThreadLister": is[checkpoint.ThreadLister](m),
		"Fencer":       is[checkpoint.Fencer](m),
		"Cacher":       is[checkpoint.Cacher](m),
		"Scrubber":     is[checkpoint.Scrubber](m),
	} {
		if !ok {
			t.Errorf("Memory does not implement %s", name)
		}
	}
}

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func TestIDsIncreaseStrictly(t *testing.T) {
	const n = 10_000
	last := checkpoint.NewID(0, checkpoint.ID{})
	for i := range n {
		// The step is not part of the order: it wraps and may be negative.
		id := checkpoint.NewID(-i, checkpoint.ID{})
		if bytes.Compare(id[:], last[:]) <= 0 || id.String() <= last.String() {
			t.Fatalf("ID %d: %s does not follow %s", i, id, last)
		}
		last = id
	}
}

func TestIDsIncreaseStrictlyAcrossGoroutines(t *testing.T) {
	const goroutines, each = 8, 2000
	made := make([][]checkpoint.ID, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var last checkpoint.ID
			for i := range each {
				last = checkpoint.NewID(i, last)
				made[g] = append(made[g], last)
			}
		})
	}
	wg.Wait()
	compare := func(a, b checkpoint.ID) int { return bytes.Compare(a[:], b[:]) }
	all := slices.Concat(made...)
	for g, ids := range made {
		if !slices.IsSortedFunc(ids, compare) {
			t.Errorf("IDs of goroutine %d are not increasing", g)
		}
	}
	slices.SortFunc(all, compare)
	if n := len(slices.Compact(all)); n != goroutines*each {
		t.Errorf("got %d distinct IDs, want %d", n, goroutines*each)
	}
}

// A thread may continue in another process with a clock that is ahead.
func TestNewIDFollowsHeadDespiteClockSkew(t *testing.T) {
	for _, text := range []string{
		"3fffffff-ffff-6fff-bfff-ffffffffffff",
		"ff000000-0000-6000-8000-000000000000",
		checkpoint.NewID(3, checkpoint.ID{}).String(),
	} {
		after, err := checkpoint.ParseID(text)
		if err != nil {
			t.Fatal(err)
		}
		id := checkpoint.NewID(0, after)
		if id.String() <= text {
			t.Errorf("%s does not follow %s", id, text)
		}
	}
}

func TestIDsContainStep(t *testing.T) {
	for step, want := range map[int]string{0: "8000", 1: "8001", 2: "8002", -1: "bfff", -2: "bffe", 0x3ffe: "bffe", 0x4000: "8000", 0x1234: "9234"} {
		text := checkpoint.NewID(step, checkpoint.ID{}).String()
		if got := strings.Split(text, "-")[3]; got != want {
			t.Errorf("ID of step %d: %s: fourth group %s, want %s", step, text, got, want)
		}
	}
}

func TestIDsAreVersion6UUIDs(t *testing.T) {
	id := checkpoint.NewID(0, checkpoint.ID{})
	if id[6]>>4 != 6 || id[8]>>6 != 2 {
		t.Errorf("%s: got version %d and variant %d, want 6 and 2", id, id[6]>>4, id[8]>>6)
	}
	// The example from RFC 9562, appendix A.5.
	rfc, err := checkpoint.ParseID("1ec9414c-232a-6b00-b3c8-9f6bdeced846")
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !rfc.Time().Equal(want) {
		t.Errorf("time of %s: got %v, want %v", rfc, rfc.Time(), want)
	}
}

func TestIDsRoundTripAsTextAndJSON(t *testing.T) {
	type doc struct{ ID checkpoint.ID }
	for _, id := range []checkpoint.ID{{}, {15: 1}, checkpoint.NewID(5, checkpoint.ID{})} {
		back, err := checkpoint.ParseID(id.String())
		if err != nil || back != id {
			t.Errorf("%q round-trips as %q, %v", id, back, err)
		}
		raw, err := json.Marshal(doc{id})
		if err != nil {
			t.Fatal(err)
		}
		var d doc
		if err := json.Unmarshal(raw, &d); err != nil || d.ID != id {
			t.Errorf("%s round-trips as %q, %v", raw, d.ID, err)
		}
	}
	if zero := (checkpoint.ID{}); zero.String() != "" || !zero.IsZero() {
		t.Errorf("zero ID formats as %q", zero)
	}
}

func TestParseIDRejectsInvalid(t *testing.T) {
	good := "1ec9414c-232a-6b00-b3c8-9f6bdeced846"
	for name, text := range map[string]string{
		"too short":        good[1:],
		"too long":         good + "0",
		"no dashes":        strings.ReplaceAll(good, "-", ""),
		"dashes elsewhere": "1ec9414-c232a-6b00-b3c8-9f6bdeced846",
		"not hex":          strings.Replace(good, "c", "g", 1),
		"braces":           "{" + good + "}",
		"a space":          " " + good,
		"nil UUID":         "00000000-0000-0000-0000-000000000000", // would mean the head
	} {
		if id, err := checkpoint.ParseID(text); err == nil || !id.IsZero() {
			t.Errorf("%s: %q parses as %q, %v", name, text, id, err)
		}
		var id checkpoint.ID
		if err := id.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: %q unmarshals as %q", name, text, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"", "1ec9414c-232a-6b00-b3c8-9f6bdeced846", "1EC9414C-232A-6B00-B3C8-9F6BDECED846",
		"00000000-0000-0000-0000-000000000000", "1ec9414c-232a-6b00-b3c8-9f6bdeced84", "----", strings.Repeat("-", 36)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := checkpoint.ParseID(s)
		if err != nil {
			if !id.IsZero() {
				t.Fatalf("%q: got both %s and %v", s, id, err)
			}
			return
		}
		if !strings.EqualFold(id.String(), s) {
			t.Fatalf("%q parses as %q", s, id)
		}
		if back, err := checkpoint.ParseID(id.String()); err != nil || back != id {
			t.Fatalf("%q parses as %q, which parses as %q, %v", s, id, back, err)
		}
	})
}
