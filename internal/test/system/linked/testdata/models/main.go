package main

import (
	"fmt"

	"github.com/treadle-go/treadle/llm/models"
)

func main() { fmt.Println(models.Open("gpt-5-mini")) }
