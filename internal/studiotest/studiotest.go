// Package studiotest tests the studio in a real browser, against a real server.
//
// Each file of flows/ is a script with checks, in a group of its own: what a user does in
// one view. The graphs are those of internal/platform and those of this package, whose
// models answer by a script. To try the page by hand:
//
//	go run ./internal/studiotest/serve dev
package studiotest

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/platform"
)

// builders build the graphs of this package.
var builders = []func() (treadle.AnyGraph, error){
	newAllow, newPaced, // runs at the speed of a script
	newTalker, newSurvey, newInbox, // chat
	newCounter, newBulk, newTraced, newFlaky, // timeline and trace
}

// Graphs are the graphs that the studio is tested with.
func Graphs() ([]treadle.AnyGraph, error) {
	all, err := platform.All()
	if err != nil {
		return nil, err
	}
	for _, build := range builders {
		g, err := build()
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return all, nil
}
