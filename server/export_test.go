package server

import (
	"time"

	"github.com/treadle-go/treadle"
)

// NewAlone is New for a process that knows that it is the only one on its database.
func NewAlone(db Database, graphs []treadle.AnyGraph, o *Options) (*Server, error) {
	alone := Options{}
	if o != nil {
		alone = *o
	}
	alone.alone = true
	return New(db, graphs, &alone)
}

// Impatient makes a server give up clients that neither read nor send for so long.
func Impatient(o Options, d time.Duration) *Options {
	o.clientTime = d
	return &o
}
