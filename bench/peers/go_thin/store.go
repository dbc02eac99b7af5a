package main

import (
	"container/heap"
	"sync"
)

// document is what a caller stores.
type document struct {
	ID       string         `json:"id"`
	Title    string         `json:"title,omitempty"`
	Text     string         `json:"text"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// hit is one result.
type hit struct {
	document
	Score float32 `json:"score"`
}

// store keeps documents and their embeddings in memory, the embeddings in one flat slice.
type store struct {
	mutex     sync.RWMutex
	documents []document
	vectors   []float32
	positions map[string]int
}

func newStore() *store { return &store{positions: map[string]int{}} }

// put adds documents; one with a known id replaces it.
func (s *store) put(documents []document) {
	vectors := make([][]float32, len(documents))
	for at, doc := range documents {
		vectors[at] = embed(doc.Title + " " + doc.Text)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for at, doc := range documents {
		if known, ok := s.positions[doc.ID]; ok {
			s.documents[known] = doc
			copy(s.vectors[known*dimension:], vectors[at])
			continue
		}
		s.positions[doc.ID] = len(s.documents)
		s.documents = append(s.documents, doc)
		s.vectors = append(s.vectors, vectors[at]...)
	}
}

func (s *store) count() int {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	return len(s.documents)
}

// search compares the query with every document and keeps the best in a heap.
func (s *store) search(query string, limit int) []hit {
	vector := embed(query)
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	best := make(worstFirst, 0, limit)
	for at := range s.documents {
		score := dot(vector, s.vectors[at*dimension:(at+1)*dimension])
		if len(best) < limit {
			heap.Push(&best, candidate{score, at})
		} else if score > best[0].score {
			best[0] = candidate{score, at}
			heap.Fix(&best, 0)
		}
	}
	hits := make([]hit, len(best))
	for at := len(hits) - 1; at >= 0; at-- {
		found := heap.Pop(&best).(candidate)
		hits[at] = hit{s.documents[found.position], found.score}
	}
	return hits
}

type candidate struct {
	score    float32
	position int
}

// worstFirst is a heap with the lowest score on top.
type worstFirst []candidate

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(a, b int) bool { return h[a].score < h[b].score }
func (h worstFirst) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *worstFirst) Push(value any)    { *h = append(*h, value.(candidate)) }
func (h *worstFirst) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
