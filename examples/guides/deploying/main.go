// Command agent serves a graph in production.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/server/standalone"
)

// Job is the state of a long run.
type Job struct {
	Done int `json:"done"`
}

// newGraph returns a graph that takes ten steps. It stands in for an agent.
func newGraph(step time.Duration) (*treadle.Graph[Job, Job], error) {
	b := treadle.New[Job]("job")
	treadle.AddNode(b, "work", func(ctx context.Context, j Job) (Job, error) {
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return Job{}, ctx.Err()
		}
		log.Printf("step %d", j.Done+1)
		return Job{j.Done + 1}, nil
	})
	b.Edge(treadle.Start, "work")
	treadle.AddBranch(b, "work", func(_ context.Context, j Job) (treadle.Goto, error) {
		if j.Done < 10 {
			return treadle.To("work"), nil
		}
		return treadle.To(treadle.End), nil
	}, "work", treadle.End)
	return b.Compile(nil) // the server provides the saver
}

// newOptions reads users and keys, such as "ann=secret1,bob=secret2".
func newOptions(keys string) (*server.Options, error) {
	users := map[string]*server.User{}
	for entry := range strings.SplitSeq(keys, ",") {
		name, key, ok := strings.Cut(entry, "=")
		if !ok {
			return nil, errors.New("API_KEYS: want name=key,name=key")
		}
		users[key] = &server.User{Identity: name}
	}
	return &server.Options{
		Auth:       &server.Auth{Authenticate: server.APIKeys(users), On: server.OwnerRules()},
		MaxRunTime: 10 * time.Minute,
	}, nil
}

func main() {
	g, err := newGraph(time.Second)
	if err != nil {
		log.Fatal(err)
	}
	opts, err := newOptions(os.Getenv("API_KEYS"))
	if err != nil {
		log.Fatal(err)
	}
	standalone.Main(opts, g)
}
