// Command serve serves the agent over HTTP.
package main

import (
	"log"

	"github.com/treadle-go/treadle/examples/guides/firstagent/support"

	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	model, err := support.Model()
	if err != nil {
		log.Fatal(err)
	}
	g, err := support.New(model, nil)
	if err != nil {
		log.Fatal(err)
	}
	standalone.Main(nil, g)
}
