package server

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestJWTMapsClaimsToUser(t *testing.T) {
	if _, err := JWT(nil); err == nil {
		t.Error("nil options accepted")
	}
	secret := bytes.Repeat([]byte("s"), 32)
	authenticate, err := JWT(&JWTOptions{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	for claims, want := range map[string]*User{
		`{"exp":9999999999,"sub":"ann","name":"Ann","scope":"read write","permissions":["admin"],"team":7}`: {Identity: "ann", DisplayName: "Ann", Permissions: []string{"read", "write", "admin"}},
		`{"exp":9999999999,"name":"Ann"}`: nil,
	} {
		data := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(data))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/threads", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+data+"."+base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
		u, err := authenticate(r)
		if want == nil {
			if err == nil || err.Error() != "invalid token: missing subject (sub)" {
				t.Errorf("%s: %+v, %v", claims, u, err)
			}
			continue
		}
		if err != nil || u.Identity != want.Identity || u.DisplayName != want.DisplayName || !slices.Equal(u.Permissions, want.Permissions) || fmt.Sprint(u.Claims["team"]) != "7" {
			t.Errorf("%s: %+v, %v", claims, u, err)
		}
	}
}

func TestAPIKeysReturnUsers(t *testing.T) {
	ann := &User{Identity: "ann"}
	auth := APIKeys(map[string]*User{"key-ann": ann, "key-nobody": nil, "": {Identity: "empty"}})
	for key, want := range map[string]*User{"key-ann": ann, "key-nobody": nil, "": nil, "key-an": nil, "key-annn": nil} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/threads", http.NoBody)
		r.Header.Set("X-Api-Key", key)
		if u, err := auth(r); u != want || (err == nil) != (want != nil) {
			t.Errorf("key %q: %+v, %v", key, u, err)
		}
	}
}

// An unauthenticated caller learns nothing about the key set, and the log contains no secrets.
func TestKeySetFailureStaysInternal(t *testing.T) {
	down := false
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer idp.Close()
	for _, down = range []bool{false, true} {
		auth, err := JWT(&JWTOptions{JWKS: "http://svc:PASSWORD@" + idp.Listener.Addr().String() + "/keys?code=SECRET"})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s := newTestServer(t, &Options{Auth: &Auth{Authenticate: auth}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 2 {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/threads/x", nil)
			r.Header.Set("Authorization", "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.e30.AAAA")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if answer := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(answer, "try again later") || strings.Contains(answer, "127.0.0.1") || strings.Contains(answer, "keys?") {
				t.Errorf("%d %s", w.Code, answer)
			}
			if _, err := auth(r); err == nil || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error is %v", err)
			}
		}
		text := log.String()
		if strings.Contains(text, "PASSWORD") || strings.Contains(text, "SECRET") || strings.Count(text, "failed to read issuer keys") != 1 || !strings.Contains(text, idp.Listener.Addr().String()+"/keys") {
			t.Errorf("the log is %s", text)
		}
	}
	for _, source := range []string{"http://u:SEC RET@127.0.0.1:1/x", "http://u:SEC/RET@127.0.0.1:1/x", "ftp://u:SECRET@example.com/x", "http://u:SECRET@example.com/x?code=SECRET", "https://u:SEC%ZZRET@example.com"} {
		if _, err := JWT(&JWTOptions{JWKS: source}); err == nil || strings.Contains(err.Error(), "SEC") || strings.Contains(err.Error(), "RET") {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestProbesDuringShutdownLogNoErrors(t *testing.T) {
	var log bytes.Buffer
	s := newTestServer(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, body := s.send("", "GET", "/ok", nil); status != 503 || strings.Contains(log.String(), "request failed") {
		t.Errorf("%d %s; log: %s", status, body, log.String())
	}
}

// The text of an error of Auth is logged and not shown, unless it is meant for callers.
func TestAuthErrorsStayInternal(t *testing.T) {
	broken := errors.New("dial postgres://svc:PASSWORD@10.0.0.5: refused")
	user := func(*http.Request) (*User, error) { return &User{Identity: "ann"}, nil }
	for _, tt := range []struct {
		auth   *Auth
		status int
		answer string
		logged bool
	}{
		{&Auth{Authenticate: func(*http.Request) (*User, error) { return nil, broken }}, 401, `{"detail":"Unauthorized"}`, true},
		{&Auth{Authenticate: func(*http.Request) (*User, error) { return nil, &StatusError{418, "no coffee"} }}, 418, `{"detail":"no coffee"}`, false},
		{&Auth{Authenticate: APIKeys(nil)}, 401, `{"detail":"X-Api-Key: missing or unknown key"}`, false},
		{&Auth{Authenticate: user, On: Rules{"*": func(context.Context, *Access) (Decision, error) { return Decision{}, broken }}}, 403, `{"detail":"Forbidden"}`, true},
	} {
		var log bytes.Buffer
		s := newTestServer(t, &Options{Auth: tt.auth, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		status, answer := s.send("", "POST", "/threads", strings.NewReader("{}"))
		if status != tt.status || answer != tt.answer || strings.Contains(log.String(), "svc:***@10.0.0.5") != tt.logged || strings.Contains(log.String(), "PASSWORD") {
			t.Errorf("%d %s; the log is %s", status, answer, log.String())
		}
	}
}
