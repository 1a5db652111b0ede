package main

import "os"

func Example() {
	_ = os.Unsetenv("OPENAI_API_KEY") // so that it runs offline
	os.Args = os.Args[:1]
	main()
	// Output:
	// - food of owls: food of owls are studied by many.
	// - enemies of owls: enemies of owls are studied by many.
	// - songs about owls: songs about owls are studied by many.
}
