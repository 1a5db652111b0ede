package main

func Example() {
	main()
	// Output:
	// shop asks: Which owl would you like?
	// Ordered: the white one.
}
