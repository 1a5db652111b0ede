package clienttest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/client"
)

// refusing fails every connection as if no server listened.
type refusing struct{}

func (refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

func TestEndedContextKeepsCause(t *testing.T) {
	left := errors.New("user left")
	ends := map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		want error
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, context.DeadlineExceeded},
		"canceled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(2*time.Second, func() { cancel(left) })
			return ctx, func() { cancel(nil) }
		}, left},
	}
	calls := map[string]func(context.Context, *client.Client) error{
		"request": func(ctx context.Context, c *client.Client) error {
			_, err := c.Threads.Create(ctx, nil)
			return err
		},
		"wait": func(ctx context.Context, c *client.Client) error {
			_, err := c.Runs.Wait(ctx, "t", &client.RunCreate{Assistant: "g"})
			return err
		},
		"join": func(ctx context.Context, c *client.Client) error {
			_, err := c.Runs.Join(ctx, "t", "r")
			return err
		},
		"stream": func(ctx context.Context, c *client.Client) error {
			for _, err := range c.Runs.JoinStream(ctx, "t", "r", nil) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	for end, e := range ends {
		for name, call := range calls {
			t.Run(end+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, err := client.New("http://treadle.test", &client.Options{HTTPClient: &http.Client{Transport: refusing{}}})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := e.with(t.Context())
					defer cancel()
					err = call(ctx, c)
					if !errors.Is(err, e.want) || !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("got %v, want %v and connection refused", err, e.want)
					}
				})
			})
		}
	}
}

// silent answers no request.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestSlowServerReportsDeadlineAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("http://treadle.test", &client.Options{HTTPClient: &http.Client{Transport: silent{}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Threads.Create(ctx, nil)
		if want := "client: POST /threads: context deadline exceeded"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
