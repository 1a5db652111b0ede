package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/race"
)

// writerEnv makes the test binary a process that writes until it is killed. It
// is the path of the file and the name of the round.
const writerEnv = "TREADLE_SQLITE_WRITER"

// What was acknowledged is there after kill -9 at any moment, and nothing of
// what was not is there by half.
func TestKilledWriterLosesNothing(t *testing.T) {
	kills := 30
	if race.Enabled {
		kills = 4 // the writer takes several times as long
	}
	path := filepath.Join(t.TempDir(), "test.db")
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	total := 0
	for round := range kills {
		acked := killedWriter(t, path, fmt.Sprint("round ", round), 1+rnd.IntN(120))
		db, err := Open(path, nil)
		if err != nil {
			t.Fatalf("after kill %d: %v", round, err)
		}
		for thread, ids := range acked {
			total += len(ids)
			all := listed(t, db, checkpoint.Query{Thread: thread}) // each must hydrate
			there := map[checkpoint.ID]bool{}
			for _, cp := range all {
				there[cp.ID] = true
				if n := len(cp.Values["l"].Items); n != cp.Step+1 {
					t.Errorf("step %d of %s has %d elements, want %d", cp.Step, thread, n, cp.Step+1)
				}
			}
			last := ids[len(ids)-1]
			if len(all) == 0 || strings.Compare(all[0].ID.String(), last.String()) < 0 {
				t.Errorf("after kill %d the head of %s is behind %s, which was acknowledged", round, thread, last)
			}
			if strings.HasSuffix(thread, "pruned") {
				continue
			}
			for _, id := range ids {
				if !there[id] {
					t.Errorf("after kill %d checkpoint %s of %s is gone, which was acknowledged", round, id, thread)
				}
			}
		}
		checkFile(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	if total < kills {
		t.Errorf("%d puts were acknowledged in %d rounds: the writers did not get to write", total, kills)
	}
}

// killedWriter starts a writer, kills it when it has acknowledged n puts, and
// returns, by thread, what it has acknowledged by then.
func killedWriter(t *testing.T, path, round string, n int) map[string][]checkpoint.ID {
	t.Helper()
	acked := map[string][]checkpoint.ID{}
	for _, line := range killtest.Lines(t, writerEnv+"="+path+"\n"+round, n) {
		thread, id, _ := strings.Cut(line, "\t")
		parsed, err := checkpoint.ParseID(id)
		if err != nil {
			t.Fatalf("the writer says %q: %v", line, err)
		}
		acked[thread] = append(acked[thread], parsed)
	}
	return acked
}

// writeUntilKilled is the other process.
func writeUntilKilled(where string) {
	go killtest.EndWithParent()
	path, round, _ := strings.Cut(where, "\n")
	db, err := Open(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	ack := func(thread string, id checkpoint.ID) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s\t%s\n", thread, id)
	}
	errs := make(chan error)
	for i, kind := range []string{"plain", "forked", "pruned"} {
		go func() { errs <- writeLine(db, round+" "+kind, kind, uint64(i), ack) }()
	}
	fmt.Fprintln(os.Stderr, <-errs)
	os.Exit(1)
}

func writeLine(db *DB, thread, kind string, seed uint64, ack func(string, checkpoint.ID)) error {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(seed, uint64(os.Getpid())))
	var puts []*checkpoint.Put
	var head checkpoint.ID
	for {
		// Each element is the step that added it, so step n has n+1 of them.
		var parent *checkpoint.Put
		p := &checkpoint.Put{Key: checkpoint.Key{Thread: thread}, Head: head, RunID: fmt.Sprint("run ", len(puts)/10), Control: []byte(strings.Repeat("c", rnd.IntN(300)))}
		if len(puts) > 0 {
			parent = puts[len(puts)-1]
			if kind == "forked" && rnd.IntN(4) == 0 {
				parent = puts[rnd.IntN(len(puts))]
			}
			p.Parent, p.Step = parent.ID, parent.Step+1
		}
		p.ID = checkpoint.NewID(p.Step, head)
		p.Changes = []checkpoint.Change{
			{Channel: "l", Version: uint64(p.Step + 1), List: true, Items: [][]byte{fmt.Appendf(nil, "step %d %s", p.Step, strings.Repeat("x", rnd.IntN(400)))}},
			{Channel: "v", Version: uint64(p.Step + 1), Data: []byte(strings.Repeat("v", rnd.IntN(200)))},
		}
		if err := db.Put(ctx, p); err != nil {
			return err
		}
		ack(thread, p.ID)
		head = p.ID
		puts = append(puts, p)
		if rnd.IntN(3) == 0 {
			if err := db.PutWrites(ctx, p.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("d")}, {Task: "t", Kind: checkpoint.Failed, Data: []byte("f")}}); err != nil {
				return err
			}
		}
		if kind == "pruned" && rnd.IntN(15) == 0 {
			if _, err := db.Prune(ctx, thread, checkpoint.Retention{KeepLast: 5}); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
				return err
			}
		}
	}
}
