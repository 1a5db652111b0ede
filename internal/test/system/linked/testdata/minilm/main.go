package main

import (
	"fmt"

	"github.com/treadle-go/treadle/store/minilm"
)

func main() { fmt.Println(minilm.Find()) }
