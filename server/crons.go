package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/runs"
)

// cronBody contains the fields of a cron request that do not concern its runs.
type cronBody struct {
	Schedule    *string         `json:"schedule"`
	Timezone    *string         `json:"timezone"`
	End         json.RawMessage `json:"end_time"`
	OnCompleted *string         `json:"on_run_completed"`
	Enabled     *bool           `json:"enabled"`
}

// cronRequest is the body of a request about a cron: the cron's own fields and those of its
// runs.
type cronRequest struct {
	cronBody
	runBody
}

// maxSchedule is the maximum length of a schedule.
const maxSchedule = 1024

// change applies a request to a cron. raw is the original request, whose run fields are kept
// for the cron's runs.
func (b *cronBody) change(c *ledger.Cron, raw json.RawMessage) error {
	if b.Schedule != nil {
		c.Schedule = *b.Schedule
		if len(c.Schedule) > maxSchedule {
			return invalid("schedule", "longer than %d bytes", maxSchedule)
		}
	}
	if b.Timezone != nil {
		c.Timezone = b.Timezone
	}
	if b.Enabled != nil {
		c.Enabled = *b.Enabled
	}
	if b.OnCompleted != nil {
		if !slices.Contains([]string{"delete", "keep"}, *b.OnCompleted) {
			return invalid("on_run_completed", "want delete or keep, not %q", *b.OnCompleted)
		}
		c.OnCompleted = *b.OnCompleted
	}
	if err := b.end(c); err != nil {
		return err
	}
	payload, err := overlay(c.Payload, raw)
	if err != nil {
		return err
	}
	c.Payload = payload
	next, err := runs.NextTime(c, time.Now())
	if err != nil {
		return invalid("schedule", "%v", err)
	}
	c.Next = next
	return nil
}

// end parses the end time of the cron; null means never.
func (b *cronBody) end(c *ledger.Cron) error {
	if len(b.End) == 0 {
		return nil
	}
	c.End = nil
	if string(b.End) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(b.End, &text); err != nil {
		return invalid("end_time", "want a time")
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			t = t.UTC()
			c.End = &t
			return nil
		}
	}
	return invalid("end_time", "%q is not a time such as 2026-01-31T12:00:00Z", text)
}

// overlay returns old with the keys of add, which take precedence.
func overlay(old, add json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	for _, raw := range []json.RawMessage{old, add} {
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &all); err != nil {
				return nil, err
			}
		}
	}
	for _, key := range []string{"schedule", "timezone", "end_time", "on_run_completed", "enabled"} {
		delete(all, key)
	}
	return json.Marshal(all)
}

func (s cronAPI) create(c *call) error {
	raw, err := c.body()
	if err != nil {
		return err
	}
	var b cronRequest
	if err := decodeJSON(raw, &b); err != nil {
		return err
	}
	if b.Schedule == nil {
		return invalid("schedule", "required")
	}
	b.Metadata = unforged(b.Metadata)
	if err := errors.Join(b.check(), s.runs().checkHook(b.Webhook)); err != nil {
		return err
	}
	a, err := s.assistants().usable(c, b.Assistant, false)
	if err != nil {
		return err
	}
	cron := &ledger.Cron{ID: uuid.Must(uuid.NewV7()), Assistant: a.ID, Enabled: true, OnCompleted: "delete", Metadata: orObject(b.Metadata)}
	if c.r.PathValue("thread_id") != "" {
		id, err := c.id("thread_id")
		if err != nil {
			return err
		}
		f, err := c.may("threads", "create_run", map[string]any{"thread_id": id.String()})
		if err != nil {
			return err
		}
		_, err = s.ledger.Thread(c.r.Context(), id, f)
		if errors.Is(err, ledger.ErrNotFound) {
			return fail(http.StatusNotFound, "Thread with ID %s not found", id)
		}
		if err != nil {
			return err
		}
		cron.Thread = &id
	}
	value := map[string]any{"cron_id": cron.ID.String(), "metadata": map[string]any(cron.Metadata), "schedule": *b.Schedule}
	if _, err := c.allow(value); err != nil {
		return err
	}
	cron.Metadata = metadataOf(value, cron.Metadata)
	if c.user != nil {
		cron.UserID = &c.user.Identity
		if cron.Creator, err = json.Marshal(c.user); err != nil {
			return err
		}
	}
	if err := b.change(cron, raw); err != nil {
		return err
	}
	if err := address(cron, a); err != nil {
		return err
	}
	if err := s.ledger.CreateCron(c.r.Context(), cron); err != nil {
		return err
	}
	s.runner.Wake()
	return c.json(http.StatusOK, cron)
}

