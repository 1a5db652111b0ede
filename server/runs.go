package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// created returns a run as clients see it when it was just created, whether or not it has
// started.
func created(run *ledger.Run) *ledger.Run {
	copied := *run
	copied.Status = ledger.Pending
	return &copied
}

func (s runAPI) create(c *call) error {
	run, _, err := s.createFromBody(c, false)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", runPath(run))
	return c.json(http.StatusOK, created(run))
}

func (s runAPI) batch(c *call) error {
	var bodies []runBody
	if err := c.decode(&bodies); err != nil {
		return err
	}
	if len(bodies) == 0 || len(bodies) > 1000 {
		return invalid("body", "want 1 to 1000 runs, not %d", len(bodies))
	}
	for i := range bodies { // validate all before creating any
		if _, err := s.prepare(c, &bodies[i], nil, false); err != nil {
			return err
		}
	}
	out := make([]*ledger.Run, len(bodies))
	for i := range bodies {
		run, err := s.createFrom(c, &bodies[i], nil)
		if err != nil {
			return err
		}
		out[i] = created(run)
	}
	return c.json(http.StatusOK, out)
}

func (s runAPI) createAndStream(c *call) error {
	run, b, err := s.createFromBody(c, false)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", runPath(run))
	c.w.Header().Set("Location", runPath(run)+"/stream")
	return s.stream(c, run, 0, true, b.OnDisconnect == "cancel", nil)
}

func (s runAPI) createAndWait(c *call) error {
	run, b, err := s.createFromBody(c, true)
	if err != nil {
		return err
	}
	path := "/threads/" + run.Thread.String() + "/runs/" + run.ID.String()
	c.w.Header().Set("Content-Location", path)
	c.w.Header().Set("Location", path+"/join")
	return s.wait(c, run, true, b.OnDisconnect == "cancel")
}

// named returns the run named in the path, if the caller may read it.
func (s runAPI) named(c *call) (*ledger.Run, *ledger.Filter, error) {
	id, err := c.id("run_id")
	if err != nil {
		return nil, nil, err
	}
	var thread uuid.UUID
	if c.r.PathValue("thread_id") != "" {
		if thread, err = c.id("thread_id"); err != nil {
			return nil, nil, err
		}
	}
	f, err := c.allow(map[string]any{"thread_id": thread.String(), "run_id": id.String()})
	if err != nil {
		return nil, nil, err
	}
	run, err := s.ledger.Run(c.r.Context(), thread, id, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, fail(http.StatusNotFound, "Run %s not found", id)
	}
	return run, f, err
}

func (s runAPI) get(c *call) error {
	run, _, err := s.named(c)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, run)
}

func (s runAPI) list(c *call) error {
	t, f, err := s.threads().named(c)
	if err != nil {
		return err
	}
	q := c.query()
	limit, err := q.int("limit", 10, 1, 1000)
	if err != nil {
		return err
	}
	offset, err := q.int("offset", 0, 0, 1<<30)
	if err != nil {
		return err
	}
	found, err := s.ledger.Runs(c.r.Context(), t.ID, f, ledger.RunStatus(q.Get("status")), ledger.Page{Offset: offset, Limit: limit})
	if err != nil {
		return err
	}
	if fields := q.list("select"); len(fields) > 0 {
		out, err := selected(found, fields)
		if err != nil {
			return err
		}
		return c.json(http.StatusOK, out)
	}
	if found == nil {
		found = []*ledger.Run{}
	}
	return c.json(http.StatusOK, found)
}

func (s runAPI) remove(c *call) error {
	run, f, err := s.named(c)
	if err != nil {
		return err
	}
	if err := s.runner.DeleteRun(c.r.Context(), run.Thread, run.ID, f); err != nil {
		return err
	}
	return c.none()
}

