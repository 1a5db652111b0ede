package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
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
			return nil, &denial{"X-Api-Key: the key is missing or unknown"}
		}
		return found, nil
	}
}
