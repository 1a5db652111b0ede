package main

import (
	"os"
	"path/filepath"
)

func Example() {
	dir, err := os.MkdirTemp("", "answers")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(filepath.Join(dir, "animals"), 0o755); err != nil {
		panic(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, "animals", name), []byte(text), 0o644); err != nil {
			panic(err)
		}
	}
	write("owls.md", "# Owls\n\n## Flight\n\nOwls fly silently. The edges of their feathers break up the air.\n\n## Food\n\nOwls eat mice.\n")
	write("gophers.md", "# Gophers\n\nGophers live in tunnels. They dig them themselves.\n")
	write("owl.png", "\x89PNG\x00")
	old, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	if err := os.Chdir(dir); err != nil {
		panic(err)
	}
	defer func() { _ = os.Chdir(old) }()
	for _, question := range []string{"Why do owls fly silently?", "Where do gophers live?"} {
		os.Args = []string{"answers", "animals", question}
		main()
	}
	// Output:
	// 2 added, 0 updated, 0 unchanged, 0 deleted, 1 skipped, 0 failed; 3 chunks written
	// skipped "owl.png": binary file: it contains NUL bytes
	// The documents say: Owls fly silently [1: "Owls fly silently"].
	// [1] owls.md:5: Owls fly silently
	// 0 added, 0 updated, 2 unchanged, 0 deleted, 1 skipped, 0 failed; 0 chunks written
	// skipped "owl.png": binary file: it contains NUL bytes
	// The documents say: Gophers live in tunnels [1: "Gophers live in tunnels"].
	// [1] gophers.md:3: Gophers live in tunnels
}
