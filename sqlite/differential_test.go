package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/sqlite/internal/database"
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
	err := db.conn.Read(t.Context(), func(c *database.Conn) error {
		if err := check(c); err != nil {
			return err
		}
		return checkGarbage(t, c)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkGarbage looks for chunks beyond what any checkpoint of the line needs.
func checkGarbage(t testing.TB, c *database.Conn) error {
	var lines []int64
	err := c.Each("SELECT id FROM line", nil, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		lines = append(lines, id)
		return err
	})
	for _, line := range lines {
		live, err := liveChunks(c, line)
		if err != nil {
			return err
		}
		err = c.Each("SELECT chain, seq FROM chunk WHERE line=?", []any{line}, func(scan func(...any) error) error {
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
