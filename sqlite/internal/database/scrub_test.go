package database

import "testing"

// Invalid pages are left unchanged.
func FuzzZeroUnused(f *testing.F) {
	page := make([]byte, 512)
	page[0] = 13
	page[4] = 1
	page[5] = 1
	page[6] = 0xf0
	page[8] = 1
	page[9] = 0xf0
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
