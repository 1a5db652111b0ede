package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/ledger"
)

// Kwargs configures the execution of a run. It is stored with the run, and clients see it as
// the run's kwargs.
type Kwargs struct {
	Input        json.RawMessage `json:"input"`
	Command      json.RawMessage `json:"command"`
	Config       ledger.Object   `json:"config"`
	Context      ledger.Object   `json:"context"`
	StreamMode   []string        `json:"stream_mode"`
	Before       []string        `json:"interrupt_before"`
	After        []string        `json:"interrupt_after"`
	Webhook      *string         `json:"webhook"`
	FeedbackKeys []string        `json:"feedback_keys"`
	Temporary    bool            `json:"temporary"`
	Subgraphs    bool            `json:"subgraphs"`
	Resumable    bool            `json:"resumable"`
	During       bool            `json:"checkpoint_during"`
	Durability   string          `json:"durability"`
	Strict       bool            `json:"strict_resume,omitempty"` // reject answers to interrupts that are not pending
	V2           bool            `json:"v2,omitempty"`            // record everything, for protocol v2

	// Trace contains the W3C trace context headers of the request that created the run.
	Trace map[string]string `json:"trace,omitempty"`
}

// Configurable returns the configurable part of the config, which nodes can read.
func (k *Kwargs) Configurable() map[string]any {
	c, _ := k.Config["configurable"].(map[string]any)
	return c
}

// StreamModes lists the stream modes that a client can request.
var StreamModes = []string{"values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events", "tools"}

// engineModes returns the stream modes of the graph that the requested modes need.
func (k *Kwargs) engineModes() treadle.Mode {
	if k.V2 {
		return treadle.ModeValues | treadle.ModeUpdates | treadle.ModeMessages | treadle.ModeCustom | treadle.ModeTasks | treadle.ModeCheckpoints |
			treadle.ModeEvents | k.modes()
	}
	return treadle.ModeValues | k.modes() // the result of the run is its last values
}

func (k *Kwargs) modes() treadle.Mode {
	var all treadle.Mode
	for _, name := range k.StreamMode {
		switch name {
		case "messages-tuple":
			all |= treadle.ModeMessages
		case "tools":
			all |= treadle.ModeEvents
		default:
			var m treadle.Mode
			if m.UnmarshalText([]byte(name)) == nil {
				all |= m
			}
		}
	}
	return all
}

// wants reports whether the client requested a mode.
func (k *Kwargs) wants(mode string) bool { return slices.Contains(k.StreamMode, mode) }

// options returns the run options for the graph.
func (k *Kwargs) options(run *ledger.Run, g *graph) []treadle.RunOption {
	opts := []treadle.RunOption{treadle.RunID(run.ID.String()), treadle.Metadata(k.metadata(run))}
	if tags := k.tags(); len(tags) > 0 {
		opts = append(opts, treadle.Tags(tags...))
	}
	if limit, ok := integer(k.Config["recursion_limit"]); ok {
		opts = append(opts, treadle.StepLimit(limit))
	}
	if limit, ok := integer(k.Config["max_concurrency"]); ok && limit > 0 {
		opts = append(opts, treadle.MaxConcurrency(limit))
	}
	if raw := g.context(k.Context); raw != nil {
		opts = append(opts, treadle.Context(raw))
	}
	if nodes := g.known(k.Before); len(nodes) > 0 {
		opts = append(opts, treadle.Before(treadle.Nodes(nodes)...))
	}
	if nodes := g.known(k.After); len(nodes) > 0 {
		opts = append(opts, treadle.After(treadle.Nodes(nodes)...))
	}
	switch k.Durability {
	case "async":
		opts = append(opts, treadle.Async)
	case "exit":
		opts = append(opts, treadle.Exit)
	}
	return opts
}

func (k *Kwargs) tags() (tags []string) {
	list, _ := k.Config["tags"].([]any)
	for _, t := range list {
		if s, ok := t.(string); ok {
			tags = append(tags, s)
		}
	}
	return tags
}

// metadata returns the metadata for the run's checkpoints and events: the scalar values of the
// configuration, and the run's own metadata.
func (k *Kwargs) metadata(run *ledger.Run) map[string]any {
	out := map[string]any{}
	for key, v := range k.Configurable() {
		switch v.(type) {
		case string, bool, json.Number:
			if !strings.HasPrefix(key, "__") && !slices.Contains(privateKeys, key) {
				out[key] = v
			}
		}
	}
	maps.Copy(out, run.Metadata)
	out["run_id"], out["run_attempt"] = run.ID.String(), run.Attempt
	return out
}

// privateKeys lists configuration keys that identify the checkpoint or the caller.
var privateKeys = []string{"checkpoint_id", "checkpoint_ns", "checkpoint_map", "run_id", "thread_id", "langgraph_auth_user"}

// integer converts a decoded JSON number.
func integer(v any) (int, bool) {
	switch n := v.(type) {
	case json.Number:
		i, err := n.Int64()
		return int(i), err == nil
	case float64:
		return int(n), true
	case int:
		return n, true
	}
	return 0, false
}

// At returns the thread at the checkpoint specified by the configuration.
func At(t *dynamic.Thread, configurable map[string]any) (*dynamic.Thread, error) {
	if ns, _ := configurable["checkpoint_ns"].(string); ns != "" {
		inner, err := t.Nested(strings.Split(ns, "|")...)
		if err != nil {
			return nil, err
		}
		t = inner
	}
	if text, _ := configurable["checkpoint_id"].(string); text != "" {
		id, err := checkpoint.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("checkpoint_id: %w", err)
		}
		t = t.At(id)
	}
	return t, nil
}
