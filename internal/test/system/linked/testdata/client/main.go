package main

import (
	"fmt"

	"github.com/treadle-go/treadle/client"
)

func main() { fmt.Println(client.New("http://localhost", nil)) }
