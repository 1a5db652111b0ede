package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var testRSA = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newEC(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func encode(v any) string {
	raw, ok := v.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			panic(err)
		}
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// sign creates a token with any kind of key.
func sign(t *testing.T, head map[string]any, claims any, key any) string {
	t.Helper()
	data := encode(head) + "." + encode(claims)
	sum := sha256.Sum256([]byte(data))
	var sig []byte
	switch key := key.(type) {
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(data))
		sig = mac.Sum(nil)
	case *rsa.PrivateKey:
		var err error
		if sig, err = rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:]); err != nil {
			t.Fatal(err)
		}
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		sig = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	return data + "." + encode(sig)
}

func bearer(t *testing.T, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/threads", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func claimsFor(id string, more map[string]any) map[string]any {
	out := map[string]any{"sub": id, "exp": time.Now().Add(time.Hour).Unix(), "iss": "https://issuer", "aud": []string{"other", "us"}}
	maps.Copy(out, more)
	return out
}

var secret = []byte(strings.Repeat("s", 32))

func TestClaimsAcceptsEachAlgorithm(t *testing.T) {
	ec := newEC(t)
	auth, err := New(Options{Secret: secret, PublicKeys: []crypto.PublicKey{&testRSA().PublicKey, &ec.PublicKey}, Issuer: "https://issuer", Audience: "us"})
	if err != nil {
		t.Fatal(err)
	}
	for alg, key := range map[string]any{"HS256": secret, "RS256": testRSA(), "ES256": ec} {
		token := sign(t, map[string]any{"alg": alg, "typ": "JWT"}, claimsFor("ann", map[string]any{"name": "Ann", "scope": "read write", "permissions": []string{"admin"}, "team": 7}), key)
		u, err := auth.Claims(bearer(t, token))
		if err != nil {
			t.Errorf("%s: %v", alg, err)
			continue
		}
		if u["sub"] != "ann" || fmt.Sprint(u["team"]) != "7" {
			t.Errorf("%s: claims %v", alg, u)
		}
	}
}

