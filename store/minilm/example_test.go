package minilm_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/minilm"
)

// Until the encoder is installed, this store searches by keyword. With the encoder, "My
// delivery is late" finds the item too.
func ExampleFind() {
	var opts store.Options
	switch encoder, err := minilm.Find(); { // installed by the command: treadle encoder
	case err == nil:
		opts.Embedder = encoder
	case !errors.Is(err, fs.ErrNotExist):
		fmt.Println(err)
		return
	}
	s, err := store.NewMemory(&opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, orders := context.Background(), store.Namespace{"orders"}
	if err := s.Put(ctx, orders, "42", map[string]string{"note": "The package has not arrived."}, nil); err != nil {
		fmt.Println(err)
		return
	}
	found, err := s.Search(ctx, orders, &store.SearchOptions{Query: "Where is my package?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range found {
		fmt.Println(item.Key)
	}
	// Output: 42
}
