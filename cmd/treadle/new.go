package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/scaffold"
)

func newNew(s *streams) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a module with an agent, a test, a main and a Dockerfile",
		Long: `Write a new Go module into the directory NAME: an agent with a tool that needs an
approval, a test of it, a program that serves it, treadle.json and a Dockerfile.
It works without a key.

NAME may be the path of a module, such as example.com/team/shop; the directory then
is its last part.`,
		Example: `  treadle new shop
  cd shop && treadle dev`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("new needs the name of the module")
			case 1:
				return scaffold.Check(args[0])
			}
			return fmt.Errorf("new takes one name, not %d", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Module, o.Dir = args[0], scaffold.Name(args[0])
			o.Version = releaseOf(debug.ReadBuildInfo())
			files, err := scaffold.Write(o)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(s.out, "wrote", filepath.Join(o.Dir, filepath.FromSlash(f)))
			}
			next := "cd " + o.Dir + " && treadle dev"
			if err := tidy(cmd.Context(), o.Dir); err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "treadle: go mod tidy failed, so go.sum is missing: %v\n", err)
				next = "cd " + o.Dir + " && go mod tidy && treadle dev"
			}
			fmt.Fprintf(s.out, "\nNext: %s\n", next)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Replace, "replace", "", "a checkout of Treadle to use instead of a release")
	_ = cmd.Flags().MarkHidden("replace") // the flag exists
	return cmd
}

// tidy completes go.mod and creates go.sum.
func tidy(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return errors.New(printable(strings.TrimSpace(string(out))))
	}
	return err
}

var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// releaseOf returns the version of Treadle that the command was built from, or "" if it is not
// a release that the module proxy has.
func releaseOf(info *debug.BuildInfo, ok bool) string {
	if !ok || !release.MatchString(info.Main.Version) {
		return ""
	}
	return info.Main.Version
}
