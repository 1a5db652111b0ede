package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/rerank"
)

func main() { fmt.Println(rerank.Cohere("rerank-v3.5", nil)) }
