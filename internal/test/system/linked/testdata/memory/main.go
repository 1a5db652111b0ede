package main

import (
	"fmt"

	"github.com/treadle-go/treadle/memory"
)

func main() { fmt.Println(memory.NewManager(nil, nil)) }
