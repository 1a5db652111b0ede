package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// peerLine compares a peer with us. Ratio is the peer's time divided by ours: above
// one, we are faster. A peer that cannot run the job has a note and no numbers.
type peerLine struct {
	Name   string   `json:"name"`
	Peer   string   `json:"peer"`
	OursNs *float64 `json:"ours_ns,omitempty"`
	PeerNs *float64 `json:"peer_ns,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"`
	Note   string   `json:"note,omitempty"`

	// For conversations: their size on disk, and the peer's other turns.
	OursBytes  float64 `json:"ours_bytes,omitempty"`
	PeerBytes  float64 `json:"peer_bytes,omitempty"`
	BytesRatio float64 `json:"bytes_ratio,omitempty"`
	Turn10Ns   float64 `json:"turn10_ns,omitempty"`
	Turn100Ns  float64 `json:"turn100_ns,omitempty"`

	// For servers: the peer's results.
	P50Ns     float64 `json:"p50_ns,omitempty"`
	P95Ns     float64 `json:"p95_ns,omitempty"`
	PerSecond float64 `json:"per_second,omitempty"`
	CPUNs     float64 `json:"cpu_ns,omitempty"`
	RSSBytes  float64 `json:"rss_bytes,omitempty"`
}

// printer writes results as they arrive: JSON Lines for programs, or a table for people.
type printer interface {
	ours(l line, unit string) error
	peer(p peerLine) error
	flush() error
}

func newPrinter(w io.Writer, asJSON bool) printer {
	if asJSON {
		return jsonPrinter{json.NewEncoder(w)}
	}
	return &tablePrinter{w: w}
}

type jsonPrinter struct{ *json.Encoder }

func (p jsonPrinter) ours(l line, _ string) error {
	if !l.measured() { // zeros would look like a result
		return p.Encode(struct {
			Name string `json:"name"`
			Note string `json:"note"`
		}{l.Name, l.Note})
	}
	return p.Encode(l)
}
func (p jsonPrinter) peer(l peerLine) error { return p.Encode(l) }
func (p jsonPrinter) flush() error          { return nil }

// tablePrinter keeps its rows until flush, when the column widths and the results
// of all peers are known.
type tablePrinter struct {
	w    io.Writer
	rows []tableRow
}

type tableRow struct{ name, engine, time, allocs, bytes, ratio, note string }

func (p *tablePrinter) ours(l line, unit string) error {
	row := tableRow{name: l.Name, engine: "treadle", time: "-", note: l.Note}
	if l.measured() {
		row.time = shortTime(l.NsPerOp) + "/" + unit
		if l.P95Ns > 0 {
			row.time += ", p95 " + shortTime(l.P95Ns)
		}
		row.allocs, row.bytes = fmt.Sprintf("%.1f", l.AllocsPerOp), fmt.Sprintf("%.0f", l.BytesPerOp)
	}
	p.rows = append(p.rows, row)
	return nil
}

func (p *tablePrinter) peer(l peerLine) error {
	row := tableRow{name: l.Name, engine: l.Peer, time: "-", note: l.Note}
	if l.PeerNs != nil {
		j, _ := findJob(l.Name)
		row.time = shortTime(*l.PeerNs) + "/" + j.unit
	}
	if l.Ratio != nil {
		row.ratio = fmt.Sprintf("%.1f", *l.Ratio)
	}
	p.rows = append(p.rows, row)
	return nil
}

func (p *tablePrinter) flush() error {
	if len(p.rows) == 0 {
		return nil
	}
	names := jobNames()
	slices.SortStableFunc(p.rows, func(a, b tableRow) int {
		return slices.Index(names, a.name) - slices.Index(names, b.name)
	})
	head := tableRow{"name", "engine", "time", "allocs", "bytes", "peer/ours", "note"}
	w := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, r := range append([]tableRow{head}, p.rows...) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.name, r.engine, r.time, r.allocs, r.bytes, r.ratio, r.note)
	}
	return w.Flush() // reports the error of any write
}

// shortTime formats a time with about three digits, more than the precision of the
// measurement.
func shortTime(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d < 10*time.Microsecond:
		return d.String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Nanosecond).String()
	default:
		return d.Round(100 * time.Microsecond).String()
	}
}
