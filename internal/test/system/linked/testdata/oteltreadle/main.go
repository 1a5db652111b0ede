package main

import (
	"fmt"

	"github.com/treadle-go/treadle/oteltreadle"
)

func main() { fmt.Println(oteltreadle.New(nil)) }