// cancelAction parses the action parameter of a cancel request.
func cancelAction(c *call) (ledger.Action, error) {
	switch a := c.query().Get("action"); a {
	case "", "interrupt":
		return ledger.CancelRun, nil
	case "rollback":
		return ledger.RollbackRun, nil
	default:
		return "", invalid("action", "want interrupt or rollback, not %q", a)
	}
}

func (s runAPI) cancel(c *call) error {
	action, err := cancelAction(c)
	if err != nil {
		return err
	}
	wait, err := c.query().bool("wait")
	if err != nil {
		return err
	}
	run, f, err := s.named(c)
	if err != nil {
		return err
	}
	running, err := s.runner.Cancel(c.r.Context(), run.Thread, []uuid.UUID{run.ID}, action, f)
	if err != nil {
		return err
	}
	if !wait {
		return c.json(http.StatusAccepted, struct{}{})
	}
	if len(running) > 0 {
		if _, err := s.runner.Wait(c.r.Context(), run); err != nil {
			return err
		}
	}
	c.w.Header().Set("Content-Location", runPath(run))
	c.w.Header().Set("Location", runPath(run)+"/join")
	return c.json(http.StatusOK, struct{}{})
}

type cancelBody struct {
	Status string   `json:"status"`
	Thread string   `json:"thread_id"`
	Runs   []string `json:"run_ids"`
}

func (s runAPI) cancelMany(c *call) error {
	action, err := cancelAction(c)
	if err != nil {
		return err
	}
	var b cancelBody
	if err := c.decode(&b); err != nil {
		return err
	}
	f, err := c.allow(map[string]any{"thread_id": b.Thread, "run_ids": b.Runs, "status": b.Status})
	if err != nil {
		return err
	}
	byThread := map[uuid.UUID][]uuid.UUID{}
	switch {
	case b.Thread != "" && len(b.Runs) > 0:
		thread, err := parseID("thread_id", b.Thread)
		if err != nil {
			return err
		}
		for _, text := range b.Runs {
			id, err := parseID("run_ids", text)
			if err != nil {
				return err
			}
			byThread[thread] = append(byThread[thread], id)
		}
	case slices.Contains([]string{"pending", "running", "all"}, b.Status):
		for run, err := range s.ledger.OpenRuns(c.r.Context(), f) {
			if err != nil {
				return err
			}
			if b.Status == "all" || string(run.Status) == b.Status {
				byThread[run.Thread] = append(byThread[run.Thread], run.ID)
			}
		}
	default:
		return invalid("status", "want pending, running or all, or thread_id and run_ids")
	}
	if len(byThread) == 0 {
		return fail(http.StatusNotFound, "No runs found to cancel.")
	}
	for thread, ids := range byThread {
		if _, err := s.runner.Cancel(c.r.Context(), thread, ids, action, f); err != nil && (b.Thread != "" || !errors.Is(err, ledger.ErrNotFound)) {
			return err
		}
	}
	return c.none()
}

func (s runAPI) join(c *call) error {
	run, _, err := s.named(c)
	if err != nil {
		return err
	}
	cancel, err := c.query().bool("cancel_on_disconnect")
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", runPath(run))
	c.w.Header().Set("Location", runPath(run)+"/join")
	return s.wait(c, run, false, cancel)
}

// keepAlive is the interval at which a waiting client receives data.
const keepAlive = 5 * time.Second

// wait responds with the values at the end of the run. While waiting, it writes newlines, which
// JSON ignores, so that proxies keep the connection open.
func (s runAPI) wait(c *call, run *ledger.Run, fresh, cancel bool) error {
	type answer struct {
		data json.RawMessage
		err  error
	}
	done := make(chan answer, 1)
	ctx := c.r.Context()
	go func() {
		data, err := s.valuesAtEnd(ctx, c, run, fresh)
		done <- answer{data, err}
	}()
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	flush := http.NewResponseController(c.w)
	begun := false
	for {
		select {
		case a := <-done:
			switch {
			case a.err == nil:
				c.w.Header().Set("Content-Type", "application/json")
				_, err := c.w.Write(a.data)
				return ignored(err)
			case ctx.Err() != nil:
				s.left(run, cancel)
				return ignored(a.err)
			case begun:
				// The status has been sent. A response that ended here would look complete.
				panic(http.ErrAbortHandler)
			}
			return a.err
		case <-ticker.C:
			c.w.Header().Set("Content-Type", "application/json")
			begun = true
			_, _ = c.w.Write([]byte("\n"))
			_ = flush.Flush()
		}
	}
}

