package threadtest_test

import (
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/threadtest"
	"github.com/treadle-go/treadle/sqlite"
)

func memory(*testing.T) checkpoint.Saver { return checkpoint.NewMemory() }

func onSQLite(t *testing.T) checkpoint.Saver {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "threads.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Parity: 12, 13, 45, 47, 67, 121.
func TestStateOnMemory(t *testing.T) { threadtest.State(t, memory) }
func TestStateOnSQLite(t *testing.T) { threadtest.State(t, onSQLite) }

// Parity: 20, 46, 94, 95, 105, 109, 129, 153.
func TestEditsOnMemory(t *testing.T) { threadtest.Edits(t, memory) }
func TestEditsOnSQLite(t *testing.T) { threadtest.Edits(t, onSQLite) }

// Parity: 10, 101, 125, 126, 127, 135, 136, 137, 138, 139, 140, 141, 142, 152, 156. Of 101 and 152 our way: LangGraph
// copies a checkpoint beside itself and edits the copy; here the edits of a step are made at the checkpoint, with At and
// BulkUpdate, which gives sibling branches too.
func TestTravelOnMemory(t *testing.T) { threadtest.Travel(t, memory) }
func TestTravelOnSQLite(t *testing.T) { threadtest.Travel(t, onSQLite) }

// Parity: 37, 39, 80, 91, 132, 134, 143, 144, 145, 146, 147, 154, 155, 157, 158, 159, 160, 161, 162, 163.
func TestNestingOnMemory(t *testing.T) { threadtest.Nesting(t, memory) }
func TestNestingOnSQLite(t *testing.T) { threadtest.Nesting(t, onSQLite) }

// Parity: 4, 38, 51, 52, 110.
func TestDurabilityOnMemory(t *testing.T) { threadtest.Durability(t, memory) }
func TestDurabilityOnSQLite(t *testing.T) { threadtest.Durability(t, onSQLite) }

func TestSiblingsOnMemory(t *testing.T) { threadtest.Siblings(t, memory) }
func TestSiblingsOnSQLite(t *testing.T) { threadtest.Siblings(t, onSQLite) }

func TestRacesOnMemory(t *testing.T)      { threadtest.Races(t, memory) }
func TestRacesOnSQLite(t *testing.T)      { threadtest.Races(t, onSQLite) }
func TestMigrationsOnMemory(t *testing.T) { threadtest.Migrations(t, memory) }
func TestMigrationsOnSQLite(t *testing.T) { threadtest.Migrations(t, onSQLite) }

// Parity: 55, 56, 57, 65, 71, 73, 74, 75, 93, 103, 104, 112, 113, 114, 118, 131, 133, 188, 190.
func TestInterruptsOnMemory(t *testing.T) { threadtest.Interrupts(t, memory) }
func TestInterruptsOnSQLite(t *testing.T) { threadtest.Interrupts(t, onSQLite) }

// Parity: 27, 42, 43, 61, 63, 119, 120, 128, 164. Of 61 our way: a breakpoint is passed with Continue, an answer there is
// ErrNothingToResume.
func TestBreakpointsOnMemory(t *testing.T) { threadtest.Breakpoints(t, memory) }
func TestBreakpointsOnSQLite(t *testing.T) { threadtest.Breakpoints(t, onSQLite) }

// Parity: 17, 18, 19, 58, 69, 70, 72, 76, 77, 78, 81, 82, 83, 97, 117, 122. Of 78 and 82 our way: there are no generators,
// so what is refused is a result that cannot be stored; and nothing is injected, so an argument is always the caller's.
func TestFunctionalOnMemory(t *testing.T) { threadtest.Functional(t, memory) }
func TestFunctionalOnSQLite(t *testing.T) { threadtest.Functional(t, onSQLite) }
