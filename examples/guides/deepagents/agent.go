package main

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/agent/deep/files"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
)

// newAgent returns an agent that works in a directory. A person approves what it writes.
func newAgent(model llm.Model, dir files.Backend, saver checkpoint.Saver) (*treadle.Graph[deep.State, deep.State], error) {
	return deep.New(model, &deep.Options{
		Prompt: "You are a librarian.",
		Files: deep.FilesOptions{Backend: dir, Permissions: []deep.Permission{
			{Paths: []string{"/private/**"}, Mode: deep.Deny},
			{Paths: []string{"/**"}, Ops: []string{deep.OpWrite}, Mode: deep.Confirm},
		}},
		Graph: treadle.Options{Saver: saver},
	})
}