// valuesAtEnd waits for a run to end and returns its final values or its error as JSON.
func (s runAPI) valuesAtEnd(ctx context.Context, c *call, run *ledger.Run, fresh bool) (json.RawMessage, error) {
	e, err := s.runner.End(ctx, run, fresh)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return s.result(c, run)
	case e.End.Lost:
		return nil, runs.ErrStopped
	}
	if data := e.Data(); data != nil {
		return data, nil
	}
	return s.result(c, run)
}

// left cancels the run of a client that disconnects before the run has ended, if cancel is set.
func (s runAPI) left(run *ledger.Run, cancel bool) {
	if !cancel || s.runner.Draining() {
		return
	}
	if err := s.cancelLeft(run); err != nil {
		s.log.Warn("failed to cancel run of disconnected client", "run", run.ID, "error", err)
	}
}

// result returns the result of a run that ended some time ago: its error, or the values of its
// thread, or null if the thread no longer exists.
func (s runAPI) result(c *call, run *ledger.Run) (json.RawMessage, error) {
	now, err := s.ledger.Run(c.r.Context(), run.Thread, run.ID, nil)
	if err == nil && now.Status == ledger.Error && now.Failure != nil {
		return json.Marshal(map[string]*ledger.Failure{"__error__": now.Failure})
	}
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, err
	}
	if run.Temporary {
		return json.RawMessage("null"), nil
	}
	t, err := s.ledger.Thread(c.r.Context(), run.Thread, nil)
	if errors.Is(err, ledger.ErrNotFound) {
		return json.RawMessage("null"), nil
	}
	if err != nil {
		return nil, err
	}
	out, err := s.threads().withValues(c, t, nil)
	if err != nil {
		return nil, err
	}
	return withInterrupts(out), nil
}

// withInterrupts adds a thread's pending interrupts to its values.
func withInterrupts(t *threadJSON) json.RawMessage {
	var byTask map[string][]json.RawMessage
	var values map[string]json.RawMessage
	if json.Unmarshal(t.Interrupts, &byTask) != nil || len(byTask) == 0 || json.Unmarshal(t.Values, &values) != nil || values == nil {
		return t.Values
	}
	all := []json.RawMessage{}
	for _, list := range byTask {
		all = append(all, list...)
	}
	questions, err := json.Marshal(all)
	if err != nil {
		return t.Values
	}
	values["__interrupt__"] = questions
	raw, err := json.Marshal(values)
	if err != nil {
		return t.Values
	}
	return raw
}

func (s runAPI) joinStream(c *call) error {
	run, _, err := s.named(c)
	if err != nil {
		return err
	}
	q := c.query()
	cancel, err := q.bool("cancel_on_disconnect")
	if err != nil {
		return err
	}
	after, err := lastEventID(c.r.Header.Get("Last-Event-ID"))
	if err != nil {
		return err
	}
	modes := q.list("stream_mode")
	c.w.Header().Set("Content-Location", runPath(run))
	c.w.Header().Set("Location", runPath(run)+"/stream")
	return s.stream(c, run, after, false, cancel, modes)
}

// wanted reports whether a frame belongs to one of the modes. No modes means all.
func wanted(modes []string, name string) bool {
	if len(modes) == 0 || name == "metadata" || name == "error" {
		return true
	}
	mode, _, _ := strings.Cut(name, "/")
	if name == "messages" {
		mode = "messages-tuple"
	}
	return slices.Contains(modes, mode)
}
