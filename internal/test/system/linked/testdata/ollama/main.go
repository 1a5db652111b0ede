package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/ollama"
)

func main() { fmt.Println(ollama.New("qwen3", nil)) }
