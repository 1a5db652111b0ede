package threadtest_test

import (
	"testing"

	"github.com/treadle-go/treadle/internal/threadtest"
)

// Parity: 12, 13, 45, 47, 67, 121.
func TestStateOnMemory(t *testing.T)   { threadtest.State(t, memory) }
func TestStateOnSQLite(t *testing.T)   { onSQLite(t, threadtest.State) }
func TestStateOnPostgres(t *testing.T) { onPostgres(t, threadtest.State) }

// Parity: 20, 46, 94, 95, 105, 109, 129, 153.
func TestEditsOnMemory(t *testing.T)   { threadtest.Edits(t, memory) }
func TestEditsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Edits) }
func TestEditsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Edits) }

// Parity: 10, 101, 125, 126, 127, 135, 136, 137, 138, 139, 140, 141, 142, 152, 156.
func TestTravelOnMemory(t *testing.T)   { threadtest.Travel(t, memory) }
func TestTravelOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Travel) }
func TestTravelOnPostgres(t *testing.T) { onPostgres(t, threadtest.Travel) }

// Parity: 37, 39, 80, 91, 132, 134, 143, 144, 145, 146, 147, 154, 155, 157, 158, 159, 160, 161, 162, 163.
func TestNestingOnMemory(t *testing.T)   { threadtest.Nesting(t, memory) }
func TestNestingOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Nesting) }
func TestNestingOnPostgres(t *testing.T) { onPostgres(t, threadtest.Nesting) }

// Parity: 148, 149, 150, 151. Of 149 our way: answers go to the head, so one continues from the checkpoint, is asked
// again, and answers that; an answer at an earlier checkpoint is refused.
func TestNestedTravelOnMemory(t *testing.T)   { threadtest.NestedTravel(t, memory) }
func TestNestedTravelOnSQLite(t *testing.T)   { onSQLite(t, threadtest.NestedTravel) }
func TestNestedTravelOnPostgres(t *testing.T) { onPostgres(t, threadtest.NestedTravel) }

// Parity: 4, 38, 51, 52, 110.
func TestDurabilityOnMemory(t *testing.T)   { threadtest.Durability(t, memory) }
func TestDurabilityOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Durability) }
func TestDurabilityOnPostgres(t *testing.T) { onPostgres(t, threadtest.Durability) }

func TestSiblingsOnMemory(t *testing.T)   { threadtest.Siblings(t, memory) }
func TestSiblingsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Siblings) }
func TestSiblingsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Siblings) }

func TestAbandonedOnMemory(t *testing.T)   { threadtest.Abandoned(t, memory) }
func TestAbandonedOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Abandoned) }
func TestAbandonedOnPostgres(t *testing.T) { onPostgres(t, threadtest.Abandoned) }

func TestRacesOnMemory(t *testing.T)        { threadtest.Races(t, memory) }
func TestRacesOnSQLite(t *testing.T)        { onSQLite(t, threadtest.Races) }
func TestRacesOnPostgres(t *testing.T)      { onPostgres(t, threadtest.Races) }
func TestMigrationsOnMemory(t *testing.T)   { threadtest.Migrations(t, memory) }
func TestMigrationsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Migrations) }
func TestMigrationsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Migrations) }

// Parity: 55, 56, 57, 65, 71, 73, 74, 75, 93, 103, 104, 112, 113, 114, 118, 131, 133, 188, 190.
func TestInterruptsOnMemory(t *testing.T)   { threadtest.Interrupts(t, memory) }
func TestInterruptsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Interrupts) }
func TestInterruptsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Interrupts) }

// Parity: 27, 42, 43, 61, 63, 119, 120, 128, 164. Of 61 our way: a breakpoint is passed with Continue, an answer there is
// ErrNothingToResume.
func TestBreakpointsOnMemory(t *testing.T)   { threadtest.Breakpoints(t, memory) }
func TestBreakpointsOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Breakpoints) }
func TestBreakpointsOnPostgres(t *testing.T) { onPostgres(t, threadtest.Breakpoints) }

// Parity: 17, 18, 19, 58, 69, 70, 72, 76, 77, 78, 81, 82, 83, 97, 117, 122. Of 78 and 82 our way: there are no generators,
// so what is refused is a result that cannot be stored; and nothing is injected, so an argument is always the caller's.
func TestFunctionalOnMemory(t *testing.T)   { threadtest.Functional(t, memory) }
func TestFunctionalOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Functional) }
func TestFunctionalOnPostgres(t *testing.T) { onPostgres(t, threadtest.Functional) }

func TestRollbackOnMemory(t *testing.T)   { threadtest.Rollback(t, memory) }
func TestRollbackOnSQLite(t *testing.T)   { onSQLite(t, threadtest.Rollback) }
func TestRollbackOnPostgres(t *testing.T) { onPostgres(t, threadtest.Rollback) }
