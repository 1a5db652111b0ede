package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
)

// Cached objects stay within the budget, regardless of their number.
func TestCacheStaysWithinBudget(t *testing.T) {
	b := budget.New(1 << 20)
	l := ledger.New(ledger.NewMemory(), &ledger.Options{Memory: b})
	for i := range 200 {
		a := &ledger.Assistant{ID: uuid.New(), Graph: "graph", Name: fmt.Sprint(i), Config: ledger.Object{}, Context: ledger.Object{},
			Metadata: ledger.Object{"long": strings.Repeat("x", 10_000)}}
		if err := l.CreateAssistant(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Recall(t.Context(), a.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	if b.Over() || b.ByKind()["ledger"] < 1<<19 {
		t.Errorf("%d of %d bytes used: %v", b.Used(), b.Limit(), b.ByKind())
	}
}
