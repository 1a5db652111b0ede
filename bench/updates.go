package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// person is a part of memory/testdata/updates.txt.
type person struct {
	name           string
	facts          map[string]string
	updates, asked [][2]string // IDs and texts
}

// runUpdates measures how often a manager shows its model the memory that a message
// makes outdated.
func runUpdates(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s locomoSettings
	flags := flag.NewFlagSet("bench updates", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.embedder, "embedder", "minilm", "as for bench locomo")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the weights of the encoder if they are missing")
	limit := flags.Int("limit", 0, "number of memories shown to the model; 0 means the manager's default")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("updates: %d files: pass one, such as memory/testdata/updates.txt", flags.NArg())
	}
	people, err := readUpdates(flags.Arg(0))
	if err != nil {
		return err
	}
	embedder, err := locomoEmbedder(ctx, s, stderr)
	if err != nil {
		return err
	}
	// All people share a namespace, so that there are many facts to choose from.
	space := store.Namespace{"memories", "all"}
	base, err := store.NewMemory(&store.Options{Embedder: embedder})
	if err != nil {
		return err
	}
	o := &memory.StoreManagerOptions{Store: base, Namespace: space, Limit: *limit}
	manager, err := memory.NewStoreManager(caller{}, o)
	if err != nil {
		return err
	}
	recaller, err := memory.NewRecaller(&memory.RecallerOptions{Store: base, Namespace: space})
	if err != nil {
		return err
	}
	for _, p := range people {
		for id, text := range p.facts {
			if err := manager.Put(ctx, id, text, nil); err != nil {
				return err
			}
		}
	}
	var updates, shown int
	var asked answers
	for _, p := range people {
		for _, u := range p.updates {
			items, err := manager.Recall(ctx, llm.User(u[1]))
			if err != nil {
				return err
			}
			updates++
			if slices.ContainsFunc(items, func(i *store.Item) bool { return i.Key == u[0] }) {
				shown++
			}
		}
		for _, q := range p.asked {
			got, err := recaller.Recall(ctx, llm.User(q[1]))
			if err != nil {
				return err
			}
			var keys []string
			for _, m := range got.Memories {
				keys = append(keys, m.Item.Key)
			}
			asked.add([]string{q[0]}, keys, got.Tokens, 0)
		}
	}
	fmt.Fprintf(stdout, "outdated memory shown to the model: %d of %d\n", shown, updates)
	if asked.questions == 0 {
		return nil
	}
	l := asked.line(recallerRanking, allCategories)
	_, err = fmt.Fprintf(stdout, "questions: recall@1 %.3f, recall@5 %.3f, recall@10 %.3f, MRR %.3f of %d\n", l.At1, l.At5, l.At10, l.MRR, l.Questions)
	return err
}

func readUpdates(file string) (people []person, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("updates: %w", err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, rest, _ := strings.Cut(line, " ")
		if what == "person" {
			people = append(people, person{name: rest, facts: map[string]string{}})
			continue
		}
		id, text, ok := strings.Cut(rest, " ")
		if !ok || len(people) == 0 {
			return nil, fmt.Errorf("updates: %s:%d: unexpected %q", file, n, line)
		}
		p := &people[len(people)-1]
		switch what {
		case "fact":
			p.facts[id] = text
		case "update":
			p.updates = append(p.updates, [2]string{id, text})
		case "ask":
			p.asked = append(p.asked, [2]string{id, text})
		default:
			return nil, fmt.Errorf("updates: %s:%d: unknown %q", file, n, what)
		}
		if p.facts[id] == "" {
			return nil, fmt.Errorf("updates: %s:%d: unknown fact %q", file, n, id)
		}
	}
	if len(people) == 0 {
		return nil, fmt.Errorf("updates: %s has no people", file)
	}
	return people, lines.Err()
}
