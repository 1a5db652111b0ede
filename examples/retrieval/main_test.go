package main

import "os"

func Example() {
	_ = os.Unsetenv("OPENAI_API_KEY") // so that it runs offline
	for _, question := range []string{"how do owls fly?", "where do gophers live?"} {
		os.Args = []string{os.Args[0], question}
		main()
	}
	// Output:
	// owls.md/flight: Owls fly silently, because the edges of their feathers break up the air.
	// gophers.md/home: Gophers live in tunnels that they dig themselves.
}
