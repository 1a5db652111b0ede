package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/system/backends"
)

// turns is the number of inputs per thread.
const turns = 2

// A world is what lies outside of the graphs: it hears of effects and of what
// was stored, and it is where the end comes from.
type world struct {
	order
	effects, puts atomic.Int64

	tell   func(line string) error
	stored chan struct{} // signals that a result was saved recently; nil means that no node lingers
}

// linger delays a slow node, so that the saver can save the results of its
// siblings, but not forever, because they may be unfinished themselves.
func (w *world) linger() {
	const patience = 5 * time.Millisecond
	if w.stored == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.stored:
	case <-timer.C:
	}
}

// effect records an external effect with its idempotency key, and kills the process
// if it is the effect that the order names.
func (w *world) effect(ctx context.Context, label string, x int) error {
	n := int(w.effects.Add(1))
	if n == w.AtEffect && !w.Afterward {
		die()
	}
	info := treadle.InfoFrom(ctx)
	err := w.tell(fmt.Sprintf("effect\t%s\t%s\t%s(%d)", info.IdempotencyKey, info.Thread, label, x))
	if n == w.AtEffect {
		die()
	}
	return err
}

// die kills the process like kill -9.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// watched is a saver whose user may die at any put.
type watched struct {
	checkpoint.Saver
	w *world
}

func (s *watched) Put(ctx context.Context, p *checkpoint.Put) error {
	return s.store(func() error { return s.Saver.Put(ctx, p) },
		fmt.Sprintf("put\t%s\t%s\t%s", p.ID, p.Thread, p.Namespace))
}

// PutAll counts as one put, because a kill must not split it.
func (s *watched) PutAll(ctx context.Context, puts []*checkpoint.Put) error {
	b, ok := s.Saver.(checkpoint.Batcher)
	if !ok {
		for _, p := range puts {
			if err := s.Put(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}
	var lines []string
	for _, p := range puts {
		lines = append(lines, fmt.Sprintf("put\t%s\t%s\t%s", p.ID, p.Thread, p.Namespace))
	}
	return s.store(func() error { return b.PutAll(ctx, puts) }, lines...)
}

func (s *watched) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, ws []checkpoint.Write) error {
	var lines []string
	for _, w := range ws {
		if w.Kind == checkpoint.Done {
			lines = append(lines, "recorded\t"+w.Task)
		}
	}
	err := s.store(func() error { return s.Saver.PutWrites(ctx, at, fence, ws) }, lines...)
	if len(lines) > 0 {
		select {
		case s.w.stored <- struct{}{}:
		default: // no node lingers, or one has been notified
		}
	}
	return err
}

func (s *watched) store(put func() error, lines ...string) error {
	n := int(s.w.puts.Add(1))
	if n == s.w.AtPut && !s.w.Afterward {
		die()
	}
	if err := put(); err != nil {
		return err
	}
	if n == s.w.AtPut { // saved, but not reported
		die()
	}
	for _, line := range lines {
		if err := s.w.tell(line); err != nil {
			return err
		}
	}
	return nil
}

// playAll plays the threads of an order side by side until they are finished.
func playAll(o order, db backends.Database) error {
	journal, err := os.OpenFile(o.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	w := &world{order: o, stored: make(chan struct{}, 1), tell: func(line string) error {
		_, err := journal.WriteString(line + "\n") // one write, which a kill does not part
		return err
	}}
	fmt.Fprintln(os.Stdout, "ready") // the parent waits for it
	var wg sync.WaitGroup
	errs := make([]error, len(o.Seeds))
	for i, seed := range o.Seeds {
		wg.Go(func() {
			p, err := newPlayer(seed, w, &watched{db, w})
			if err == nil {
				err = p.play(context.Background(), o.Leave)
			}
			if err != nil && !errors.Is(err, errLeft) {
				errs[i] = fmt.Errorf("thread %s: %w", threadName(seed), err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// errLeft: a question was asked and is for another process to answer.
var errLeft = errors.New("left with a question")

// play brings a thread to its end from wherever it is. With leave it stops when
// something is asked.
func (p *player) play(ctx context.Context, leave bool) error {
	for {
		snap, err := p.thread.State(ctx)
		if err != nil {
			return err
		}
		switch {
		case snap.ID.IsZero():
			err = p.run(ctx, 0)
		case len(snap.Pauses) > 0:
			answers, decodeErr := p.answers(snap)
			if decodeErr != nil {
				return decodeErr
			}
			err = p.resume(ctx, answers)
		case len(snap.Next) > 0:
			_, err = p.thread.RunJSON(ctx, nil)
		default:
			inputs, countErr := p.inputs(ctx)
			if inputs == turns || countErr != nil {
				return countErr
			}
			err = p.run(ctx, inputs)
		}
		if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
			if leave {
				return errLeft
			}
			continue
		}
		if err != nil {
			return err
		}
	}
}

// answers returns the answers to the pending interrupts. Every other thread answers
// them one at a time.
func (p *player) answers(snap *treadle.Snapshot) (treadle.Answers, error) {
	out := treadle.Answers{}
	for _, pause := range snap.Pauses {
		var q question
		if err := pause.Decode(&q); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(q.Label, "ask") {
			return nil, fmt.Errorf("unexpected interrupt %s", pause.Value)
		}
		out[pause.ID] = q.reply()
		if p.seed%2 == 0 {
			break
		}
	}
	return out, nil
}

// inputs returns the number of inputs of the thread.
func (p *player) inputs(ctx context.Context) (n int, err error) {
	for snap, err := range p.thread.History(ctx, nil) {
		if err != nil {
			return 0, err
		}
		if snap.Source == checkpoint.Input {
			n++
		}
	}
	return n, nil
}
