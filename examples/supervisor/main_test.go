package main

import "os"

func Example() {
	_ = os.Unsetenv("OPENAI_API_KEY") // so that it runs offline
	main()
	// Output:
	// supervisor is done
	// librarian is done
	// supervisor is done
	// mathematician is done
	// supervisor is done
	// Three copies of Emma! have 150 pages.
}
