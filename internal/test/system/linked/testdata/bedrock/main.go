package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/bedrock"
)

func main() { fmt.Println(bedrock.New("amazon.nova-pro-v1:0", nil)) }