// address adds the assistant ID and the metadata to the payload, and the cron ID to the
// configuration of its runs. It removes the keys that only the server sets.
func address(cron *ledger.Cron, a *ledger.Assistant) error {
	var payload ledger.Object
	if err := json.Unmarshal(cron.Payload, &payload); err != nil {
		return err
	}
	for key, v := range payload {
		part, isObject := v.(map[string]any)
		if isObject && slices.ContainsFunc([]string{"config", "context", "metadata"}, func(s string) bool { return strings.EqualFold(s, key) }) {
			payload[key] = map[string]any(unforged(part))
		}
	}
	payload["assistant_id"] = a.ID.String()
	config, _ := payload["config"].(map[string]any)
	if config == nil {
		config = map[string]any{}
	}
	conf, _ := config["configurable"].(map[string]any)
	if conf == nil {
		conf = map[string]any{}
	}
	if payload["metadata"] != nil || len(cron.Metadata) > 0 {
		payload["metadata"] = cron.Metadata // as an Auth handler may have changed it
	}
	conf["cron_id"] = cron.ID.String()
	config["configurable"] = conf
	payload["config"] = config
	raw, err := json.Marshal(payload)
	cron.Payload = raw
	return err
}

// named returns the cron named in the path, if the caller may access it. value contains the
// other parameters of the request.
func (s cronAPI) named(c *call, value map[string]any) (*ledger.Cron, *ledger.Filter, error) {
	id, err := c.id("cron_id")
	if err != nil {
		return nil, nil, err
	}
	value["cron_id"] = id.String()
	f, err := c.allow(value)
	if err != nil {
		return nil, nil, err
	}
	cron, err := s.ledger.Cron(c.r.Context(), id, f)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil, fail(http.StatusNotFound, "Cron %s not found", id)
	}
	return cron, f, err
}

func (s cronAPI) get(c *call) error {
	cron, _, err := s.named(c, map[string]any{})
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, cron)
}

func (s cronAPI) patch(c *call) error {
	raw, err := c.body()
	if err != nil {
		return err
	}
	var b cronRequest
	if err := decodeJSON(raw, &b); err != nil {
		return err
	}
	b.Metadata = unforged(b.Metadata)
	if err := errors.Join(b.checkFields(), s.runs().checkHook(b.Webhook)); err != nil {
		return err
	}
	value := map[string]any{}
	if b.Metadata != nil {
		value["metadata"] = map[string]any(b.Metadata)
	}
	cron, f, err := s.named(c, value)
	if err != nil {
		return err
	}
	if b.Metadata != nil {
		b.Metadata = metadataOf(value, b.Metadata)
	}
	var a *ledger.Assistant
	if b.Assistant != "" {
		if a, err = s.assistants().usable(c, b.Assistant, false); err != nil {
			return err
		}
	}
	cron, err = s.ledger.PatchCron(c.r.Context(), cron.ID, f, func(cron *ledger.Cron) error {
		if b.Metadata != nil {
			cron.Metadata = b.Metadata
		}
		if err := b.change(cron, raw); err != nil {
			return err
		}
		if a != nil {
			cron.Assistant = a.ID
		}
		return address(cron, &ledger.Assistant{ID: cron.Assistant})
	})
	if err != nil {
		return err
	}
	s.runner.Wake()
	return c.json(http.StatusOK, cron)
}

