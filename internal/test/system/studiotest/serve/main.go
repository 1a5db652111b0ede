// Serve serves the graphs used to test the studio.
package main

import (
	"fmt"
	"os"

	"github.com/treadle-go/treadle/internal/test/system/studiotest"
	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	graphs, err := studiotest.Graphs()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // it is a main function
	}
	standalone.Main(nil, graphs...)
}
