package main

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/server/natsbus"
)

func main() { fmt.Println(natsbus.Open(context.Background(), "nats://localhost", nil)) }
