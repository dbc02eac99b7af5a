package main

import (
	"hash/fnv"
	"math"
	"strings"
)

// dimension is the length of an embedding: that of all-MiniLM-L6-v2.
const dimension = 384

// embed returns a unit vector that depends on the words of a text alone. It has no meaning: texts that share words are near.
func embed(text string) []float32 {
	vector := make([]float32, dimension)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		hash := fnv.New64a()
		hash.Write([]byte(word))
		addWord(vector, hash.Sum64())
	}
	normalize(vector)
	return vector
}

// addWord adds the pseudo-random vector of a word: xorshift seeded by its hash.
func addWord(vector []float32, state uint64) {
	if state == 0 {
		state = 1
	}
	for at := range vector {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		vector[at] += float32(int32(state>>32)) / (1 << 31)
	}
}

// normalize scales a vector to length one; zeros stay zeros.
func normalize(vector []float32) {
	var sum float64
	for _, value := range vector {
		sum += float64(value) * float64(value)
	}
	if sum == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(sum))
	for at := range vector {
		vector[at] *= scale
	}
}

// dot is the inner product, with four sums so that the additions do not wait for each other.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	at := 0
	for ; at+4 <= len(a); at += 4 {
		s0 += a[at] * b[at]
		s1 += a[at+1] * b[at+1]
		s2 += a[at+2] * b[at+2]
		s3 += a[at+3] * b[at+3]
	}
	for ; at < len(a); at++ {
		s0 += a[at] * b[at]
	}
	return s0 + s1 + s2 + s3
}
