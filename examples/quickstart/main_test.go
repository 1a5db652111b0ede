package main

func Example() {
	main()
	// Output: A platypus walks into a bar. 2
}
