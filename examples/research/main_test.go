package main

import "os"

func Example() {
	os.Unsetenv("OPENAI_API_KEY")
	os.Args = os.Args[:1]
	main()
	// Output:
	// - food of owls: food of owls are studied by many.
	// - enemies of owls: enemies of owls are studied by many.
	// - songs about owls: songs about owls are studied by many.
}
