package main

import (
	"net/http"

	"github.com/treadle-go/treadle/server"
)

func main() {
	srv, err := server.New(nil, nil, nil)
	if err != nil {
		panic(err)
	}
	http.Handle("/", srv)
}
