package main

import (
	"fmt"

	"github.com/treadle-go/treadle/sqlite"
)

func main() { fmt.Println(sqlite.Open("file.db", nil)) }
