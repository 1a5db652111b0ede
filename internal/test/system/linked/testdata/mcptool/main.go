package main

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/mcptool"
)

func main() { fmt.Println(mcptool.Connect(context.Background())) }
