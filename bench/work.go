package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// job is an entry of the catalog: a named task for every engine. Only the catalog
// defines the size of a job, so that engines cannot be compared on different sizes
// by accident.
type job struct {
	name string
	unit string // what ns_per_op counts: a step, a task, a turn, a token, …
	n    int    // units in one run
	want int    // nodes that run, and so the final int and the list's length; of a conversation the messages, of a store the items, of a server the requests at most or the readers
	what string
}

var catalogue = []job{
	{"chain10", "step", 10, 10, "10 nodes in a row"},
	{"chain100", "step", 100, 100, "100 nodes in a row"},
	{"chain1000", "step", 1000, 1000, "1,000 nodes in a row"},
	{"loop1000", "step", 1000, 1000, "one node that a conditional edge repeats 1,000 times"},
	{"send100", "task", 100, 101, "one node sends 100 tasks to another"},
	{"send1000", "task", 1000, 1001, "one node sends 1,000 tasks to another"},
	{"send5000", "task", 5000, 5001, "one node sends 5,000 tasks to another"},
	{"chain100_memory", "step", 100, 100, "chain100 with a checkpoint in memory after every step"},
	{"chain100_sqlite", "step", 100, 100, "chain100 with a checkpoint in an SQLite file after every step"},
	{"chain100_postgres", "step", 100, 100, "chain100 with a checkpoint in Postgres after every step"},
	{"send1000_sqlite", "task", 1000, 1001, "send1000 on a thread in an SQLite file"},
	{"history500_memory", "turn", turns, 2 * turns, "a conversation of 500 turns in memory; the time is for turn 500"},
	{"history500_sqlite", "turn", turns, 2 * turns, "a conversation of 500 turns in an SQLite file; the time is for turn 500"},
	{"history500_postgres", "turn", turns, 2 * turns, "a conversation of 500 turns in Postgres; the time is for turn 500"},
	{"interrupt_resume_memory", "round", 1, 1, "interrupt a run and resume it with an answer, in memory"},
	{"interrupt_resume_sqlite", "round", 1, 1, "interrupt a run and resume it with an answer, in an SQLite file"},
	{"get_state_1000", "read", 1, 1000, "the state of a thread of 1,000 messages, decoded, from an SQLite file"},
	{"threads10k_rss", "thread", 10_000, 10_000, "10,000 threads of one turn in an SQLite file, in one process"},
	{"concurrent1000", "step", 10_000, 10, "1,000 concurrent threads, 10 steps each, in an SQLite file"},
	{"wide_state", "step", wideNodes * wideRounds, wideNodes * wideRounds, "30 state fields, a ring of 6 nodes, 20 rounds"},
	{"subgraph_fanout100", "task", 100, 1 + 2*100, "one node fans out to 100 subgraphs of 2 nodes each"},
	{"stream_tokens2000", "token", 2000, 1, "one node streams 2,000 tokens to the caller"},
	{"start_to_first_run", "start", 1, 10, "build, compile and run chain10, in a running process"},
	{"react10", "call", 10, 2*10 + 2, "an agent that calls a tool 10 times, one call per turn"},
	{"react100", "call", 100, 2*100 + 2, "an agent that calls a tool 100 times, one call per turn"},
	{"react10_memory", "call", 10, 2*10 + 2, "react10 on a thread in memory"},
	{"react100_memory", "call", 100, 2*100 + 2, "react100 on a thread in memory"},
	{"tool_parallel50", "call", 50, 50 + 3, "an agent that makes 50 concurrent tool calls"},
	{"message_reduce_10k", "message", 10_000, 10_000, "a conversation grows to 10,000 messages, one at a time"},
	{"trim_10k", "trim", 1, 10_000, "a conversation of 10,000 messages is cut to 4,000 tokens"},
	{"store_put_memory", "put", 1, 1000, "put of an item in memory"},
	{"store_search_semantic_1k_memory", "search", 1, 1000, "semantic search for the 10 nearest of 1,000 items in memory"},
	{"store_get_memory", "get", 1, corpusSize, "get by key from 100,000 items in memory"},
	{"store_search_semantic_100k_memory", "search", 1, corpusSize, "semantic search for the 10 nearest of 100,000 items in memory"},
	{"store_search_keyword_100k_memory", "search", 1, corpusSize, "keyword search for the 10 best of 100,000 items in memory"},
	{"store_filter_100k_memory", "search", 1, corpusSize, "filtered search for the newest 10 of 100,000 items in memory"},
	{"store_put_sqlite", "put", 1, 1000, "put of an item in an SQLite file"},
	{"store_search_semantic_1k_sqlite", "search", 1, 1000, "semantic search for the 10 nearest of 1,000 items in an SQLite file"},
	{"store_get_sqlite", "get", 1, corpusSize, "get by key from 100,000 items in an SQLite file"},
	{"store_search_semantic_100k_sqlite", "search", 1, corpusSize, "semantic search for the 10 nearest of 100,000 items in an SQLite file"},
	{"store_search_keyword_100k_sqlite", "search", 1, corpusSize, "keyword search for the 10 best of 100,000 items in an SQLite file"},
	{"store_filter_100k_sqlite", "search", 1, corpusSize, "filtered search for the newest 10 of 100,000 items in an SQLite file"},
	{"store_put_postgres", "put", 1, 1000, "put of an item in Postgres"},
	{"store_search_semantic_1k_postgres", "search", 1, 1000, "semantic search for the 10 nearest of 1,000 items in Postgres"},
	{"store_get_postgres", "get", 1, corpusSize, "get by key from 100,000 items in Postgres"},
	{"store_search_semantic_100k_postgres", "search", 1, corpusSize, "semantic search for the 10 nearest of 100,000 items in Postgres"},
	{"store_search_keyword_100k_postgres", "search", 1, corpusSize, "keyword search for the 10 best of 100,000 items in Postgres"},
	{"store_filter_100k_postgres", "search", 1, corpusSize, "filtered search for the newest 10 of 100,000 items in Postgres"},
	{"memory_recall_100k", "recall", 1, corpusSize, "recall for a message from 100,000 memories in an SQLite file"},
	{"server_wait_stateless", "request", 1, 3000, "POST /runs/wait by one client"},
	{"server_wait_stateless32", "request", 1, 15_000, "POST /runs/wait by 32 concurrent clients; the total time divided by the requests"},
	{"server_wait_thread", "request", 1, 3000, "POST /threads/{id}/runs/wait by one client, 10 runs a thread"},
	{"server_wait_thread32", "request", 1, 15_000, "POST /threads/{id}/runs/wait by 32 concurrent clients; the total time divided by the requests"},
	{"server_wait_long32", "request", 1, 15_000, "the same, each client on one thread, which grows with every run"},
	{"server_first_event", "event", 1, 300, "from a node's first event to its client, over server-sent events"},
	{"server_sse1000", "frame", 1, 1000, "1,000 clients read the stream of one run; the total time divided by the frames"},
	{"server_memory", "run", 1, 30_000, "the memory of the server 10 seconds after a load of 32 clients; half of the runs have no thread, and the others go to one thread per client"},
	{"server_start", "start", 1, 1, "from the start of the server's process to the first response"},
}

