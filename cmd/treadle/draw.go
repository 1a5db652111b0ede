package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/draw"
)

// format is a diagram format.
type format struct {
	name string
	exts []string // file name extensions that select the format
	draw func(draw.Shape) (string, error)
}

// formats returns the formats, the default first.
func formats() []format {
	plain := func(render func(draw.Shape) string) func(draw.Shape) (string, error) {
		return func(s draw.Shape) (string, error) { return render(s), nil }
	}
	return []format{
		{"text", []string{".txt"}, plain(draw.Shape.Text)},
		{"ascii", nil, plain(draw.Shape.ASCII)},
		{"mermaid", []string{".mmd", ".mermaid"}, plain(draw.Shape.Mermaid)},
		{"dot", []string{".dot", ".gv"}, plain(draw.Shape.DOT)},
		{"svg", []string{".svg"}, plain(draw.Shape.SVG)},
		{"json", []string{".json"}, func(s draw.Shape) (string, error) {
			raw, err := json.MarshalIndent(s, "", "  ")
			return string(plainJSON(raw)), err
		}},
	}
}

// formatFlag is a flag for the name of a format.
type formatFlag struct{ format }

func (f *formatFlag) String() string { return f.name }

// Type returns the choices, for the help text.
func (f *formatFlag) Type() string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return strings.Join(names, "|")
}

func (f *formatFlag) Set(name string) error {
	all := formats()
	i := slices.IndexFunc(all, func(f format) bool { return f.name == name })
	if i < 0 {
		return fmt.Errorf("use %s", f.Type())
	}
	f.format = all[i]
	return nil
}

// guess sets the format by the extension of a file, if it is known.
func (f *formatFlag) guess(file string) {
	ext := strings.ToLower(filepath.Ext(file))
	for _, known := range formats() {
		if slices.Contains(known.exts, ext) {
			f.format = known
		}
	}
}

func newDraw(s *streams) *cobra.Command {
	how := &formatFlag{formats()[0]}
	var depth int
	var file string
	var list strings.Builder
	var names []string
	for _, g := range demo.Graphs() {
		fmt.Fprintf(&list, "\n  %-8s %s", g.Name, g.About)
		names = append(names, g.Name)
	}
	cmd := &cobra.Command{
		Use:   "draw [graph]",
		Short: "Draw a graph",
		Long: `Draw a graph as text, as an image, or as source for another tool. It needs no
network.

Graphs:` + list.String(),
		Example: `  treadle draw jokes
  treadle draw essay --depth 1          with the subgraph expanded
  treadle draw essay --format mermaid   to paste into a README
  treadle draw essay -o essay.svg       derives the format from the name`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("draw takes one graph, not %d", len(args))
			}
			_, err := demo.FindGraph(strings.Join(args, ""))
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("format") {
				how.guess(file)
			}
			entry, err := demo.FindGraph(strings.Join(args, ""))
			if err != nil {
				return err
			}
			g, err := entry.Build(nil)
			if err != nil {
				return err
			}
			picture, err := how.draw(g.Shape().Expand(depth))
			if err != nil {
				return err
			}
			picture = strings.TrimRight(picture, "\n") + "\n"
			if file == "" || file == "-" {
				fmt.Fprint(s.out, picture)
				return nil
			}
			return os.WriteFile(file, []byte(picture), 0o644)
		},
	}
	cmd.Flags().VarP(how, "format", "f", "output format")
	cmd.Flags().IntVarP(&depth, "depth", "d", 0, "levels of subgraphs to expand; -1 expands all")
	cmd.Flags().StringVarP(&file, "output", "o", "", "output file (default standard output)")
	return cmd
}
