package threads_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite"
)

// Order is the state of an order that requires approval.
type Order struct {
	Item     string
	Price    int
	Approved bool
}

// orders returns the same graph each time the program starts.
func orders(saver checkpoint.Saver) *treadle.Graph[Order, Order] {
	type priced struct{ Price int }
	type approved struct{ Approved bool }

	b := treadle.New[Order]("orders")
	treadle.AddNode(b, "price", func(context.Context, Order) (priced, error) {
		fmt.Println("asking the shop for the price")
		return priced{42}, nil
	})
	treadle.AddNode(b, "approve", func(ctx context.Context, o Order) (approved, error) {
		ok, err := treadle.Interrupt[bool](ctx, fmt.Sprintf("buy %s for %d?", o.Item, o.Price))
		return approved{ok}, err
	})
	b.Sequence(treadle.Start, "price", "approve")
	return treadle.Must(b.Compile(&treadle.Options{Saver: saver}))
}

// A thread in a file outlives the process: one process asks the question, and another
// receives the answer.
func Example_restart() {
	dir, err := os.MkdirTemp("", "threads")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is the system's directory for such things
	file := filepath.Join(dir, "orders.db")
	ctx := context.Background()

	monday := func() error {
		db, err := sqlite.Open(file, nil)
		if err != nil {
			return err
		}
		_, err = orders(db).Thread("order-7").Run(ctx, Order{Item: "a loom"})
		if p, ok := errors.AsType[*treadle.InterruptError](err); ok {
			fmt.Printf("the program asks %s and ends\n", p.Pauses[0].Value)
			err = nil
		}
		return errors.Join(err, db.Close())
	}
	friday := func() error {
		db, err := sqlite.Open(file, nil)
		if err != nil {
			return err
		}
		out, err := orders(db).Thread("order-7").Resume(ctx, true)
		fmt.Printf("%+v\n", out)
		return errors.Join(err, db.Close())
	}
	fmt.Println(errors.Join(monday(), friday()))
	// Output:
	// asking the shop for the price
	// the program asks "buy a loom for 42?" and ends
	// {Item:a loom Price:42 Approved:true}
	// <nil>
}
