package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// markdownPrinter writes the tables of docs/performance.md: all jobs with a column
// per peer, and the cost of conversations.
type markdownPrinter struct {
	w     io.Writer
	lines map[string]line
	peers map[string]map[string]peerLine

	// Of several runs: the spread of our times by job, and of ratios by peer and job.
	spreads, ratios map[string]spread
}

// peerColumns lists the names of the peers in lines and in tables.
var peerColumns = []struct{ peer, title string }{
	{"eino", "eino"},
	{"langgraph.js", "LangGraph.js"},
	{"langgraph", "LangGraph"},
}

func (p *markdownPrinter) ours(l line, _ string) error {
	if p.lines == nil {
		p.lines = map[string]line{}
	}
	p.lines[l.Name] = l
	return nil
}

func (p *markdownPrinter) peer(l peerLine) error {
	if p.peers == nil {
		p.peers = map[string]map[string]peerLine{}
	}
	if p.peers[l.Peer] == nil {
		p.peers[l.Peer] = map[string]peerLine{}
	}
	p.peers[l.Peer][l.Name] = l
	return nil
}

func (p *markdownPrinter) flush() error {
	var b strings.Builder
	p.jobs(&b)
	p.conversations(&b)
	p.servers(&b)
	_, err := io.WriteString(p.w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// jobs writes the table that compares Treadle with the peers' engines.
func (p *markdownPrinter) jobs(b *strings.Builder) {
	graphs := func(name string) bool { return !isServer(name) }
	if !slices.ContainsFunc(slices.Collect(maps.Keys(p.lines)), graphs) {
		return
	}
	b.WriteString("| job | Treadle |")
	for _, c := range peerColumns {
		fmt.Fprintf(b, " %s |", c.title)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(peerColumns)) + "\n")
	for _, name := range jobNames() {
		l, ok := p.lines[name]
		if !ok || isServer(name) {
			continue
		}
		fmt.Fprintf(b, "| `%s` | %s |", name, p.cell(l))
		for _, c := range peerColumns {
			fmt.Fprintf(b, " %s |", p.peerCell(c.peer, p.peers[c.peer][name]))
		}
		b.WriteByte('\n')
	}
}

// cell shows what a job costs us.
func (p *markdownPrinter) cell(l line) string {
	if !l.measured() {
		return "not measured"
	}
	cell := roundTime(l.NsPerOp)
	if s, ok := p.spreads[l.Name]; ok && s.least < s.greatest {
		cell += " (" + roundTime(s.least) + "–" + roundTime(s.greatest) + ")"
	}
	if l.P95Ns > 0 {
		cell += ", p95 " + roundTime(l.P95Ns)
	}
	if l.PoolerNs > 0 {
		cell += ", pooler-safe " + roundTime(l.PoolerNs)
	}
	if l.ColdNs > 0 {
		cell += ", cold " + roundTime(l.ColdNs)
	}
	if l.RSSBytes > 0 {
		cell += ", " + roundBytes(l.BytesPerOp) + " of memory"
	}
	if l.Recall > 0 {
		cell += fmt.Sprintf(", recall %.3f", l.Recall)
	}
	return cell
}

// ratio shows how many times as long a peer takes.
func (p *markdownPrinter) ratio(peer, job string, r float64) string {
	text := roundRatio(r) + " ×"
	if s, ok := p.ratios[peer+" "+job]; ok && s.least < s.greatest {
		text += " (" + roundRatio(s.least) + "–" + roundRatio(s.greatest) + ")"
	}
	return text
}

func (p *markdownPrinter) peerCell(peer string, l peerLine) string {
	switch {
	case l.PeerNs == nil && strings.HasPrefix(l.Note, "not measured"):
		return "not measured"
	case l.PeerNs == nil && l.Note != "":
		return "cannot"
	case l.PeerNs == nil:
		return ""
	case l.Ratio == nil:
		return roundTime(*l.PeerNs)
	}
	return roundTime(*l.PeerNs) + ": " + p.ratio(peer, l.Name, *l.Ratio)
}

// conversations writes the table with the times and sizes of the history jobs.
func (p *markdownPrinter) conversations(b *strings.Builder) {
	header := "\n| job | engine | turn 10 | turn 100 | turn 500 | 500 / 10 | bytes | of the messages' JSON |\n|---|---|---|---|---|---|---|---|\n"
	for _, name := range jobNames() {
		l, ok := p.lines[name]
		if !ok || !l.measured() || l.Turn10Ns == 0 {
			continue
		}
		row := func(engine string, ten, hundred, last, bytes, ratio float64) {
			b.WriteString(header)
			header = ""
			fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s | %s × | %s | %s × |\n", name, engine,
				roundTime(ten), roundTime(hundred), roundTime(last), roundRatio(last/ten), roundBytes(bytes), roundRatio(ratio))
		}
		raw := l.BytesPerOp / l.RawBytes
		row("Treadle", l.Turn10Ns, l.Turn100Ns, l.NsPerOp, l.BytesPerOp, raw)
		for _, c := range peerColumns {
			if peer := p.peers[c.peer][name]; peer.PeerNs != nil && peer.PeerBytes > 0 {
				row(c.title, peer.Turn10Ns, peer.Turn100Ns, *peer.PeerNs, peer.PeerBytes, raw*peer.BytesRatio)
			}
		}
	}
}

