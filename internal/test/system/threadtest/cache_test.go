package threadtest_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
)

// A file's cached results serve the same program when it runs again, unless
// their names do not say which closure they are of: then none is taken, in
// whatever order the closures come.
func TestCachedResultsAfterARestart(t *testing.T) {
	type state struct{ X, Out int }
	type written struct{ Out int }
	path := filepath.Join(t.TempDir(), "cache.db")
	calls := 0
	use := func(use func(graph func(f func(int) int, word string))) {
		t.Helper()
		db, err := sqlite.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		use(func(f func(int) int, name string) {
			t.Helper()
			b := treadle.New[state](name)
			treadle.AddNode(b, "calc", func(_ context.Context, s state) (written, error) {
				calls++
				return written{f(s.X)}, nil
			}, treadle.Cache(0))
			b.Edge(treadle.Start, "calc")
			g := treadle.Must(b.Compile(&treadle.Options{Saver: db, Logger: slog.New(slog.DiscardHandler)}))
			for x := 3; x < 5; x++ {
				if out, err := g.Run(t.Context(), state{X: x}); err != nil || out.Out != f(x) {
					t.Errorf("%s: %d, %v, want %d", name, out.Out, err, f(x))
				}
			}
		})
	}
	double, square := func(x int) int { return 2 * x }, func(x int) int { return x * x }
	one := func(graph func(func(int) int, string)) { graph(double, "one") }
	use(one)
	use(one)
	if calls != 2 {
		t.Errorf("%d calls, want those of the first run", calls)
	}
	use(func(graph func(func(int) int, string)) { graph(double, "two"); graph(square, "two") })
	use(func(graph func(func(int) int, string)) { graph(square, "two"); graph(double, "two") })
	use(func(graph func(func(int) int, string)) { graph(square, "named"); graph(double, "other") })
}
