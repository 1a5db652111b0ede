package server

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// The times of a key set.
const (
	keysFresh  = 10 * time.Minute // it is read again when it is older
	keysStale  = time.Hour        // it is used for so long while it cannot be read
	keysRetry  = 30 * time.Second // between two attempts to read it
	keysFetch  = 10 * time.Second // an attempt may take
	maxKeySet  = 1 << 20          // bytes
	maxSetKeys = 100
)

// publicKey is a key of a set.
type publicKey struct {
	id  string
	alg string
	key crypto.PublicKey
}

// keySet is a JSON Web Key Set in a file or behind a URL.
type keySet struct {
	source string
	shown  string // source without what may be secret, for logs
	remote bool
	client *http.Client
	now    func() time.Time

	mu     sync.Mutex
	keys   []publicKey
	loaded time.Time // when keys were read
	tried  time.Time // when they were last attempted to be read
}

func newKeySet(source string) (*keySet, error) {
	s := &keySet{source: source, shown: source, now: time.Now}
	if !strings.Contains(source, "://") {
		return s, s.load(context.Background()) // a file is there, or the setting is wrong
	}
	u, err := url.Parse(source)
	if err != nil { // whose text contains the URL, which can contain a password
		return nil, errors.New("invalid URL: write special characters of a password as %XX")
	}
	s.shown = shownURL(u)
	if err := secure(u); err != nil {
		return nil, err
	}
	s.remote = true
	s.client = &http.Client{Timeout: keysFetch, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 {
			return errors.New("too many redirects")
		}
		return secure(r.URL)
	}}
	return s, nil
}

// secure is an error for an address by which somebody else could give us keys.
func secure(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q: want a file or an https URL", shownURL(u))
}

// shownURL returns a URL without what may be secret: the user, the password, and the parameters.
func shownURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// keysError says that the keys of the issuer cannot be read. Its text is for callers, who may
// be anyone, so the cause is for the log only.
type keysError struct{ cause error }

func (*keysError) Error() string { return "keys of the issuer unavailable: try again later" }

// find returns the keys that a token with this header may be signed with. One caller
// at a time reads the set again; the others wait for it.
func (s *keySet) find(ctx context.Context, alg, id string) ([]crypto.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.match(alg, id)
	now := s.now()
	age := now.Sub(s.loaded)
	var err error
	if (len(found) == 0 || age > keysFresh) && now.Sub(s.tried) >= keysRetry {
		// The set is for all callers, so one that goes away does not end it.
		if err = s.load(context.WithoutCancel(ctx)); err == nil {
			found = s.match(alg, id)
		}
	}
	if s.now().Sub(s.loaded) > keysStale {
		return nil, &keysError{err}
	}
	if len(found) == 0 {
		return nil, errors.New("its key is unknown")
	}
	return found, nil
}

func (s *keySet) match(alg, id string) (out []crypto.PublicKey) {
	for _, k := range s.keys {
		if k.alg == alg && (id == "" || k.id == id) {
			out = append(out, k.key)
		}
	}
	return out
}

// load reads the set. If that fails, the keys stay as they are.
func (s *keySet) load(ctx context.Context) error {
	s.tried = s.now()
	raw, err := s.read(ctx)
	if err != nil {
		return err
	}
	keys, err := parseKeys(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", s.shown, err)
	}
	s.keys, s.loaded = keys, s.now()
	return nil
}

func (s *keySet) read(ctx context.Context) ([]byte, error) {
	if !s.remote {
		return os.ReadFile(s.source)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.source, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if e, ok := errors.AsType[*url.Error](err); ok { // whose text contains the URL
		err = fmt.Errorf("%s: %w", s.shown, e.Err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s responded with %s", s.shown, resp.Status)
	case len(raw) > maxKeySet:
		return nil, fmt.Errorf("%s is longer than %d bytes", s.shown, maxKeySet)
	}
	return raw, nil
}

// parseKeys reads the keys of a set that verify RS256 and ES256. Others are left out:
// an issuer may have some for other uses.
func parseKeys(raw []byte) ([]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil || set.Keys == nil {
		return nil, errors.New(`want a JSON object with "keys"`)
	}
	var out []publicKey
	for _, raw := range set.Keys {
		if k, ok := parseKey(raw); ok && len(out) < maxSetKeys {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("there is no key for RS256 or ES256")
	}
	return out, nil
}

func parseKey(raw json.RawMessage) (k publicKey, ok bool) {
	var j struct{ Kty, Kid, Use, Alg, Crv, N, E, X, Y string }
	if json.Unmarshal(raw, &j) != nil || j.Use != "" && j.Use != "sig" {
		return k, false
	}
	switch j.Kty {
	case "RSA":
		n, e := number(j.N), number(j.E)
		if n == nil || e == nil || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return k, false
		}
		k.key = &rsa.PublicKey{N: n, E: int(e.Int64())}
	case "EC":
		x, errX := base64.RawURLEncoding.DecodeString(j.X)
		y, errY := base64.RawURLEncoding.DecodeString(j.Y)
		if j.Crv != "P-256" || errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
			return k, false
		}
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		if err != nil {
			return k, false
		}
		k.key = key
	}
	k.id, k.alg = j.Kid, algorithm(k.key)
	return k, k.alg != "" && (j.Alg == "" || j.Alg == k.alg)
}

func number(text string) *big.Int {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 || len(raw) > 2048 {
		return nil
	}
	return new(big.Int).SetBytes(raw)
}
