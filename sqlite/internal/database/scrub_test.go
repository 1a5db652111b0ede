package database

import "testing"

// Invalid pages are left unchanged.
func FuzzZeroUnused(f *testing.F) {
	page := make([]byte, 512)
	page[0], page[4], page[5], page[6], page[8], page[9] = 13, 1, 1, 0xf0, 1, 0xf0
	f.Add(page, false, 512)
	f.Add(page, true, 512)
	f.Add([]byte{2}, false, 1)
	f.Fuzz(func(t *testing.T, page []byte, first bool, usable int) {
		before := string(page)
		if changed := zeroUnused(page, first, usable); changed != (before != string(page)) {
			t.Errorf("zeroUnused reports %v for a page that has changed: %v", changed, !changed)
		}
		if zeroUnused(page, first, usable) {
			t.Error("a second call changes more bytes")
		}
	})
}
