package main

import (
	"os"
	"testing"
)

// The agent starts this test binary as its server.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
		return
	}
	os.Exit(m.Run())
}

func Example() {
	_ = os.Unsetenv("OPENAI_API_KEY") // so that it runs offline
	os.Args = os.Args[:1]
	main()
	// Output:
	// weather: It rains in Oslo.
	// Take an umbrella: it rains in Oslo.
}
