package saved

import "testing"

func TestMemoStaysWithinBound(t *testing.T) {
	var m Memo[int, int]
	for i := range memoMax + 10 {
		m.Set(i, i)
	}
	if len(m.entries) != memoMax {
		t.Errorf("%d entries are remembered, want %d", len(m.entries), memoMax)
	}
	if v, ok := m.Get(memoMax + 9); !ok || v != memoMax+9 {
		t.Errorf("the last entry is %d, %t", v, ok)
	}
}
