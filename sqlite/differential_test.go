package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
)

// Whatever is done, the file says what a Memory says.
func TestFileBehavesLikeMemory(t *testing.T) {
	t.Parallel()
	checkpointtest.Differential(t, func(t *testing.T) func(testing.TB, int) *DB {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "test.db")
		return func(t testing.TB, _ int) *DB { return open(t, path, nil) }
	}, checkFile)
}

// checkFile checks what the file promises itself.
func checkFile(t testing.TB, db *DB) {
	t.Helper()
	err := db.read(t.Context(), func(c *conn) error {
		var verdict string
		if _, err := c.row("PRAGMA integrity_check", nil, &verdict); err != nil || verdict != "ok" {
			t.Fatalf("integrity check: %s, %v", verdict, err)
		}
		for what, query := range map[string]string{
			"line whose count or bytes are wrong": `SELECT id FROM line l WHERE
				checkpoints<>(SELECT count(*) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR
				bytes<>(SELECT coalesce(sum(length(record)),0) FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff)+(SELECT coalesce(sum(length(data)),0) FROM chunk WHERE line=l.id)`,
			"line without its head":                `SELECT id FROM line l WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key=(l.id<<32|l.at) AND id=l.head)`,
			"line whose head is not its newest":    `SELECT id FROM line l WHERE at<>(SELECT max(key)&0xffffffff FROM checkpoint WHERE key BETWEEN l.id<<32 AND l.id<<32|0xffffffff) OR at>last`,
			"line that should be open":             `SELECT id FROM line l WHERE open=0 AND EXISTS (SELECT 1 FROM pending WHERE checkpoint=(l.id<<32|l.at) AND kind=x'646f6e65')`,
			"line without a thread":                `SELECT id FROM line WHERE thread NOT IN (SELECT id FROM thread)`,
			"checkpoint without a line":            `SELECT key FROM checkpoint WHERE key>>32 NOT IN (SELECT id FROM line)`,
			"checkpoint out of order":              `SELECT a.key FROM checkpoint a JOIN checkpoint b ON b.key=(SELECT min(key) FROM checkpoint WHERE key>a.key) WHERE a.key>>32=b.key>>32 AND a.id>=b.id`,
			"chunk without a line":                 `SELECT line FROM chunk WHERE line NOT IN (SELECT id FROM line)`,
			"pending write without its checkpoint": `SELECT checkpoint FROM pending WHERE checkpoint NOT IN (SELECT key FROM checkpoint)`,
			"checkpoint without its run":           `SELECT key FROM checkpoint c WHERE run<>0 AND NOT EXISTS (SELECT 1 FROM run WHERE line=c.key>>32 AND run=c.run)`,
			"run without a checkpoint":             `SELECT run FROM run r WHERE NOT EXISTS (SELECT 1 FROM checkpoint WHERE key BETWEEN r.line<<32 AND r.line<<32|0xffffffff AND run=r.run)`,
			"number that was never given out":      `SELECT id FROM line l WHERE EXISTS (SELECT 1 FROM chunk WHERE line=l.id AND chain>=l.next) OR EXISTS (SELECT 1 FROM run WHERE line=l.id AND run>=l.next)`,
			"chunk that is in two rows":            `SELECT a.line FROM chunk a JOIN chunk b ON a.line=b.line AND a.chain=b.chain AND a.seq<b.seq AND a.seq+a.n>b.seq`,
		} {
			var id int64
			if ok, err := c.row(query, nil, &id); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			} else if ok {
				t.Errorf("there is a %s: %d", what, id)
			}
		}
		return checkGarbage(t, c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, c *conn) error {
	var lines []int64
	err := c.each("SELECT id FROM line", nil, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		lines = append(lines, id)
		return err
	})
	for _, line := range lines {
		live, err := c.liveChunks(line)
		if err != nil {
			return err
		}
		err = c.each("SELECT chain, seq FROM chunk WHERE line=?", []any{line}, func(scan func(...any) error) error {
			var chain, seq int64
			err := scan(&chain, &seq)
			if hi, ok := live[chain]; !ok || seq > hi {
				t.Errorf("nothing needs chunk %d of chain %d in line %d", seq, chain, line)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return err
}
