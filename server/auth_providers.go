package server

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/treadle-go/treadle/server/internal/auth"
)

// APIKeys returns an Authenticate function for callers that send one of the given keys in the
// header X-Api-Key. It compares keys in constant time.
func APIKeys(users map[string]*User) func(*http.Request) (*User, error) {
	type entry struct {
		sum  [sha256.Size]byte // same length for all keys
		user *User
	}
	entries := make([]entry, 0, len(users))
	for key, user := range users {
		if key != "" && user != nil {
			entries = append(entries, entry{sha256.Sum256([]byte(key)), user})
		}
	}
	return func(r *http.Request) (*User, error) {
		given := sha256.Sum256([]byte(r.Header.Get("X-Api-Key")))
		var found *User
		for i := range entries { // compare all, so that the time does not reveal which key matched
			if subtle.ConstantTimeCompare(given[:], entries[i].sum[:]) == 1 {
				found = entries[i].user
			}
		}
		if found == nil {
			return nil, &auth.DenialError{Text: "X-Api-Key: missing or unknown key"}
		}
		return found, nil
	}
}

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

// JWT returns an Authenticate function for callers that send a JSON Web Token as
// "Authorization: Bearer TOKEN". Tokens without an expiry time are rejected.
func JWT(opts *JWTOptions) (func(*http.Request) (*User, error), error) {
	if opts == nil {
		opts = &JWTOptions{}
	}
	v, err := auth.New(auth.Options{
		Secret:     opts.Secret,
		PublicKeys: opts.PublicKeys,
		JWKS:       opts.JWKS,
		Issuer:     opts.Issuer,
		Audience:   opts.Audience,
		Leeway:     opts.Leeway,
	})
	if err != nil {
		return nil, err
	}
	user := userOf
	if opts.User != nil {
		user = opts.User
	}
	return func(r *http.Request) (*User, error) {
		claims, err := v.Claims(r)
		if err != nil {
			return nil, err
		}
		return user(claims)
	}, nil
}

// userOf returns the caller described by a token's claims.
func userOf(claims map[string]any) (*User, error) {
	id, _ := claims["sub"].(string)
	if id == "" {
		return nil, &auth.DenialError{Text: "invalid token: missing subject (sub)"}
	}
	u := &User{Identity: id, Permissions: []string{}, Claims: claims}
	u.DisplayName, _ = claims["name"].(string)
	if scope, ok := claims["scope"].(string); ok {
		u.Permissions = append(u.Permissions, strings.Fields(scope)...)
	}
	u.Permissions = append(u.Permissions, auth.Strings(claims["permissions"])...)
	return u, nil
}
