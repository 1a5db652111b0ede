package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/openai"
)

func main() { fmt.Println(openai.New("gpt-5-mini", nil)) }
