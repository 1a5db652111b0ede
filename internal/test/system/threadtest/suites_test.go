package threadtest_test

import (
	"testing"

	"github.com/treadle-go/treadle/internal/test/system/threadtest"
)

// Parity: 12, 13, 45, 47, 67, 121.
func TestState(t *testing.T) { onEach(t, threadtest.State) }

// Parity: 20, 46, 94, 95, 105, 109, 129, 153.
func TestEdits(t *testing.T) { onEach(t, threadtest.Edits) }

// Parity: 10, 101, 125, 126, 127, 135, 136, 137, 138, 139, 140, 141, 142, 152, 156.
func TestTravel(t *testing.T) { onEach(t, threadtest.Travel) }

// Parity: 37, 39, 80, 91, 132, 134, 143, 144, 145, 146, 147, 154, 155, 157, 158, 159, 160, 161, 162, 163.
func TestNesting(t *testing.T) { onEach(t, threadtest.Nesting) }

// Parity: 148, 149, 150, 151. Of 149 our way: answers go to the head, so one continues from the checkpoint, is asked
// again, and answers that; an answer at an earlier checkpoint is refused.
func TestNestedTravel(t *testing.T) { onEach(t, threadtest.NestedTravel) }

// Parity: 4, 38, 51, 52, 110.
func TestDurability(t *testing.T) { onEach(t, threadtest.Durability) }

func TestSiblings(t *testing.T) { onEach(t, threadtest.Siblings) }

func TestAbandoned(t *testing.T) { onEach(t, threadtest.Abandoned) }

func TestRaces(t *testing.T)      { onEach(t, threadtest.Races) }
func TestMigrations(t *testing.T) { onEach(t, threadtest.Migrations) }

// Parity: 55, 56, 57, 65, 71, 73, 74, 75, 93, 103, 104, 112, 113, 114, 118, 131, 133, 188, 190.
func TestInterrupts(t *testing.T) { onEach(t, threadtest.Interrupts) }

// Parity: 27, 42, 43, 61, 63, 119, 120, 128, 164. Of 61 our way: a breakpoint is passed with Continue, an answer there is
// ErrNothingToResume.
func TestBreakpoints(t *testing.T) { onEach(t, threadtest.Breakpoints) }

// Parity: 17, 18, 19, 58, 69, 70, 72, 76, 77, 78, 81, 82, 83, 97, 117, 122. Of 78 and 82 our way: there are no generators,
// so what is refused is a result that cannot be stored; and nothing is injected, so an argument is always the caller's.
func TestFunctional(t *testing.T) { onEach(t, threadtest.Functional) }

func TestTime(t *testing.T) { onEach(t, threadtest.Time) }

func TestRollback(t *testing.T) { onEach(t, threadtest.Rollback) }