// turns is the number of turns of the conversations.
const turns = 500

const (
	wideNodes  = 6
	wideRounds = 20
)

func jobNames() []string {
	names := make([]string, len(catalogue))
	for i, j := range catalogue {
		names[i] = j.name
	}
	return names
}

func findJob(name string) (job, bool) {
	i := slices.IndexFunc(catalogue, func(j job) bool { return j.name == name })
	if i < 0 {
		return job{}, false
	}
	return catalogue[i], true
}

// selectJobs parses the value of -only: comma-separated names, or "" for all.
// "server" means all jobs whose names start with "server_". The result is in
// catalog order.
func selectJobs(only string) ([]job, error) {
	if strings.TrimSpace(only) == "" {
		return catalogue, nil
	}
	picked := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		found := named(name)
		if len(found) == 0 {
			return nil, fmt.Errorf("unknown name %q in -only; known: %s", name, strings.Join(jobNames(), ", "))
		}
		for _, name := range found {
			picked[name] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(catalogue), func(j job) bool { return !picked[j.name] }), nil
}

// named returns the jobs that a name in -only selects: the job with that name, or
// the jobs whose names start with it and an underscore.
func named(name string) []string {
	if _, ok := findJob(name); ok {
		return []string{name}
	}
	return slices.DeleteFunc(jobNames(), func(n string) bool { return name == "" || !strings.HasPrefix(n, name+"_") })
}

// work is a catalog job on one engine. run runs the whole job once.
type work struct {
	name string
	unit string
	n    int
	run  func(ctx context.Context) error
	note string

	trial  trial // measures its own cost; nil means that run is timed
	trials int   // number of trials, whose median counts
}

// trial runs the whole job once, from scratch, and returns the cost per unit, for
// jobs that timing a run cannot measure. Its size is the job's size.
type trial func(ctx context.Context, j job) (line, error)

// newTrial returns the work for a catalog name from a trial.
func newTrial(name, note string, trials int, t trial) work {
	j := mustFind(name)
	return work{name: j.name, unit: j.unit, n: j.n, note: note, trial: t, trials: trials, run: func(ctx context.Context) error {
		if _, err := t(ctx, j); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}}
}

func mustFind(name string) job {
	j, ok := findJob(name)
	if !ok {
		panic("bench: work " + name + " is not in the catalog")
	}
	return j
}

// tally is the final state of a run, which every node updates.
type tally struct {
	count int
	log   []int
}

// program runs a job once and returns the final state.
type program func(ctx context.Context) (tally, error)

// newWork returns the work for a catalog name. The first run, the warm-up, calls build, so that compiling is
// not measured and a job that is not selected costs nothing. Each run's result is checked, so an engine that
// skipped nodes fails instead of looking fast.
func newWork(name, note string, build func(ctx context.Context) (program, error)) work {
	j := mustFind(name)
	var run program
	return work{name: j.name, unit: j.unit, n: j.n, note: note, run: func(ctx context.Context) error {
		if run == nil {
			built, err := build(ctx)
			if err != nil {
				return fmt.Errorf("%s: build: %w", name, err)
			}
			run = built
		}
		got, err := run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return j.check(got)
	}}
}

func (j job) check(got tally) error {
	if got.count != j.want || len(got.log) != j.want {
		return fmt.Errorf("%s: final state has int %d and %d list items, want %d of both", j.name, got.count, len(got.log), j.want)
	}
	return nil
}

func findWork(works []work, name string) (work, bool) {
	i := slices.IndexFunc(works, func(w work) bool { return w.name == name })
	if i < 0 {
		return work{}, false
	}
	return works[i], true
}
