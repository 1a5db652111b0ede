package main

import (
	"fmt"

	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/retrieval/loaders"
)

func main() { fmt.Println(retrieval.Dir("docs", &retrieval.FilesOptions{Parsers: loaders.Parsers()})) }
