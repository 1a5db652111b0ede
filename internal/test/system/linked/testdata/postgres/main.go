package main

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/postgres"
)

func main() { fmt.Println(postgres.Open(context.Background(), "postgres://localhost", nil)) }