func (s cronAPI) remove(c *call) error {
	cron, f, err := s.named(c, map[string]any{})
	if err != nil {
		return err
	}
	if err := s.ledger.DeleteCron(c.r.Context(), cron.ID, f); err != nil {
		return err
	}
	return c.none()
}

type cronSearch struct {
	searchBody
	Assistant *string `json:"assistant_id"`
	Thread    *string `json:"thread_id"`
	Enabled   *bool   `json:"enabled"`
}

func (s cronAPI) query(c *call) (*ledger.CronQuery, *searchBody, error) {
	var b cronSearch
	if err := c.decode(&b); err != nil {
		return nil, nil, err
	}
	p, err := b.page("cron_id", "assistant_id", "thread_id", "next_run_date", "end_time", "created_at", "updated_at")
	if err != nil {
		return nil, nil, err
	}
	value := map[string]any{"metadata": map[string]any(orObject(b.Metadata))}
	f, err := c.allow(value)
	if err != nil {
		return nil, nil, err
	}
	q := &ledger.CronQuery{Filter: searchFilter(value, b.Metadata, f), Enabled: b.Enabled, Page: p}
	if b.Assistant != nil {
		a, err := s.assistants().usable(c, *b.Assistant, false)
		if err != nil {
			return nil, nil, err
		}
		q.Assistant = a.ID
	}
	if b.Thread != nil {
		if q.Thread, err = parseID("thread_id", *b.Thread); err != nil {
			return nil, nil, err
		}
	}
	return q, &b.searchBody, nil
}

func (s cronAPI) search(c *call) error {
	q, b, err := s.query(c)
	if err != nil {
		return err
	}
	found, total, err := s.ledger.Crons(c.r.Context(), q)
	if err != nil {
		return err
	}
	return list(c, found, total, q.Page, b.Select)
}

func (s cronAPI) count(c *call) error {
	q, _, err := s.query(c)
	if err != nil {
		return err
	}
	q.Page = ledger.Page{Limit: 1}
	_, total, err := s.ledger.Crons(c.r.Context(), q)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, total)
}

// creatorOf returns the user who created a cron, or nil if the cron was created without
// authentication. A cron stored by an earlier version contains only the user's identity.
func creatorOf(cron *ledger.Cron) (*User, error) {
	switch {
	case len(cron.Creator) > 0:
		u := &User{}
		return u, decodeJSON(cron.Creator, u)
	case cron.UserID != nil:
		return &User{Identity: *cron.UserID, Permissions: []string{}}, nil
	}
	return nil, nil
}

// cronRun creates the run of a due cron. The run acts for the user who created the cron. Its ID
// is derived from the cron and the time, so that two processes create the same run.
func (s *Server) cronRun(ctx context.Context, cron *ledger.Cron, at time.Time) (*ledger.NewRun, error) {
	var b runBody
	if err := json.Unmarshal(cron.Payload, &b); err != nil {
		return nil, err
	}
	if cron.Thread == nil && cron.OnCompleted == "keep" {
		b.OnCompletion = "keep"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/runs", nil)
	if err != nil {
		return nil, err
	}
	inner := newCall(s, nil, r)
	inner.own, inner.cron = true, cron.ID.String()
	if inner.user, err = creatorOf(cron); err != nil {
		return nil, err
	}
	b.id = uuid.NewSHA1(cron.ID, []byte(at.UTC().Format(time.RFC3339)))
	n, err := s.runs().prepare(inner, &b, cron.Thread, false)
	if err != nil {
		return nil, err
	}
	if n.Create != nil {
		maps.Copy(n.Create.Metadata, cron.Metadata)
	}
	return n, nil
}
