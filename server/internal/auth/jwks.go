package auth

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

// Times and limits of a key set.
const (
	keysFresh  = 10 * time.Minute // age at which the set is read again
	keysStale  = time.Hour        // maximum age while the set cannot be read
	keysRetry  = 30 * time.Second // minimum interval between attempts to read
	keysFetch  = 10 * time.Second // timeout of an attempt
	maxKeySet  = 1 << 20          // bytes
	maxSetKeys = 100
)

// publicKey is a key in a set.
type publicKey struct {
	id  string
	alg string
	key crypto.PublicKey
}

// keySet is a JSON Web Key Set from a file or URL.
type keySet struct {
	source string
	shown  string // source without secrets, for logs
	remote bool
	client *http.Client
	now    func() time.Time

	mu     sync.Mutex
	keys   []publicKey
	loaded time.Time // time of the last successful read
	tried  time.Time // time of the last attempt
}

func newKeySet(source string) (*keySet, error) {
	s := &keySet{source: source, shown: source, now: time.Now}
	if !strings.Contains(source, "://") {
		return s, s.load(context.Background()) // a missing file is a configuration error
	}
	u, err := url.Parse(source)
	if err != nil { // its text contains the URL, which can contain a password
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

// secure returns an error if an attacker on the network could supply keys at the address.
func secure(u *url.URL) error {
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q: want a file or an https URL", shownURL(u))
}

// shownURL returns a URL without possible secrets: the user, the password, and the query.
func shownURL(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// KeysError reports that the issuer's keys cannot be read. Its text is sent to callers, who may
// be anyone, so the cause goes only to the log.
type KeysError struct {
	Cause error // nil if it was reported by an earlier error
}

func (*KeysError) Error() string { return "keys of the issuer unavailable: try again later" }

// find returns the keys that may have signed a token with this header. One caller at a time
// reads the set again; the others wait for it.
func (s *keySet) find(ctx context.Context, alg, id string) ([]crypto.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.match(alg, id)
	now := s.now()
	age := now.Sub(s.loaded)
	var err error
	if (len(found) == 0 || age > keysFresh) && now.Sub(s.tried) >= keysRetry {
		// The set is shared by all callers, so a canceled request must not stop the read.
		if err = s.load(context.WithoutCancel(ctx)); err == nil {
			found = s.match(alg, id)
		}
	}
	if s.now().Sub(s.loaded) > keysStale {
		return nil, &KeysError{err}
	}
	if len(found) == 0 {
		return nil, errors.New("unknown key")
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

// load reads the set. If that fails, the current keys are kept.
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
	if e, ok := errors.AsType[*url.Error](err); ok { // its text contains the URL
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

// parseKeys returns the keys of a set that verify RS256 or ES256. It skips other keys, which an
// issuer may have for other uses.
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
		return nil, errors.New("no key for RS256 or ES256")
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
