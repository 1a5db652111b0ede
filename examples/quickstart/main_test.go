package main

import (
	"bytes"
	"os"
	"testing"
)

func Example() {
	main()
	// Output: A platypus walks into a bar. 2 <nil>
}

// The README shows this program, whole and as it is.
func TestReadmeShowsTheProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```go\n" + string(program) + "```\n"; bytes.Count(readme, []byte(want)) != 1 {
		t.Errorf("README.md does not show main.go exactly once, as it is; it should hold\n%s", want)
	}
}
