// Bench measures Treadle and, with -peers, runs the same jobs on cloudwego/eino,
// LangGraph.js, and LangGraph for Python. README.md explains the job names.
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

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pgtest.Durable = true // as in production
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
	runs     int
	record   string // the file that the runs are appended to
	report   string // the file that the documentation is written from
	from     string // file with the lines of an earlier run to print instead
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&s.json, "json", false, "print one JSON object per line instead of a table")
	flags.BoolVar(&s.peers, "peers", false, "run the same jobs on cloudwego/eino, LangGraph.js, and LangGraph for Python")
	flags.BoolVar(&s.markdown, "markdown", false, "print the tables of docs/performance.md instead")
	flags.BoolVar(&s.strict, "strict", false, "fail if a job could not be measured, for example because Postgres is missing")
	flags.BoolVar(&s.fetch, "fetch", false, "fetch the sentence encoder of the store jobs from the npm registry ("+encoderParcel.size+") if it is missing")
	flags.StringVar(&s.from, "from", "", "print the results that an earlier run with -json wrote to this `file`, without measuring")
	flags.IntVar(&s.runs, "runs", 1, "measure everything `n` times")
	flags.StringVar(&s.record, "record", "", "append the runs to this `file` for -report; without -only, measures the jobs that the documentation shows")
	flags.StringVar(&s.report, "report", "", "measure nothing, write the medians of the runs in this `file` into README.md and docs/performance.md")
	only := flags.String("only", "", "comma-separated `names` of the jobs to measure")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.json && s.markdown {
		return settings{}, errors.New("-json and -markdown are mutually exclusive")
	}
	if s.runs < 1 {
		return settings{}, fmt.Errorf("invalid -runs %d: want at least 1", s.runs)
	}
	var err error
	s.jobs, err = selectJobs(*only)
	if s.record != "" && *only == "" {
		s.jobs = slices.DeleteFunc(slices.Clone(s.jobs), func(j job) bool { return !published(j) })
	}
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
	if len(args) > 0 && args[0] == "answers" {
		return runAnswers(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "cranfield" {
		return runCranfield(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "folder" {
		return runFolder(ctx, args[1:], stdout, stderr)
	}
	if len(args) > 0 && args[0] == "tools" {
		return runTools(ctx, args[1:], stdout, stderr)
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
	if s.report != "" {
		return report(s.report, "..")
	}
	stores.fetch = s.fetch
	defer func() { err = errors.Join(err, stores.close(), removeProgram()) }()
	for n := range s.runs {
		if s.runs > 1 {
			fmt.Fprintf(stderr, "run %d of %d\n", n+1, s.runs)
		}
		out := newRecorder(s.printer(stdout), args)
		if err := measureAll(ctx, s, out, stderr); err != nil {
			return err
		}
		if s.record != "" {
			if err := out.save(s.record); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureAll measures all jobs once.
func measureAll(ctx context.Context, s settings, out printer, stderr io.Writer) (err error) {
	b := bench{out: out, progress: stderr, each: repetitionTime, ours: map[string]line{}}
	defer func() {
		if err == nil {
			err = b.verdict(s.strict)
		}
		// Results from before a failure are still printed.
		err = errors.Join(err, b.out.flush())
	}()
	if !s.peers {
		return b.goEngines(ctx, s.jobs, false)
	}
	return b.withPeers(ctx, s)
}

// withPeers measures job by job, with ours and the peers' runs back to back, so
// that a slow minute of the machine affects both sides of a ratio.
func (b *bench) withPeers(ctx context.Context, s settings) error {
	jobs, servers := apart(s.jobs)
	js, py := jsServer(b.progress), pyServer(b.progress)
	// Fail before minutes of measuring, not after.
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

// install installs the peers that are not written in Go and returns the installed
// ones. The jobs of a peer that could not be installed get a note; with -strict,
// install fails instead.
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

// bench runs jobs and keeps our results for the ratios.
type bench struct {
	out      printer
	progress io.Writer
	each     time.Duration
	ours     map[string]line
	lacks    []error // jobs that could not be measured
}

// verdict returns an error if jobs could not be measured and strict is set.
func (b *bench) verdict(strict bool) error {
	if !strict {
		return nil
	}
	return errors.Join(b.lacks...)
}

// goEngines measures the engines written in Go: ours and, with peers, eino.
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

// side is a job on an engine written in Go.
type side struct {
	engine string
	work
}

// inTurns measures a job on several engines, ours first.
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

// against compares a peer's result with ours, if we have one.
func (b *bench) against(peer string, l line) peerLine {
	p := peerLine{Name: l.Name, Peer: peer, PeerNs: new(l.NsPerOp), Note: l.Note, Turn10Ns: l.Turn10Ns, Turn100Ns: l.Turn100Ns,
		P50Ns: l.P50Ns, P95Ns: l.P95Ns, PerSecond: l.PerSecond, CPUNs: l.CPUNs, RSSBytes: l.RSSBytes}
	ours, ok := b.ours[l.Name]
	if !ok {
		return p
	}
	p.OursNs, p.Ratio = new(ours.NsPerOp), new(l.NsPerOp/ours.NsPerOp)
	if l.RawBytes > 0 && ours.RawBytes > 0 {
		// Relative to the messages' size, although both have the same messages.
		p.OursBytes, p.PeerBytes = ours.BytesPerOp, l.BytesPerOp
		p.BytesRatio = (l.BytesPerOp / l.RawBytes) / (ours.BytesPerOp / ours.RawBytes)
	}
	return p
}
