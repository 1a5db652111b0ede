package treadletype_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/treadletype"
)

// Errors that say of themselves that they will pass are worth another try.
func ExampleTransient() {
	fmt.Println(treadletype.Transient(&treadletype.TimeoutError{Limit: time.Second}))
	fmt.Println(treadletype.Transient(errors.New("no such user")))
	// Output:
	// true
	// false
}
