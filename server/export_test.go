package server

import (
	"time"

	"github.com/treadle-go/treadle"
)

// NewAlone is like New, but for a process that is the only one on its database.
func NewAlone(db Database, graphs []treadle.AnyGraph, o *Options) (*Server, error) {
	alone := Options{}
	if o != nil {
		alone = *o
	}
	alone.extras.Alone = true
	return New(db, graphs, &alone)
}

// Impatient makes a server disconnect clients that neither read nor send for d.
func Impatient(o Options, d time.Duration) *Options {
	o.extras.ClientTime = d
	return &o
}
