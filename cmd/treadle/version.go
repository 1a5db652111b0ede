package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(s *streams, version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Fprintln(s.out, "treadle", version)
		},
	}
}

// versionOf returns the module's version, or the revision that it was built from, and the Go
// version.
func versionOf(info *debug.BuildInfo, ok bool) string {
	version, with := "unknown", runtime.Version()
	if ok {
		version, with = info.Main.Version, info.GoVersion
		if version == "" || version == "(devel)" {
			version = revisionOf(info)
		}
	}
	return fmt.Sprintf("%s (%s, %s/%s)", version, with, runtime.GOOS, runtime.GOARCH)
}

func revisionOf(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return "devel"
	}
	revision = "devel-" + revision[:min(12, len(revision))]
	if settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return revision
}
