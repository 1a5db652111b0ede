package main

import "os"

func Example() {
	_ = os.Unsetenv("OPENAI_API_KEY") // so that it runs offline
	main()
	// Output:
	// page: set_theme {"color":"dark"}
	// agent: The page is dark now.
}
