package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PII is a kind of personal data in texts. [Pattern] defines further kinds.
type PII struct {
	// Name identifies the kind: letters, digits, _ and -.
	Name string

	pattern *regexp.Regexp
	within  func(string) [][]int // finds the data within a match; nil means the whole match
	mask    func(string) string  // nil masks all of it
	longest int                  // maximum length of a match without spaces; 0 if matches may have any length and contain spaces
}

// Predefined kinds of personal data.
var (
	Email = PII{Name: "email", longest: word, mask: maskEmail,
		pattern: regexp.MustCompile(`[\p{L}\p{N}._%+'-]+@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)*\.\p{L}{2,}`)}
	// CreditCard finds numbers of 13 to 19 digits, optionally in groups, with a
	// valid check digit (Luhn).
	CreditCard = PII{Name: "credit_card", longest: digits, mask: maskCard, within: cards,
		pattern: regexp.MustCompile(`\d(?:[ \t\x{a0}\x{2009}\x{202f}_‐‑–-]{0,3}\d){12,}|\d{4}(?:\.\d{4}){2}\.\d{1,7}`)}
	// IP finds IPv4 and IPv6 addresses.
	IP = PII{Name: "ip", longest: word, mask: maskIP, within: ips,
		pattern: regexp.MustCompile(`[\w:.]*[:.][\w:.]*`)}
	MAC = PII{Name: "mac_address", longest: word, mask: maskMAC,
		pattern: regexp.MustCompile(`\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b|\b[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\b`)}
	URL = PII{Name: "url", longest: word,
		pattern: regexp.MustCompile(`(?i)\b(?:https?|ftps?|wss?)://[^\s<>"']*[^\s<>"'.,;:!?)\]]|\bwww\.[^\s<>"']+\.[^\s<>"']*[^\s<>"'.,;:!?)\]]`)}
)

// Values of longest other than a number of bytes.
const (
	word   = -1 // up to the next space
	digits = -2 // over digits, spaces, and dashes
)

// Pattern returns a kind of data defined by a regular expression. longest is the
// maximum length of a match in bytes. While tokens are streamed, that many bytes
// are held back, because they may be the start of a match. If longest is 0, the
// whole text is held back until it is complete.
func Pattern(name string, pattern *regexp.Regexp, longest int) PII {
	return PII{Name: name, pattern: pattern, longest: max(0, longest)}
}

func (p PII) find(s string) [][]int {
	var out [][]int
	for _, at := range p.pattern.FindAllStringIndex(s, -1) {
		match := s[at[0]:at[1]]
		switch {
		case p.within != nil:
			for _, in := range p.within(match) {
				out = append(out, []int{at[0] + in[0], at[0] + in[1]})
			}
		default:
			out = append(out, at)
		}
	}
	return out
}

func (p PII) replace(s string, how Redaction) string {
	switch {
	case how == Hash:
		sum := sha256.Sum256([]byte(s))
		return "<" + p.Name + "_hash:" + hex.EncodeToString(sum[:])[:8] + ">"
	case how == Mask && p.mask != nil:
		return p.mask(s)
	case how == Mask:
		return "[MASKED_" + strings.ToUpper(p.Name) + "]"
	}
	return "[REDACTED_" + strings.ToUpper(p.Name) + "]"
}

// safe returns the length of the prefix of s that cannot be part of a match
// extending past the end of s. The prefix ends after a space, so that the following
// text can be searched separately.
func (p PII) safe(s string) int {
	end := len(s)
	switch {
	case p.longest == 0:
		return 0
	case p.longest == digits:
		end = len(strings.TrimRight(s, "0123456789 \t\u00a0\u2009\u202f_‐‑–-."))
	case p.longest > 0:
		end = max(0, len(s)-p.longest)
	}
	return behindSpace(s[:end])
}

// behindSpace returns the position after the last space of s, or 0.
func behindSpace(s string) int {
	i := strings.LastIndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return 0
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return i + n
}

// cards returns the card numbers in a run of digits that may contain other numbers.
// A card number consists of whole groups of digits and has a valid length and check
// digit.
func cards(run string) (found [][]int) {
	groups := group.FindAllStringIndex(run, -1)
	for i := 0; i < len(groups); i++ {
		last := -1
		for j, n := i, 0; j < len(groups); j++ {
			n += groups[j][1] - groups[j][0]
			if n >= 13 && n <= 19 && luhn(run[groups[i][0]:groups[j][1]]) {
				last = j
			}
		}
		if last >= 0 {
			found = append(found, []int{groups[i][0], groups[last][1]})
			i = last
		}
	}
	return found
}

var group = regexp.MustCompile(`\d+`)

func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] < '0' || s[i] > '9' {
			continue
		}
		d := int(s[i] - '0')
		if double {
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum, double = sum+d, !double
	}
	return sum%10 == 0
}

// ips returns the addresses in a run of letters, digits, colons, and dots, such as
// "peer:12:192.168.1.10:8080".
func ips(run string) (found [][]int) {
	const longest = 45 // ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255
	sep := func(i int) bool { return i < 0 || i >= len(run) || run[i] == ':' || run[i] == '.' }
	for i := 0; i < len(run); i++ {
		if !sep(i-1) || run[i] == '.' || i > 0 && run[i] == ':' && run[i-1] == ':' {
			continue
		}
		for j := min(len(run), i+longest); j > i; j-- {
			if sep(j) && isIP(run[i:j]) {
				found = append(found, []int{i, j})
				i = j
				break
			}
		}
	}
	return found
}

func isIP(s string) bool {
	if v4.MatchString(s) {
		return true
	}
	_, err := netip.ParseAddr(s)
	return err == nil && strings.Contains(s, ":") && s != "::"
}

// v4 also matches numbers with leading zeros.
var v4 = regexp.MustCompile(`^(?:(?:0{0,2}\d|0?\d\d|1\d\d|2[0-4]\d|25[0-5])(?:\.|$)){4}$`)

func maskEmail(s string) string {
	user, host, _ := strings.Cut(s, "@")
	return user + "@****." + host[strings.LastIndexByte(host, '.')+1:]
}

func maskCard(s string) string {
	last := strings.Join(group.FindAllString(s, -1), "")
	last = last[len(last)-4:]
	switch {
	case strings.Contains(s, "-"):
		return "****-****-****-" + last
	case strings.Contains(s, " "):
		return "**** **** **** " + last
	}
	return "************" + last
}

func maskIP(s string) string {
	if i := strings.LastIndexByte(s, '.'); i >= 0 && !strings.Contains(s, ":") {
		return "*.*.*" + s[i:]
	}
	return "****"
}

func maskMAC(s string) string {
	if strings.Contains(s, ".") {
		return "****.****.**" + s[12:]
	}
	return strings.Repeat("**"+s[2:3], 5) + s[15:]
}
