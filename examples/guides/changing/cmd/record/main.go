// Command record saves threads of the version in production.
package main

import (
	"context"
	"errors"
	"log"
	"os"

	v1 "github.com/treadle-go/treadle/examples/guides/changing/v1"
)

func main() {
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		log.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // of an earlier run
		if err := os.Remove("testdata/v1.db" + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			log.Fatal(err)
		}
	}
	if err := v1.Record(context.Background(), "testdata/v1.db"); err != nil {
		log.Fatal(err)
	}
}
