package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/anthropic"
)

func main() { fmt.Println(anthropic.New("claude-sonnet-5-5", nil)) }
