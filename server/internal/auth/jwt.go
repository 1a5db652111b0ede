// Package auth verifies JSON Web Tokens with keys that are given or published by an issuer.
package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options configures a Verifier. Its fields are those of server.JWTOptions.
type Options struct {
	Secret     []byte             // for HS256
	PublicKeys []crypto.PublicKey // *rsa.PublicKey for RS256, *ecdsa.PublicKey for ES256
	JWKS       string             // file or https URL of a key set
	Issuer     string             // "" means any
	Audience   string             // "" means any
	Leeway     time.Duration      // 0 means 30 seconds
}

// DenialError reports a request that is not authenticated. Its text is sent to the caller.
type DenialError struct{ Text string }

func (e *DenialError) Error() string { return e.Text }

// maxToken is the maximum length of a token.
const maxToken = 16 << 10

// A Verifier validates JSON Web Tokens. It is safe for concurrent use.
type Verifier struct {
	o    Options
	keys *keySet // nil without JWKS
	now  func() time.Time
}

// New returns a verifier. Its errors are those of server.JWT.
func New(o Options) (*Verifier, error) {
	if o.Secret == nil && len(o.PublicKeys) == 0 && o.JWKS == "" {
		return nil, errors.New("server: JWT: no key: set Secret, PublicKeys, or JWKS")
	}
	v := &Verifier{o: o, now: time.Now}
	if v.o.Leeway == 0 {
		v.o.Leeway = 30 * time.Second
	}
	if o.Secret != nil && len(o.Secret) < sha256.Size {
		return nil, fmt.Errorf("server: JWT: Secret has %d bytes: HS256 needs at least %d", len(o.Secret), sha256.Size)
	}
	for i, key := range o.PublicKeys {
		if algorithm(key) == "" {
			return nil, fmt.Errorf("server: JWT: PublicKeys[%d] is %T: want an *rsa.PublicKey of at least 2048 bits or an *ecdsa.PublicKey on P-256", i, key)
		}
	}
	if o.JWKS != "" {
		keys, err := newKeySet(o.JWKS)
		if err != nil {
			return nil, fmt.Errorf("server: JWT: JWKS: %w", err)
		}
		v.keys = keys
	}
	return v, nil
}

// algorithm returns the algorithm that a public key verifies, or "" if the key is unsuitable.
func algorithm(key crypto.PublicKey) string {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key != nil && key.N != nil && key.N.BitLen() >= 2048 {
			return "RS256"
		}
	case *ecdsa.PublicKey:
		if key != nil && key.Curve == elliptic.P256() {
			return "ES256"
		}
	}
	return ""
}

// Claims returns the claims of the token in a request's Authorization header. It returns a
// [*DenialError] if the token is missing or invalid, and a [*KeysError] if the issuer's keys cannot
// be read.
func (v *Verifier) Claims(r *http.Request) (map[string]any, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, &DenialError{"Authorization header: want Bearer and a token"}
	}
	claims, err := v.verify(r, strings.TrimSpace(token))
	if e, ok := errors.AsType[*KeysError](err); ok {
		return nil, e
	}
	if err != nil {
		return nil, &DenialError{"invalid token: " + err.Error()}
	}
	return claims, nil
}

// verify validates a token and returns its claims.
func (v *Verifier) verify(r *http.Request, token string) (map[string]any, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("longer than %d bytes", maxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("want three parts")
	}
	var head struct {
		Alg  string          `json:"alg"`
		Kid  string          `json:"kid"`
		Crit json.RawMessage `json:"crit"`
	}
	if err := decodePart(parts[0], &head); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if head.Crit != nil {
		return nil, errors.New("unsupported header extension (crit)")
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return nil, errors.New("signature is not base64")
	}
	if err := v.signed(r, head.Alg, head.Kid, []byte(parts[0]+"."+parts[1]), signature); err != nil {
		return nil, err
	}
	var claims map[string]any
	if err := decodePart(parts[1], &claims); err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return claims, v.valid(claims)
}

func decodePart(text string, into any) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errors.New("not base64")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(into) != nil {
		return errors.New("not a JSON object")
	}
	return nil
}

// signed verifies the signature with the keys for the algorithm. Keys are chosen by their own
// type, so a token cannot turn a public key into a secret.
func (v *Verifier) signed(r *http.Request, alg, kid string, data, signature []byte) error {
	sum := sha256.Sum256(data)
	var keys []crypto.PublicKey
	switch alg {
	case "HS256":
		mac := hmac.New(sha256.New, v.o.Secret)
		mac.Write(data)
		if v.o.Secret == nil || !hmac.Equal(mac.Sum(nil), signature) {
			return errors.New("invalid signature")
		}
		return nil
	case "RS256", "ES256":
		for _, key := range v.o.PublicKeys {
			if algorithm(key) == alg {
				keys = append(keys, key)
			}
		}
		if v.keys != nil {
			more, err := v.keys.find(r.Context(), alg, kid)
			if err != nil && len(keys) == 0 {
				return err
			}
			keys = append(keys, more...)
		}
	default:
		return fmt.Errorf("unsupported algorithm %.20q", alg)
	}
	if !slices.ContainsFunc(keys, func(k crypto.PublicKey) bool { return verifies(k, sum[:], signature) }) {
		return errors.New("invalid signature")
	}
	return nil
}

func verifies(key crypto.PublicKey, sum, signature []byte) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum, signature) == nil
	case *ecdsa.PublicKey:
		return len(signature) == 64 && ecdsa.Verify(key, sum, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}

// valid checks a token's validity period, issuer, and audience.
func (v *Verifier) valid(claims map[string]any) error {
	now := v.now()
	exp, err := numericDate(claims, "exp")
	switch {
	case err != nil:
		return err
	case exp.IsZero():
		return errors.New("missing expiry time (exp)")
	case !now.Before(exp.Add(v.o.Leeway)):
		return errors.New("expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		from, err := numericDate(claims, name)
		if err != nil {
			return err
		}
		if !from.IsZero() && now.Add(v.o.Leeway).Before(from) {
			return fmt.Errorf("not valid yet (%s)", name)
		}
	}
	if v.o.Issuer != "" && claims["iss"] != v.o.Issuer {
		return errors.New("issuer mismatch (iss)")
	}
	if v.o.Audience != "" && !slices.Contains(Strings(claims["aud"]), v.o.Audience) {
		return errors.New("audience mismatch (aud)")
	}
	return nil
}

// numericDate returns a time from the claims, or the zero time if the claim is missing.
func numericDate(claims map[string]any, name string) (time.Time, error) {
	claim, ok := claims[name]
	if !ok {
		return time.Time{}, nil
	}
	n, _ := claim.(json.Number)
	f, err := n.Float64()
	if err != nil || math.Abs(f) > 1<<40 {
		return time.Time{}, fmt.Errorf("%s: want seconds since 1970", name)
	}
	return time.Unix(int64(f), 0), nil
}

// Strings returns the strings of a claim that is a string or a list of strings.
func Strings(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
