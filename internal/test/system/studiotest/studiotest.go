// Package studiotest tests the studio in a real browser against a real server.
//
// Each file in flows/ is a script with a separate group of checks: what a user does in one
// view. The graphs come from internal/test/platform and from this package, whose models follow a
// script. To try the page by hand:
//
//	go run ./internal/test/system/studiotest/serve dev
package studiotest

import (
	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/test/platform"
)

// builders lists the constructors of this package's graphs.
var builders = []func() (treadle.AnyGraph, error){
	newAllow, newPaced, // run at the speed of a script
	newTalker, newSurvey, newInbox, newNap, // chat
	newCounter, newTally, newNest, newBulk, newTraced, newFlaky, newClerk, // timeline and trace
	newScribe, newCoder, // agent
}

// Graphs returns the graphs used to test the studio.
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
