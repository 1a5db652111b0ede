package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/minilm"
)

func newEncoder(s *streams) *cobra.Command {
	return &cobra.Command{
		Use:   "encoder",
		Short: "Install the sentence encoder for semantic search",
		Long: `Fetch the weights of all-MiniLM-L6-v2 (84 MB) into the user's cache directory, or
into the directory that TREADLE_ENCODER names, unless they are there. The commands
serve and dev, the examples, and programs that call minilm.Find use them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := minilm.Install(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := minilm.Open(dir); err != nil { // damaged since, or files of another model
				return fmt.Errorf("%w: delete the directory and run the command again", err)
			}
			fmt.Fprintln(s.out, "all-MiniLM-L6-v2 is installed in", dir)
			return nil
		},
	}
}

// demoOptions returns the options of the server that serves the demo graphs: its store
// has semantic search if the sentence encoder is installed.
func demoOptions() (*server.Options, error) {
	e, err := minilm.Find()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &server.Options{Store: &store.Options{Embedder: e}}, nil
}
