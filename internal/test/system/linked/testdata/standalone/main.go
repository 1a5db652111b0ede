package main

import "github.com/treadle-go/treadle/server/standalone"

func main() { standalone.Main(nil) }
