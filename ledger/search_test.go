package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func TestThreadPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(ledger.NewMemory(), nil)
		var ids []uuid.UUID
		for i := range 10 {
			thread := &ledger.Thread{Metadata: ledger.Object{"even": i%2 == 0}}
			if err := l.CreateThread(t.Context(), thread); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, thread.ID)
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
		}
		if _, err := l.PatchThread(t.Context(), ids[3], nil, true, func(*ledger.Thread) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			q     ledger.ThreadQuery
			want  []int
			total int
		}{
			{ledger.ThreadQuery{}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{Limit: 2}}, []int{9, 8}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{Limit: 2, Offset: 3}}, []int{6, 5}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{Offset: 20}}, nil, 10},
			{ledger.ThreadQuery{Page: ledger.Page{Limit: 2, Offset: 3, Ahead: 1}}, []int{6, 5}, 6},
			{ledger.ThreadQuery{Page: ledger.Page{Limit: 2, Offset: 8, Ahead: 1}}, []int{1, 0}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{Limit: 2, Ahead: 1, SortBy: "updated_at"}}, []int{3, 9}, 10},
			{ledger.ThreadQuery{Filter: ledger.Filter{Contains: ledger.Object{"even": true}}, Page: ledger.Page{Limit: 2, Ahead: 2}}, []int{8, 6}, 4},
			{ledger.ThreadQuery{Page: ledger.Page{Ascending: true, Limit: 2}}, []int{0, 1}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{SortBy: "updated_at", Limit: 2}}, []int{3, 9}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{SortBy: "thread_id", Ascending: true, Limit: 2, Offset: 1}}, []int{1, 2}, 10},
			{ledger.ThreadQuery{Page: ledger.Page{SortBy: "status", Limit: 2}}, []int{9, 8}, 10},
			{ledger.ThreadQuery{Filter: ledger.Filter{Contains: ledger.Object{"even": true}}, Page: ledger.Page{Limit: 2, Offset: 1}}, []int{6, 4}, 5},
			{ledger.ThreadQuery{IDs: []uuid.UUID{ids[2], ids[5]}}, []int{5, 2}, 2},
			{ledger.ThreadQuery{IDs: []uuid.UUID{}}, nil, 0},
			{ledger.ThreadQuery{Status: ledger.Idle, Page: ledger.Page{Limit: 1}}, []int{9}, 10},
			{ledger.ThreadQuery{Status: ledger.Busy}, nil, 0},
			{ledger.ThreadQuery{Match: func(t *ledger.Thread) (bool, error) { return t.ID == ids[4], nil }}, []int{4}, 1},
		} {
			found, total, err := l.Threads(t.Context(), &test.q)
			var got []int
			for _, f := range found {
				got = append(got, slices.Index(ids, f.ID))
			}
			if err != nil || total != test.total || !slices.Equal(got, test.want) {
				t.Errorf("%+v: got %v of %d, %v; want %v of %d", test.q, got, total, err, test.want, test.total)
			}
		}
		if _, _, err := l.Threads(t.Context(), &ledger.ThreadQuery{Page: ledger.Page{SortBy: "nothing"}}); err == nil {
			t.Error("unknown sort field accepted")
		}
	})
}

// Rows with too many scalars for terms are found in order with the others.
func TestLargeMetadataIsFoundInOrder(t *testing.T) {
	l := ledger.New(ledger.NewMemory(), nil)
	var want []uuid.UUID
	for i := range 12 {
		thread := &ledger.Thread{Metadata: ledger.Object{"k": "v"}}
		if i%3 == 0 {
			for n := range 100 {
				thread.Metadata[fmt.Sprint(n)] = n
			}
		}
		if err := l.CreateThread(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
		want = append([]uuid.UUID{thread.ID}, want...)
	}
	for _, ascending := range []bool{false, true} {
		found, _, err := l.Threads(t.Context(), &ledger.ThreadQuery{Filter: ledger.Filter{Contains: ledger.Object{"k": "v"}}, Page: ledger.Page{Ascending: ascending}})
		if err != nil {
			t.Fatal(err)
		}
		var got []uuid.UUID
		for _, f := range found {
			got = append(got, f.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ascending %v: %v, want %v", ascending, got, want)
		}
		slices.Reverse(want)
	}
}
