package main

import "github.com/treadle-go/treadle/server"

func main() { server.Main(nil) }