func TestClaimsRejectsInvalidTokens(t *testing.T) {
	ec := newEC(t)
	publicPEM, err := x509.MarshalPKIXPublicKey(&testRSA().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	publicPEM = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicPEM})
	auth, err := New(Options{PublicKeys: []crypto.PublicKey{&testRSA().PublicKey, &ec.PublicKey}, Issuer: "https://issuer", Audience: "us"})
	if err != nil {
		t.Fatal(err)
	}
	rs := map[string]any{"alg": "RS256"}
	good := sign(t, rs, claimsFor("ann", nil), testRSA())
	parts := strings.Split(good, ".")
	hour := time.Now().Add(time.Hour).Unix()
	past := time.Now().Add(-time.Hour).Unix()
	for name, x := range map[string]struct{ token, why string }{
		"none":                           {encode(map[string]any{"alg": "none"}) + "." + parts[1] + ".", "algorithm"},
		"None":                           {encode(map[string]any{"alg": "None"}) + "." + parts[1] + "." + parts[2], "algorithm"},
		"no algorithm":                   {encode(map[string]any{}) + "." + parts[1] + "." + parts[2], "algorithm"},
		"a public key as a secret":       {sign(t, map[string]any{"alg": "HS256"}, claimsFor("ann", nil), publicPEM), "signature"},
		"an empty secret":                {sign(t, map[string]any{"alg": "HS256"}, claimsFor("ann", nil), []byte{}), "signature"},
		"an EC key called RSA":           {sign(t, rs, claimsFor("ann", nil), ec), "signature"},
		"an RSA key called EC":           {sign(t, map[string]any{"alg": "ES256"}, claimsFor("ann", nil), testRSA()), "signature"},
		"another algorithm":              {sign(t, map[string]any{"alg": "RS512"}, claimsFor("ann", nil), testRSA()), "algorithm"},
		"another key":                    {sign(t, map[string]any{"alg": "ES256"}, claimsFor("ann", nil), newEC(t)), "signature"},
		"other claims":                   {parts[0] + "." + encode(claimsFor("eve", nil)) + "." + parts[2], "signature"},
		"an extension":                   {sign(t, map[string]any{"alg": "RS256", "crit": []string{"b64"}}, claimsFor("ann", nil), testRSA()), "crit"},
		"expired":                        {sign(t, rs, claimsFor("ann", map[string]any{"exp": past}), testRSA()), "expired"},
		"no expiry":                      {sign(t, rs, map[string]any{"sub": "ann", "iss": "https://issuer", "aud": "us"}, testRSA()), "exp"},
		"an expiry that is not a number": {sign(t, rs, claimsFor("ann", map[string]any{"exp": "never"}), testRSA()), "exp"},
		"an expiry in another age":       {sign(t, rs, claimsFor("ann", map[string]any{"exp": json.Number("1e300")}), testRSA()), "exp"},
		"not yet valid":                  {sign(t, rs, claimsFor("ann", map[string]any{"nbf": hour}), testRSA()), "nbf"},
		"made tomorrow":                  {sign(t, rs, claimsFor("ann", map[string]any{"iat": hour}), testRSA()), "iat"},
		"another issuer":                 {sign(t, rs, claimsFor("ann", map[string]any{"iss": "https://evil"}), testRSA()), "iss"},
		"another audience":               {sign(t, rs, claimsFor("ann", map[string]any{"aud": "them"}), testRSA()), "aud"},
		"no audience":                    {sign(t, rs, claimsFor("ann", map[string]any{"aud": nil}), testRSA()), "aud"},
		"claims that are a list":         {sign(t, rs, []int{1}, testRSA()), "claims"},
		"two parts":                      {parts[0] + "." + parts[1], "three parts"},
		"four parts":                     {good + ".x", "three parts"},
		"a header that is no base64":     {"%." + parts[1] + "." + parts[2], "header"},
		"a signature with spare bits":    {good + "=", "base64"},
		"a long one":                     {strings.Repeat("a", maxToken+1), "longer"},
		"nothing":                        {"", "Bearer"},
	} {
		u, err := auth.Claims(bearer(t, x.token))
		if err == nil || u != nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	r := bearer(t, good)
	r.Header.Set("Authorization", "Basic "+good)
	if _, err := auth.Claims(r); err == nil {
		t.Error("another scheme is accepted")
	}
}

