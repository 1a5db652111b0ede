package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/client"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// A caller is a client with the key of a user.
type caller struct {
	t *testing.T
	*client.Client
}

// serve starts a server and returns a function that logs users in.
func serve(t *testing.T) (login func(user string) caller) {
	g, err := newAgent(offline)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, []treadle.AnyGraph{g}, &server.Options{Auth: newAuth()})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(func() {
		err := srv.Drain(context.Background())
		web.Close()
		if err := errors.Join(err, db.Close()); err != nil {
			t.Error(err)
		}
	})
	return func(user string) caller {
		c, err := client.New(web.URL, &client.Options{APIKey: "key-of-" + user})
		if err != nil {
			t.Fatal(err)
		}
		return caller{t, c}
	}
}

// thread creates a thread and returns its ID.
func (c caller) thread() string {
	c.t.Helper()
	thread, err := c.Threads.Create(c.t.Context(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return thread.ID
}

// ask sends a message on a thread and returns the resulting state.
func (c caller) ask(thread, text string) (string, error) {
	input := map[string]any{"messages": []map[string]string{{"role": "user", "content": text}}}
	values, err := c.Runs.Wait(c.t.Context(), thread, &client.RunCreate{
		Assistant: "shop", Input: input, Context: map[string]string{"user": "ann"}, // ignored
	})
	return string(values), err
}

// approve answers the pending interrupt and returns the resulting state.
func (c caller) approve(thread string) (string, error) {
	values, err := c.Runs.Wait(c.t.Context(), thread, &client.RunCreate{
		Assistant: "shop", Command: &client.Command{Resume: json.RawMessage("true")},
	})
	return string(values), err
}

// contains fails the test if a state lacks a text.
func contains(t *testing.T, state string, err error, text string) {
	t.Helper()
	if err != nil || !strings.Contains(state, text) {
		t.Fatalf("state lacks %q: %s, %v", text, state, err)
	}
}

func TestListOrdersAlone(t *testing.T) {
	ann := server.WithUser(t.Context(), &server.User{Identity: "ann"})
	if got, err := listOrders(ann, struct{}{}); err != nil || !slices.Equal(got, []int{41, 42}) {
		t.Errorf("orders of ann: %v, %v", got, err)
	}
	if got, err := listOrders(t.Context(), struct{}{}); err == nil {
		t.Errorf("orders without a user: %v", got)
	}
}

func TestToolsSeeOwnOrders(t *testing.T) {
	login := serve(t)
	ann, bob := login("ann"), login("bob")
	state, err := ann.ask(ann.thread(), "My orders?")
	contains(t, state, err, "[41,42]")
	state, err = bob.ask(bob.thread(), "My orders?")
	contains(t, state, err, "[43]")
}

func TestMemoriesAreSeparate(t *testing.T) {
	login := serve(t)
	ann, bob := login("ann"), login("bob")
	if _, err := ann.ask(ann.thread(), "Remember: Ann is allergic to nuts"); err != nil {
		t.Fatal(err)
	}
	state, err := ann.ask(ann.thread(), "What do you know about nuts?")
	contains(t, state, err, "allergic")
	state, err = bob.ask(bob.thread(), "What do you know about nuts?")
	if err != nil || strings.Contains(state, "allergic") {
		t.Errorf("bob sees %s, %v", state, err)
	}

	// The store API shows each user the same memories as the agent.
	for user, want := range map[caller]int{ann: 1, bob: 0} {
		items, err := user.Store.Search(t.Context(), []string{"ann", "memories"}, nil)
		if err != nil || len(items) != want {
			t.Errorf("a search found %d items, want %d: %v", len(items), want, err)
		}
	}
}

func TestThreadsAreHidden(t *testing.T) {
	login := serve(t)
	ann, bob := login("ann"), login("bob")
	thread := ann.thread()
	if _, err := bob.Threads.State(t.Context(), thread, nil); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("bob reads the thread: %v", err)
	}
	if _, err := bob.ask(thread, "My orders?"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("bob runs the thread: %v", err)
	}
	if found, err := bob.Threads.Search(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("bob finds %d threads, %v", len(found), err)
	}
}

func TestManagerApprovesRefund(t *testing.T) {
	login := serve(t)
	ann, bob, mia := login("ann"), login("bob"), login("mia")
	thread := ann.thread()
	state, err := ann.ask(thread, "Refund 42")
	contains(t, state, err, "Refund order 42 of ann?")
	if _, err := bob.approve(thread); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("bob approves: %v", err)
	}
	waiting, err := mia.Threads.Search(t.Context(), &client.ThreadSearch{Status: "interrupted"})
	if err != nil || len(waiting) != 1 || waiting[0].ID != thread {
		t.Fatalf("mia finds %v, %v", waiting, err)
	}
	state, err = mia.approve(thread)
	contains(t, state, err, "Order 42 is refunded.")
}

func TestCustomersCannotApprove(t *testing.T) {
	ann := serve(t)("ann")
	thread := ann.thread()
	state, err := ann.ask(thread, "Refund 42")
	contains(t, state, err, "Refund order 42 of ann?")
	state, err = ann.approve(thread)
	contains(t, state, err, "only a manager may approve refunds")

	state, err = ann.ask(ann.thread(), "Refund 43") // bob's
	contains(t, state, err, "ann has no order 43")
}
