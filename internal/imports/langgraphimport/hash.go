package langgraphimport

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// LangGraph derives task and interrupt IDs with XXH3. This file implements the 128-bit
// hash of the xxHash specification for inputs longer than 16 bytes; all IDs are derived
// from longer inputs.

const (
	prime32a = 0x9E3779B1
	prime32b = 0x85EBCA77
	prime32c = 0xC2B2AE3D
	prime64a = 0x9E3779B185EBCA87
	prime64b = 0xC2B2AE3D27D4EB4F
	prime64c = 0x165667B19E3779F9
	prime64d = 0x85EBCA77C2B2AE63
	prime64e = 0x27D4EB2F165667C5
	primeMix = 0x165667919E3779F9
)

const (
	stripe      = 64
	secretSize  = 192
	secretLeast = 136
	blockSize   = stripe * (secretSize - stripe) / 8
)

// secret is the default secret of XXH3.
var secret, _ = hex.DecodeString("" +
	"b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f" +
	"cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c" +
	"3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
	"a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364" +
	"eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e" +
	"2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// fold multiplies a and b and returns the XOR of the product's two halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func avalanche(h uint64) uint64 {
	h ^= h >> 37
	h *= primeMix
	return h ^ h>>32
}

// hash128 returns the 128-bit XXH3 hash of in as hexadecimal digits. It returns "" if in
// is not longer than 16 bytes.
func hash128(in []byte) string {
	if len(in) <= 16 {
		return ""
	}
	var low, high uint64
	if len(in) > 240 {
		low, high = hashLong(in)
	} else {
		low, high = hashShort(in)
	}
	var out [16]byte
	binary.BigEndian.PutUint64(out[:], high)
	binary.BigEndian.PutUint64(out[8:], low)
	return hex.EncodeToString(out[:])
}

func hashShort(in []byte) (low, high uint64) {
	n := len(in)
	low = uint64(n) * prime64a
	mix := func(a, b, key []byte) {
		pair := func(in, key []byte) uint64 { return fold(word(in)^word(key), word(in[8:])^word(key[8:])) }
		low = (low + pair(a, key)) ^ (word(b) + word(b[8:]))
		high = (high + pair(b, key[16:])) ^ (word(a) + word(a[8:]))
	}
	if n <= 128 {
		for i := (n - 1) / 32; i >= 0; i-- {
			mix(in[16*i:], in[n-16*(i+1):], secret[32*i:])
		}
	} else {
		for i := 0; i < 128; i += 32 {
			mix(in[i:], in[i+16:], secret[i:])
		}
		low, high = avalanche(low), avalanche(high)
		for i := 128; i+32 <= n; i += 32 {
			mix(in[i:], in[i+16:], secret[3+i-128:])
		}
		mix(in[n-16:], in[n-32:], secret[secretLeast-17-16:])
	}
	return avalanche(low + high), -avalanche(low*prime64a + high*prime64d + uint64(n)*prime64b)
}

func hashLong(in []byte) (low, high uint64) {
	acc := [8]uint64{prime32c, prime64a, prime64b, prime64c, prime64d, prime32b, prime64e, prime32a}
	add := func(in, key []byte) {
		for i := range acc {
			v := word(in[8*i:])
			k := v ^ word(key[8*i:])
			acc[i^1] += v
			acc[i] += (k & 0xffffffff) * (k >> 32)
		}
	}
	n := len(in)
	for rest := in; ; rest = rest[blockSize:] {
		whole := len(rest) > blockSize
		stripes := blockSize / stripe
		if !whole {
			stripes = (len(rest) - 1) / stripe
		}
		for i := range stripes {
			add(rest[i*stripe:], secret[8*i:])
		}
		if !whole {
			break
		}
		for i := range acc {
			acc[i] = (acc[i] ^ acc[i]>>47 ^ word(secret[secretSize-stripe+8*i:])) * prime32a
		}
	}
	add(in[n-stripe:], secret[secretSize-stripe-7:])
	merge := func(key []byte, sum uint64) uint64 {
		for i := 0; i < 8; i += 2 {
			sum += fold(acc[i]^word(key[8*i:]), acc[i+1]^word(key[8*i+8:]))
		}
		return avalanche(sum)
	}
	return merge(secret[11:], uint64(n)*prime64a), merge(secret[secretSize-stripe-11:], ^(uint64(n) * prime64b))
}
