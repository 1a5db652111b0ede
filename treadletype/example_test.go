package treadletype_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/treadletype"
)

// Errors that report themselves as temporary are worth a retry.
func ExampleTransient() {
	fmt.Println(treadletype.Transient(&treadletype.TimeoutError{Limit: time.Second}))
	fmt.Println(treadletype.Transient(errors.New("no such user")))
	// Output:
	// true
	// false
}
