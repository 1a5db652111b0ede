package main

import (
	"fmt"

	"github.com/treadle-go/treadle/store/uselite"
)

func main() { fmt.Println(uselite.Open("weights")) }
