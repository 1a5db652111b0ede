package standalone_test

import (
	"context"
	"os"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/server/standalone"
)

type said struct{ Messages llm.Messages }

// echo returns a graph that repeats the last message.
func echo() (treadle.AnyGraph, error) {
	b := treadle.New[llm.Chat]("echo")
	treadle.AddNode(b, "echo", func(_ context.Context, s llm.Chat) (said, error) {
		return said{llm.Messages{llm.Assistant("You said: " + s.Messages[len(s.Messages)-1].Text())}}, nil
	})
	b.Sequence(treadle.Start, "echo", treadle.End)
	return b.Compile(nil)
}

// Main is the whole program of most servers. Here it only prints its help.
func ExampleMain() {
	os.Args = []string{"shop", "--help"}
	standalone.Main(nil, treadle.Must(echo()))
	// Output:
	// Usage: shop [command] [flags]
	//
	// Commands:
	//   serve     serve the graphs (default)
	//   dev       serve for development: allow local web pages and private webhooks, and log requests
	//   openapi   print the API description
	//
	// Flags:
	//   --allow A,B        additional hosts and origins, A,B, that may call a server without Auth on a loopback address, such as agents.test or https://app.test
	//   --config FILE      configuration FILE (default treadle.json or langgraph.json, if present)
	//   --db FILE          database FILE, or postgres://… for several processes (default treadle.db)
	//   --grace TIME       TIME for runs to finish their step at shutdown (default 30s)
	//   --graphs A,B       graphs whose runs this process executes, A,B; empty means all
	//   --host HOST        HOST to listen on (default 127.0.0.1)
	//   --log FORMAT       log FORMAT: auto, json, text, or pretty (default auto)
	//   --log-requests     log each request
	//   --memory SIZE      memory limit of the server's caches, a SIZE such as 64MiB or 1GiB (default a share of the machine's memory)
	//   --nats ADDRESSES   NATS ADDRESSES, such as nats://a,nats://b, to connect processes on one Postgres
	//   --port PORT        PORT to listen on; 0 selects a free port (default 2024)
	//   --revision N       deploy number N; older processes do not continue threads changed by newer ones (default 0)
	//   --role ROLE        ROLE of this process: all, api (executes no runs), or worker (serves no clients) (default all)
	//   --spans            store the model and tool calls of runs, with what was sent and received
	//   --studio           serve the studio, a web page to run and inspect the graphs, at /studio/
}
