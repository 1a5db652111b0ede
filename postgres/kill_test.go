package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/internal/test/race"
)

// writerEnv makes the test binary a writer that is to be killed: the URL, and
// the schema behind a space.
const writerEnv = "TREADLE_TEST_WRITER"

// writeUntilKilled goes on from the head of a thread and tells on its output
// what was acknowledged.
func writeUntilKilled() {
	url, schema, _ := strings.Cut(os.Getenv(writerEnv), " ")
	fail := func(err error) {
		fmt.Fprintln(os.Stdout, "error", err)
		os.Exit(1)
	}
	ctx := context.Background()
	db, err := Open(ctx, url, &Options{Schema: schema})
	if err != nil {
		fail(err)
	}
	key, n := checkpoint.Key{}, 0
	toHead := func() {
		key, n = checkpoint.Key{Thread: "thread"}, 0
		if cp, err := db.Get(ctx, key); err == nil {
			key, n = cp.Key, cp.Step+1
		}
	}
	toHead()
	for ; ; n++ {
		p := next(key, n, item(n), checkpoint.Change{Channel: "n", Version: uint64(n + 1), Data: fmt.Append(nil, n)})
		p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: fmt.Append(nil, n)}}
		err := db.Put(ctx, p)
		if errors.Is(err, checkpoint.ErrConflict) { // the server has only now done what a killed writer asked for
			toHead()
			n--
			continue
		}
		if err != nil {
			fail(err)
		}
		fmt.Fprintln(os.Stdout, "put", p.ID)
		if err := db.PutWrites(ctx, p.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Failed, Data: fmt.Append(nil, n)}}); err != nil {
			fail(err)
		}
		fmt.Fprintln(os.Stdout, "write", p.ID)
		key = p.Key
	}
}

// Whatever moment a writer is killed at, all that was acknowledged is there,
// and what is there is whole.
func TestKilledWriterLosesNothing(t *testing.T) {
	kills := 25
	if race.Enabled {
		kills = 5
	}
	url := pgtest.URL(t)
	db := fresh(t, url, Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	acked := map[checkpoint.ID]string{} // to the last thing that was said of it
	for range kills {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+url+" "+db.conn.Schema)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		note := func() {
			what, rest, _ := strings.Cut(lines.Text(), " ")
			id, err := checkpoint.ParseID(rest)
			if err != nil {
				t.Errorf("the writer says %s", lines.Text())
			}
			acked[id] = what
		}
		if lines.Scan() {
			note()
		}
		// From its first word on, any moment will do.
		kill := time.AfterFunc(time.Duration(rnd.IntN(120_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		for lines.Scan() {
			note()
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
		kill.Stop()
	}
	// The server may still be at work on the last thing that it was sent.
	if _, err := db.conn.Pool.Exec(t.Context(), "SELECT FROM "+db.conn.Quoted+".line FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var all []*checkpoint.Checkpoint
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, cp)
	}
	there := map[checkpoint.ID]bool{}
	for i, cp := range all {
		n := len(all) - 1 - i
		there[cp.ID] = true
		if cp.Step != n || len(cp.Values["l"].Items) != n+1 || string(cp.Values["n"].Data) != fmt.Sprint(n) {
			t.Errorf("checkpoint %d is step %d, with %d elements and n = %s", n, cp.Step, len(cp.Values["l"].Items), cp.Values["n"].Data)
		}
		if i+1 < len(all) && cp.Parent != all[i+1].ID {
			t.Errorf("the parent of checkpoint %d is %s, want %s", n, cp.Parent, all[i+1].ID)
		}
		kinds := map[checkpoint.WriteKind]bool{}
		for _, w := range cp.Pending {
			kinds[w.Kind] = true
		}
		// The next put consumes the result with which a checkpoint began.
		if kinds[checkpoint.Done] != (i == 0) {
			t.Errorf("checkpoint %d of %d has the pending writes %v", n, len(all), cp.Pending)
		}
		if acked[cp.ID] == "write" && !kinds[checkpoint.Failed] {
			t.Errorf("checkpoint %d has lost an acknowledged write", n)
		}
	}
	for id := range acked {
		if !there[id] {
			t.Errorf("checkpoint %s was acknowledged and is lost", id)
		}
	}
	if len(acked) < kills {
		t.Errorf("only %d puts in %d lives", len(acked), kills)
	}
	checkTables(t, db)
	t.Logf("%d kills, %d acknowledged puts, %d stored", kills, len(acked), len(all))
}
