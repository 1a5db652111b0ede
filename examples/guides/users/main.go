// Command accounts serves an agent to several users.
package main

import (
	"log"

	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
)

func main() {
	g, err := newAgent(offline)
	if err != nil {
		log.Fatal(err)
	}
	standalone.Main(&server.Options{Auth: newAuth()}, g)
}
