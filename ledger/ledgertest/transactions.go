package ledgertest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/treadle-go/treadle/ledger"
)

var errTest = errors.New("test error")

var transactions = []test{
	{"failed transaction changes nothing", func(f *fixture) {
		f.put(full(1), full(2))
		err := f.Update(f.Context(), id(1), func(tx ledger.Tx) error {
			changed := full(1)
			changed.Doc, changed.Body, changed.Terms = []byte("new"), []byte("new"), []uint64{7}
			for _, err := range []error{tx.Put(changed), tx.Put(full(3)), tx.Delete(ledger.Runs, id(2))} {
				if err != nil {
					return err
				}
			}
			return errTest
		})
		if !errors.Is(err, errTest) {
			f.Errorf("got error %v", err)
		}
		f.compare("rows", f.find(&ledger.Query{Kind: ledger.Runs, Order: ledger.OldestFirst, Bodies: true}), []*ledger.Row{full(1), full(2)})
		f.compare("result for the new term", f.find(&ledger.Query{Kind: ledger.Runs, Terms: []uint64{7}}), nil)
	}},
	{"transaction sees its own puts and deletes", func(f *fixture) {
		f.put(full(1), full(2))
		f.update(func(tx ledger.Tx) error {
			changed := full(1)
			changed.Parent, changed.Doc, changed.Terms = id(101), []byte("new"), []uint64{7}
			for _, err := range []error{tx.Put(changed), tx.Put(full(3)), tx.Delete(ledger.Runs, id(2))} {
				if err != nil {
					return err
				}
			}
			for _, q := range []*ledger.Query{{}, {Parent: id(100)}, {Parent: id(101)}, {Terms: []uint64{7}}, {Terms: []uint64{1}}, {Order: ledger.DueFirst, Limit: 1}} {
				q.Kind, q.Bodies = ledger.Runs, true
				got, err := tx.Find(q)
				if err != nil {
					return err
				}
				f.compare("in the transaction", got, expected([]*ledger.Row{changed, full(3)}, q))
			}
			r, err := tx.Get(ledger.Runs, id(1))
			if err == nil && (string(r.Doc) != "new" || r.Body != nil) {
				f.Errorf("got doc %q and body %q", r.Doc, r.Body)
			}
			if r, err := tx.Get(ledger.Runs, id(2)); r != nil || err != nil {
				f.Errorf("deleted row: got %+v, %v", r, err)
			}
			// Delete and put a row that this transaction has put.
			if err := tx.Delete(ledger.Runs, id(3)); err != nil {
				return err
			}
			again := full(3)
			again.Body, again.Created = nil, at(50)
			if err := tx.Put(again); err != nil {
				return err
			}
			got, err := tx.Find(&ledger.Query{Kind: ledger.Runs, Parent: id(100), Bodies: true})
			f.compare("row deleted and put again", got, []*ledger.Row{again})
			return err
		})
	}},
	{"modifying a returned row has no effect", func(f *fixture) {
		f.put(full(1))
		f.update(func(tx ledger.Tx) error {
			r, err := tx.Get(ledger.Runs, id(1))
			if err != nil {
				return err
			}
			r.Terms, r.Parent, r.Open = []uint64{7}, id(101), false
			return tx.Put(r)
		})
		want := full(1)
		want.Terms, want.Parent, want.Open = []uint64{7}, id(101), false
		f.compare("row", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{want})
		for _, q := range []*ledger.Query{{Parent: id(100)}, {Open: true}, {Terms: []uint64{1}}} {
			q.Kind = ledger.Runs
			f.compare("result for the old values", f.find(q), nil)
		}
	}},
	{"transactions with one lock are serialized", func(f *fixture) {
		const workers, each = 8, 25
		f.put(&ledger.Row{Kind: ledger.Threads, ID: id(1), Created: at(0), Doc: []byte("0")})
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range each {
					err := f.Update(f.Context(), id(1), func(tx ledger.Tx) error {
						r, err := tx.Get(ledger.Threads, id(1))
						if err != nil {
							return err
						}
						n, err := strconv.Atoi(string(r.Doc))
						if err != nil {
							return err
						}
						r.Doc = strconv.AppendInt(nil, int64(n+1), 10)
						return tx.Put(r)
					})
					if err != nil {
						f.Error(err)
					}
				}
			})
		}
		all.Wait()
		if got := string(f.get(ledger.Threads, id(1)).Doc); got != strconv.Itoa(workers*each) {
			f.Errorf("got count %s, want %d", got, workers*each)
		}
	}},
	{"transactions with different locks are independent", func(f *fixture) {
		const workers, each = 8, 25
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range each {
					err := f.Update(f.Context(), id(w+1), func(tx ledger.Tx) error {
						if i%5 == 4 {
							return errTest
						}
						r := full(w*each + i + 1)
						r.Parent = id(w + 1)
						return tx.Put(r)
					})
					if err != nil && !errors.Is(err, errTest) {
						f.Error(err)
					}
				}
			})
		}
		all.Wait()
		for w := range workers {
			if n := len(f.find(&ledger.Query{Kind: ledger.Runs, Parent: id(w + 1)})); n != each*4/5 {
				f.Errorf("worker %d: got %d rows, want %d", w, n, each*4/5)
			}
		}
	}},
	{"transaction time is constant and current", func(f *fixture) {
		f.update(func(tx ledger.Tx) error {
			now := tx.Now()
			if d := time.Since(now); d < -time.Minute || d > time.Minute {
				f.Errorf("got time %v", now)
			}
			if now != now.UTC().Truncate(time.Microsecond) {
				f.Errorf("%v is not UTC in whole microseconds", now)
			}
			if again := tx.Now(); again != now {
				f.Errorf("time changed from %v to %v", now, again)
			}
			return nil
		})
	}},
	{"calls with an ended context fail", func(f *fixture) {
		f.put(full(1))
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		_, getErr := f.Get(ctx, ledger.Runs, id(1))
		_, trimErr := f.TrimEvents(ctx, time.Now(), 1)
		errs := []error{
			f.Update(ctx, id(1), func(tx ledger.Tx) error { return tx.Delete(ledger.Runs, id(1)) }),
			f.Append(ctx, &ledger.Events{Thread: id(1), Run: id(1), First: 1, Last: 1}),
			f.DropEvents(ctx, id(1), id(1)), getErr, trimErr,
		}
		for _, err := range f.Find(ctx, &ledger.Query{Kind: ledger.Runs}) {
			errs = append(errs, err)
		}
		for _, err := range f.Events(ctx, id(1), id(1), 0) {
			errs = append(errs, err)
		}
		if len(errs) != 7 {
			f.Errorf("got %d errors, want 7: %v", len(errs), errs)
		}
		for i, err := range errs {
			if !errors.Is(err, context.Canceled) {
				f.Errorf("error %d: %v", i, err)
			}
		}
		f.compare("row", []*ledger.Row{f.get(ledger.Runs, id(1))}, []*ledger.Row{full(1)})
	}},
}
