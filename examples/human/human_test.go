package human_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/treadle-go/treadle"
)

// report prints how a run ended: with its output, with questions, or with an
// error.
func report[Out any](out Out, err error) {
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	switch {
	case ok && len(stop.Pauses) > 0:
		for _, p := range stop.Pauses {
			fmt.Printf("%s asks %s\n", p.Node, p.Value)
		}
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Printf("%+v\n", out)
	}
}

// watch prints the updates and questions of a stream.
func watch(events iter.Seq2[treadle.Event, error]) {
	for ev, err := range events {
		if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
			return // its questions were events, too
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev := ev.(type) {
		case treadle.Interrupted:
			for _, p := range ev.Pauses {
				fmt.Printf("%s asks %s\n", p.Node, p.Value)
			}
		case treadle.Updated:
			fmt.Println(ev.Node, "wrote", ev.Update)
		}
	}
}

// Message is one turn of a conversation.
type Message struct {
	ID, Role, Content string
}

// Messages is a conversation: an update replaces messages with the same ID and appends the
// others.
type Messages []Message

// Reduce merges an update into the conversation.
func (ms Messages) Reduce(update Messages) Messages {
	out := slices.Clone(ms)
	for _, m := range update {
		i := slices.IndexFunc(out, func(old Message) bool { return m.ID != "" && m.ID == old.ID })
		if i < 0 {
			out = append(out, m)
			continue
		}
		out[i] = m
	}
	return out
}
