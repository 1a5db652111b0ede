package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/treadle-go/treadle/cmd/treadle/internal/scaffold"
)

func newNew(s *streams) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a module with an agent, a test, and a Dockerfile",
		Long: `Create a Go module in the directory NAME: an agent with a tool that requires
approval, a test, a program that serves the agent, treadle.json, and a Dockerfile.
With --deep, it is a deep agent: it plans, works with files, gives tasks to
sub-agents, and has skills. It works without an API key.

NAME may be a module path, such as example.com/team/shop; the directory is then its
last element.`,
		Example: `  treadle new shop
  cd shop && treadle dev
  treadle new --deep library`,
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return errors.New("new requires a module name")
			case 1:
				return scaffold.Check(args[0])
			}
			return fmt.Errorf("new takes one name, not %d", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Module, o.Dir = args[0], scaffold.Name(args[0])
			o.Version = releaseOf(debug.ReadBuildInfo())
			if o.Version == "" && o.Replace == "" {
				o.Replace = checkout()
			}
			files, err := scaffold.Write(o)
			if err != nil {
				return err
			}
			for _, f := range files {
				fmt.Fprintln(s.out, "wrote", filepath.Join(o.Dir, filepath.FromSlash(f)))
			}
			next := "cd " + o.Dir + " && treadle dev"
			if err := tidy(cmd.Context(), o.Dir); err != nil {
				if o.Version == "" && o.Replace == "" {
					err = errors.New("this command is not a release of Treadle, and its checkout was not found: run it there")
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "treadle: go mod tidy failed, so go.sum is missing: %v\n", err)
				next = "cd " + o.Dir + " && go mod tidy && treadle dev"
			}
			fmt.Fprintf(s.out, "\nNext: %s\n", next)
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "create a deep agent")
	cmd.Flags().StringVar(&o.Replace, "replace", "", "checkout of Treadle to use instead of a release")
	_ = cmd.Flags().MarkHidden("replace") // the flag exists
	return cmd
}

// checkout returns the directory of the checkout that the command runs in or was built from,
// or "" if there is none.
func checkout() string {
	if here, err := os.Getwd(); err == nil {
		if dir := scaffold.Checkout(here); dir != "" {
			return dir
		}
	}
	_, file, _, _ := runtime.Caller(0) // not a path if built with -trimpath
	return scaffold.Checkout(filepath.Dir(file))
}

// tidy completes go.mod and creates go.sum. A module proxy may lack versions that only tests of
// dependencies need, so an error counts only if the module's own packages and tests lack something.
func tidy(ctx context.Context, dir string) error {
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); failed {
			return errors.New(printable(strings.TrimSpace(string(out))))
		}
		return err
	}
	err := run("mod", "tidy")
	if err != nil && run("mod", "tidy", "-e") == nil && run("list", "-deps", "-test", "./...") == nil {
		return nil
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
