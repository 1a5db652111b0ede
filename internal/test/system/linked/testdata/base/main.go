// Base is a program with an HTTP client and JSON, and nothing of Treadle.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
)

func main() {
	resp, err := http.Get("http://localhost")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	var v any
	fmt.Println(json.NewDecoder(resp.Body).Decode(&v), v)
}