func TestLeewayToleratesClockSkew(t *testing.T) {
	j, err := New(Options{Secret: secret, Leeway: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	token := sign(t, map[string]any{"alg": "HS256"}, map[string]any{"sub": "a", "exp": 1000, "nbf": 500}, secret)
	for at, ok := range map[int64]bool{439: false, 441: true, 1000: true, 1059: true, 1060: false} {
		j.now = func() time.Time { return time.Unix(at, 0) }
		if _, err := j.Claims(bearer(t, token)); (err == nil) != ok {
			t.Errorf("at %d: %v", at, err)
		}
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	weak := rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no key":          {},
		"a short secret":  {Secret: []byte("short")},
		"an empty secret": {Secret: []byte{}},
		"a weak key":      {PublicKeys: []crypto.PublicKey{&weak}},
		"another curve":   {PublicKeys: []crypto.PublicKey{&p384.PublicKey}},
		"a private key":   {PublicKeys: []crypto.PublicKey{p384}},
		"no file":         {JWKS: filepath.Join(t.TempDir(), "none.json")},
		"plain http":      {JWKS: "http://issuer.example.com/jwks"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// jwk returns a public key in JWK form.
func jwk(id string, key crypto.PublicKey) map[string]any {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": encode(key.N.Bytes()), "e": encode([]byte{1, 0, 1})}
	case *ecdsa.PublicKey:
		raw, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		return map[string]any{"kty": "EC", "kid": id, "crv": "P-256", "x": encode(raw[1:33]), "y": encode(raw[33:])}
	}
	return nil
}

// issuer serves a key set that changes.
type issuer struct {
	keys  atomic.Value
	asked atomic.Int64
	down  atomic.Bool
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.asked.Add(1)
	if i.down.Load() {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"keys": i.keys.Load()}); err != nil {
		panic(err)
	}
}

func TestKeySetFollowsKeyRotation(t *testing.T) {
	one, two := newEC(t), newEC(t)
	var i issuer
	i.keys.Store([]any{map[string]any{"kty": "oct", "k": "eA"}, jwk("1", &one.PublicKey), jwk("r", &testRSA().PublicKey)})
	hs := httptest.NewServer(&i)
	defer hs.Close()
	j, err := New(Options{JWKS: hs.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer j.keys.client.CloseIdleConnections()
	now := time.Now()
	j.keys.now = func() time.Time { return now }
	token := func(id string, key any) string {
		alg := "ES256"
		if key == testRSA() {
			alg = "RS256"
		}
		return sign(t, map[string]any{"alg": alg, "kid": id}, claimsFor("ann", nil), key)
	}
	check := func(what string, token string, ok bool, asked int64) {
		t.Helper()
		if _, err := j.Claims(bearer(t, token)); (err == nil) != ok {
			t.Errorf("%s: %v", what, err)
		}
		if n := i.asked.Load(); n != asked {
			t.Errorf("%s: the issuer received %d requests, want %d", what, n, asked)
		}
	}
	if i.asked.Load() != 0 {
		t.Error("the issuer received a request before the first token")
	}
	check("the first token", token("1", one), true, 1)
	check("the same key", token("1", one), true, 1)
	check("an RSA key", token("r", testRSA()), true, 1)
	check("a key with another ID", token("1", two), false, 1)
	check("an unknown key, too soon to ask", token("2", two), false, 1)
	i.keys.Store([]any{jwk("2", &two.PublicKey)})
	now = now.Add(keysRetry)
	check("a new key", token("2", two), true, 2)
	check("the old key", token("1", one), false, 2)
	now = now.Add(keysFresh + time.Second)
	i.down.Store(true)
	check("the issuer is down", token("2", two), true, 3)
	check("no immediate second request", token("2", two), true, 3)
	now = now.Add(keysStale)
	check("the keys are too old", token("2", two), false, 4)
	i.down.Store(false)
	now = now.Add(keysRetry)
	check("the issuer is back", token("2", two), true, 5)
	i.keys.Store([]any{jwk("3", &one.PublicKey)})
	now = now.Add(keysFresh + time.Second)
	check("a withdrawn key", token("2", two), false, 6)
}

func TestKeySetFromFile(t *testing.T) {
	one, two := newEC(t), newEC(t)
	name := filepath.Join(t.TempDir(), "jwks.json")
	write := func(key *ecdsa.PrivateKey, id string) {
		raw, err := json.Marshal(map[string]any{"keys": []any{jwk(id, &key.PublicKey)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one, "1")
	j, err := New(Options{JWKS: name})
	if err != nil {
		t.Fatal(err)
	}
	token := func(id string, key *ecdsa.PrivateKey) string {
		return sign(t, map[string]any{"alg": "ES256", "kid": id}, claimsFor("ann", nil), key)
	}
	if _, err := j.Claims(bearer(t, token("1", one))); err != nil {
		t.Error(err)
	}
	if _, err := j.Claims(bearer(t, sign(t, map[string]any{"alg": "ES256"}, claimsFor("ann", nil), one))); err != nil {
		t.Errorf("a token that does not name its key: %v", err)
	}
	write(two, "2")
	j.keys.now = func() time.Time { return time.Now().Add(keysRetry) }
	if _, err := j.Claims(bearer(t, token("2", two))); err != nil {
		t.Errorf("after the file changed: %v", err)
	}
	for _, bad := range []string{"", "[]", `{"keys":[]}`, `{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`} {
		if _, err := parseKeys([]byte(bad)); err == nil {
			t.Errorf("the set %q is accepted", bad)
		}
	}
}
