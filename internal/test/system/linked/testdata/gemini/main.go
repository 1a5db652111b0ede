package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/gemini"
)

func main() { fmt.Println(gemini.New("gemini-3-pro", nil)) }
