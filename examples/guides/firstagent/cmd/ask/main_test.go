package main

import (
	"context"
	"fmt"
)

func Example() {
	if err := run(context.Background(), "Where is order 42?"); err != nil {
		fmt.Println(err)
	}
	// Output: Order 42 was shipped on Monday.
}
