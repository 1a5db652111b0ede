package minilm_test

import (
	"fmt"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/minilm"
)

func ExampleFind() {
	encoder, err := minilm.Find() // after: treadle encoder
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := store.NewMemory(&store.Options{Embedder: encoder})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = s // finds "My delivery is late" for "The package has not arrived"
}
