package main

import (
	"testing"

	v1 "github.com/treadle-go/treadle/examples/guides/changing/v1"
	"github.com/treadle-go/treadle/sqlite"
)

func TestRecordReplacesFile(t *testing.T) {
	t.Chdir(t.TempDir())
	var steps [2]int
	for i := range steps {
		main()
		db, err := sqlite.Open("testdata/v1.db", nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := v1.New(db)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range g.Thread("finished").History(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			steps[i]++
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if steps[0] == 0 || steps[0] != steps[1] {
		t.Errorf("%d checkpoints, and %d after a second recording", steps[0], steps[1])
	}
}