// servers writes the table that compares our server with LangGraph's servers.
func (p *markdownPrinter) servers(b *strings.Builder) {
	header := "\n| job | Treadle | LangGraph's JavaScript server | LangGraph's Python server |\n|---|---|---|---|\n"
	for _, name := range jobNames() {
		l, ok := p.lines[name]
		if !ok || !isServer(name) {
			continue
		}
		b.WriteString(header)
		header = ""
		fmt.Fprintf(b, "| `%s` | %s |", name, serverCell(l))
		for _, peer := range []string{"langgraph.js", "langgraph"} {
			fmt.Fprintf(b, " %s |", p.serverPeerCell(peer, p.peers[peer][name]))
		}
		b.WriteByte('\n')
	}
}

// serverCell returns the rate of a job with many clients, or the time of another job.
func serverCell(l line) string {
	if !l.measured() {
		return "not measured"
	}
	cell := roundTime(l.NsPerOp)
	if l.PerSecond > 0 && l.NsPerOp != l.P50Ns {
		cell = rate(l.PerSecond)
		if l.P50Ns > 0 {
			cell += ", p50 " + roundTime(l.P50Ns)
		}
	}
	if l.P95Ns > 0 {
		cell += ", p95 " + roundTime(l.P95Ns)
	}
	if l.CPUNs > 0 {
		cell += ", " + roundTime(l.CPUNs) + " of CPU"
	}
	if l.RSSBytes > 0 {
		cell += ", " + roundBytes(l.RSSBytes) + " of memory"
	}
	return cell
}

func (p *markdownPrinter) serverPeerCell(peer string, l peerLine) string {
	if l.PeerNs == nil {
		return p.peerCell(peer, l)
	}
	cell := serverCell(line{NsPerOp: *l.PeerNs, P50Ns: l.P50Ns, P95Ns: l.P95Ns, PerSecond: l.PerSecond, CPUNs: l.CPUNs, RSSBytes: l.RSSBytes})
	if l.Ratio != nil {
		cell += ": " + p.ratio(peer, l.Name, *l.Ratio)
	}
	return cell
}

// rate formats a rate per second.
func rate(perSecond float64) string {
	if perSecond < 100 {
		return fmt.Sprintf("%.1f/s", perSecond)
	}
	return fmt.Sprintf("%.0f/s", perSecond)
}

func roundTime(ns float64) string {
	switch {
	case ns < 999.5:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 999.5e3:
		return digits(ns/1e3) + " µs"
	default:
		return digits(ns/1e6) + " ms"
	}
}

func roundBytes(n float64) string {
	if n < 999.5e3 {
		return digits(n/1e3) + " kB"
	}
	return digits(n/1e6) + " MB"
}

func roundRatio(r float64) string {
	if r < 100 {
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

// digits formats v with about three digits, the precision of the measurement.
func digits(v float64) string {
	switch {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
