package server

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

// JWTOptions configures [JWT]. A token is accepted if it is signed by one of the keys: Secret
// with HS256, an RSA key with RS256, or an ECDSA key on the curve P-256 with ES256. The key
// determines the algorithm, not the token.
type JWTOptions struct {
	// Secret is shared with the issuer. It must have at least 32 bytes.
	Secret []byte
	// PublicKeys lists the issuer's keys, *rsa.PublicKey or *ecdsa.PublicKey.
	PublicKeys []crypto.PublicKey
	// JWKS is a file with a JSON Web Key Set, or its https URL. It is read again every ten
	// minutes, and when a token names an unknown key.
	JWKS string
	// Issuer is the required "iss" claim; "" means any.
	Issuer string
	// Audience is the required "aud" claim; "" means any, which accepts tokens that the issuer
	// created for other services.
	Audience string
	// Leeway is the tolerated clock skew; 0 means 30 seconds.
	Leeway time.Duration
	// User maps a token's claims to a caller. nil means that "sub" is the identity, "name" is
	// the display name, "scope" and "permissions" list the permissions, and all claims are
	// kept.
	User func(claims map[string]any) (*User, error)
}

// maxToken is the maximum length of a token.
const maxToken = 16 << 10

// jwt validates tokens.
type jwt struct {
	o    JWTOptions
	keys *keySet // nil without JWKS
	now  func() time.Time
}

// JWT returns an Authenticate function for callers that send a JSON Web Token as
// "Authorization: Bearer TOKEN". Tokens without an expiry time are rejected.
func JWT(o *JWTOptions) (func(*http.Request) (*User, error), error) {
	j, err := newJWT(o)
	if err != nil {
		return nil, err
	}
	return j.authenticate, nil
}

func newJWT(o *JWTOptions) (*jwt, error) {
	if o == nil || o.Secret == nil && len(o.PublicKeys) == 0 && o.JWKS == "" {
		return nil, errors.New("server: JWT: there is no key: set Secret, PublicKeys or JWKS")
	}
	j := &jwt{o: *o, now: time.Now}
	if j.o.Leeway == 0 {
		j.o.Leeway = 30 * time.Second
	}
	if o.Secret != nil && len(o.Secret) < sha256.Size {
		return nil, fmt.Errorf("server: JWT: Secret has %d bytes, and HS256 needs at least %d", len(o.Secret), sha256.Size)
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
		j.keys = keys
	}
	return j, nil
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

func (j *jwt) authenticate(r *http.Request) (*User, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, &denial{"the header Authorization: want Bearer and a token"}
	}
	claims, err := j.verify(r, strings.TrimSpace(token))
	if e, ok := errors.AsType[*keysError](err); ok {
		return nil, e
	}
	if err != nil {
		return nil, &denial{"the token is refused: " + err.Error()}
	}
	if j.o.User != nil {
		return j.o.User(claims)
	}
	return userOf(claims)
}

// verify validates a token and returns its claims.
func (j *jwt) verify(r *http.Request, token string) (map[string]any, error) {
	if len(token) > maxToken {
		return nil, fmt.Errorf("it is longer than %d bytes", maxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("it does not have three parts")
	}
	var head struct {
		Alg  string          `json:"alg"`
		Kid  string          `json:"kid"`
		Crit json.RawMessage `json:"crit"`
	}
	if err := decodePart(parts[0], &head); err != nil {
		return nil, fmt.Errorf("its header: %w", err)
	}
	if head.Crit != nil {
		return nil, errors.New("its header has extensions (crit), of which none is known")
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return nil, errors.New("its signature is not base64")
	}
	if err := j.signed(r, head.Alg, head.Kid, []byte(parts[0]+"."+parts[1]), signature); err != nil {
		return nil, err
	}
	var claims map[string]any
	if err := decodePart(parts[1], &claims); err != nil {
		return nil, fmt.Errorf("its claims: %w", err)
	}
	return claims, j.valid(claims)
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
func (j *jwt) signed(r *http.Request, alg, kid string, data, signature []byte) error {
	sum := sha256.Sum256(data)
	var keys []crypto.PublicKey
	switch alg {
	case "HS256":
		mac := hmac.New(sha256.New, j.o.Secret)
		mac.Write(data)
		if j.o.Secret == nil || !hmac.Equal(mac.Sum(nil), signature) {
			return errors.New("its signature is wrong")
		}
		return nil
	case "RS256", "ES256":
		for _, key := range j.o.PublicKeys {
			if algorithm(key) == alg {
				keys = append(keys, key)
			}
		}
		if j.keys != nil {
			more, err := j.keys.find(r.Context(), alg, kid)
			if err != nil && len(keys) == 0 {
				return err
			}
			keys = append(keys, more...)
		}
	default:
		return fmt.Errorf("its algorithm %.20q is not accepted", alg)
	}
	if !slices.ContainsFunc(keys, func(k crypto.PublicKey) bool { return verifies(k, sum[:], signature) }) {
		return errors.New("its signature is wrong")
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
func (j *jwt) valid(claims map[string]any) error {
	now := j.now()
	exp, err := numericDate(claims, "exp")
	switch {
	case err != nil:
		return err
	case exp.IsZero():
		return errors.New("it has no expiry time (exp)")
	case !now.Before(exp.Add(j.o.Leeway)):
		return errors.New("it has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		from, err := numericDate(claims, name)
		if err != nil {
			return err
		}
		if !from.IsZero() && now.Add(j.o.Leeway).Before(from) {
			return fmt.Errorf("it is not valid yet (%s)", name)
		}
	}
	if j.o.Issuer != "" && claims["iss"] != j.o.Issuer {
		return errors.New("it is from another issuer (iss)")
	}
	if j.o.Audience != "" && !slices.Contains(stringsOf(claims["aud"]), j.o.Audience) {
		return errors.New("it is for another audience (aud)")
	}
	return nil
}

// numericDate returns a time from the claims, or the zero time if the claim is missing.
func numericDate(claims map[string]any, name string) (time.Time, error) {
	v, ok := claims[name]
	if !ok {
		return time.Time{}, nil
	}
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil || math.Abs(f) > 1<<40 {
		return time.Time{}, fmt.Errorf("%s: want seconds since 1970", name)
	}
	return time.Unix(int64(f), 0), nil
}

// stringsOf returns the strings of a claim that is a string or a list of strings.
func stringsOf(v any) []string {
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

// userOf returns the caller described by a token's claims.
func userOf(claims map[string]any) (*User, error) {
	id, _ := claims["sub"].(string)
	if id == "" {
		return nil, &denial{"the token is refused: it has no subject (sub)"}
	}
	u := &User{Identity: id, Permissions: []string{}, Claims: claims}
	u.DisplayName, _ = claims["name"].(string)
	if scope, ok := claims["scope"].(string); ok {
		u.Permissions = append(u.Permissions, strings.Fields(scope)...)
	}
	u.Permissions = append(u.Permissions, stringsOf(claims["permissions"])...)
	return u, nil
}
